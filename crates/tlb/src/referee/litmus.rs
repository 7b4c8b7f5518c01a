// SPDX-License-Identifier: GPL-2.0-only
//! The litmus tests of `litmus_table.rs` on the small machine of `tests.rs`.

use super::litmus_table::{AGREED, DIFFERENT, LISTED_LATER, Test, Verdict};
use super::tests::World;
use super::{Referee, Regime};

/// Does the referee speak of the last access?
fn speaks((_, first, steps, _): Test) -> bool {
    let mut world = World::new(Referee::new(4, Regime::arm64(0)).strict());
    match first.split_once(' ') {
        Some((_, "hole")) => world.run("0 unlink u"),
        Some(_) => world.run(&format!("0 set {first}")),
        None => &mut world,
    };
    world.run("0 dsb; 0 allis; 0 dsb; 0 isb; 1 isb; 2 isb; 3 isb");
    world.run(steps);
    let list = world.findings().list;
    list.iter().any(|f| f.usage.pc == world.accessed)
}

#[test]
fn the_referee_judges_as_published() {
    for test in AGREED.into_iter().chain(LISTED_LATER) {
        assert_eq!(speaks(test), test.3 == Verdict::Allowed, "{}", test.0);
    }
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
