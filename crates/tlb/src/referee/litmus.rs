// SPDX-License-Identifier: GPL-2.0-only
//! The litmus tests of `litmus_table.rs` on the small machine of `tests.rs`, and those of
//! herdtools7 in which a block takes a table's place.

use super::litmus_table::Verdict::{Allowed, Forbidden};
use super::litmus_table::{AGREED, DIFFERENT, LISTED_LATER, Test, Verdict};
use super::tests::World;
use super::{Referee, Regime};

/// Tests of `herd/herdtools7`, pull request 1446 (3f5ba65b0d4f, not merged), by name. The verdict
/// is on the outcome that not the new entry decides, by `herd/tests/instructions/AArch64.kvm/*.expected`
/// there; herd takes FEAT_ETS2 for granted, and nothing is fetched from `x`.
#[rustfmt::skip]
const HERDTOOLS: [Test; 3] = [
    ("TABT001", "u p+xn", "0 unlink u; 0 dsb; 0 tlbi u; 0 dsb; 0 read u", Forbidden),
    ("TABT003", "u p+xn", "0 unlink u; 0 dsb; 0 tlbi u; 0 dsb; 0 block u p+ro; 0 dsb; 0 write u", Allowed),
    ("TABT005", "u p+xn", "0 unlink u; 0 dsb; 0 tlbi u; 0 dsb; 0 block u p+old; 0 dsb; 0 read u", Allowed),
];

/// Does the referee speak of the last access?
fn speaks(test: Test) -> bool {
    speaks_with(false, test)
}

fn speaks_with(ets2: bool, (_, first, steps, _): Test) -> bool {
    let referee = Referee::new(4, Regime::arm64(0)).strict().ets2(ets2);
    let mut world = World::new(referee);
    match first.split_once(' ') {
        Some((_, "hole")) => world.run("0 unlink u"),
        Some(_) => world.run(&format!("0 set {first}")),
        None => &mut world,
    };
    world.run("0 dsb; 0 allis; 0 dsb; 0 isb; 1 isb; 2 isb; 3 isb");
    world.run(steps);
    let list = world.findings().list;
    list.iter().any(|f| f.usage.code.pc == world.accessed)
}

#[test]
fn the_referee_judges_as_published() {
    for test in AGREED.into_iter().chain(LISTED_LATER) {
        assert_eq!(speaks(test), test.3 == Verdict::Allowed, "{}", test.0);
    }
}

#[test]
fn a_block_in_a_tables_place_is_judged_as_published() {
    for test in HERDTOOLS {
        assert_eq!(speaks_with(true, test), test.3 == Allowed, "{}", test.0);
    }
    // What FEAT_ETS2 makes of the first.
    assert!(speaks_with(false, HERDTOOLS[0]));
}

#[test]
fn where_it_does_not_it_is_known_why() {
    for (test, why) in DIFFERENT {
        assert_ne!(
            speaks(test),
            test.3 == Verdict::Allowed,
            "{}: {why}",
            test.0
        );
    }
}
