// SPDX-License-Identifier: GPL-2.0-only
//! Litmus tests of the Arm virtual-memory model, in the spelling of `tests.rs`.
//!
//! Names and verdicts are those of Simner et al., "Relaxed virtual memory in
//! Armv8-A" (ESOP 2022), strong model with ETS, as published in
//! `rems-project/system-semantics-arm-axiomatic-models`
//! (`isla_machinery/esop_test_results.csv`). The referee has to speak where the
//! stale outcome is allowed and to be silent where it is forbidden.
//!
//! Threads run one after the other here, in the order that the outcome asks
//! for. `x` is mapped to `a` at first, unless it is to become valid; then it is
//! invalid.

use super::Referee;
use super::tests::World;

/// The published verdict on the stale outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Allowed,
    Forbidden,
}
use Verdict::{Allowed, Forbidden};

const MAPPED: &str = "0 set x a";

type Test = (&'static str, &'static str, &'static str, Verdict);

/// Where the referee agrees.
const AGREED: [Test; 24] = [
    ("CoWinvT+po", MAPPED, "0 inv x; 0 read x", Allowed),
    (
        "CoWinvT+dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 0 isb; 0 read x",
        Allowed,
    ),
    (
        "CoWinvT.EL1+dsb-tlbi-dsb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 read x",
        Allowed,
    ),
    (
        "CoWinvT.EL1+dsb-tlbi-dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 isb; 0 read x",
        Forbidden,
    ),
    (
        "CoWinvT.EL1+dsb-tlbiis-dsb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 read x",
        Allowed,
    ),
    (
        "CoWinvT.EL1+dsb-tlbiis-dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 isb; 0 read x",
        Forbidden,
    ),
    (
        "CoWinvTa1.1+dsb-tlbiasidis-dsb-eret",
        MAPPED,
        "0 inv x; 0 dsb; 0 asidis 1; 0 dsb; 0 isb; 0 read x",
        Forbidden,
    ),
    (
        "CoWinvTa2.1+dsb-tlbiasidis-dsb-eret",
        MAPPED,
        "0 inv x; 0 dsb; 0 asidis 2; 0 dsb; 0 isb; 0 read x",
        Allowed,
    ),
    ("CoRpteT+dsb", MAPPED, "1 inv x; 0 dsb; 0 read x", Allowed),
    (
        "CoRpteT+dsb-isb",
        MAPPED,
        "1 inv x; 0 dsb; 0 isb; 0 read x",
        Allowed,
    ),
    ("CoTfT+po", MAPPED, "1 inv x; 0 fault x; 0 read x", Allowed),
    (
        "CoTfT+dsb-isb",
        MAPPED,
        "1 inv x; 0 fault x; 0 dsb; 0 isb; 0 read x",
        Allowed,
    ),
    ("CoWTf.inv+po", "", "0 set x a; 0 read x", Allowed),
    (
        "CoWTf.inv+dsb-isb",
        "",
        "0 set x a; 0 dsb; 0 isb; 0 read x",
        Forbidden,
    ),
    (
        "CoWTf.inv+poloc-ctrl-isb",
        "",
        "0 set x a; 0 isb; 0 read x",
        Allowed,
    ),
    ("CoWTf.inv+svc", "", "0 set x a; 0 isb; 0 read x", Allowed),
    (
        "CoWTf.inv.EL1+eret",
        "",
        "0 set x a; 0 isb; 0 read x",
        Allowed,
    ),
    (
        "CoWTf.inv.EL1+dsb-eret",
        "",
        "0 set x a; 0 dsb; 0 isb; 0 read x",
        Forbidden,
    ),
    (
        "MP.RT.EL1+dsb-tlbi-dsb+dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 1 dsb; 1 isb; 1 read x",
        Allowed,
    ),
    (
        "MP.RT.EL1+dsb-tlbiis-dsb+dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 1 dsb; 1 isb; 1 read x",
        Forbidden,
    ),
    (
        "MP.RT.EL1+dsb+dsb-tlbi-dsb+dsb+dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 1 dsb; 1 tlbi x; 1 dsb; 2 dsb; 3 dsb; 3 isb; 3 read x",
        Allowed,
    ),
    (
        "MP.RT.EL1+dsb+dsb-tlbiis-dsb+dsb+dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 1 dsb; 1 tlbiis x; 1 dsb; 2 dsb; 3 dsb; 3 isb; 3 read x",
        Forbidden,
    ),
    (
        "MP.BBM1+dsb-tlbiis-dsb-dsb+dsb-isb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 set x b; 0 dsb; 1 dsb; 1 isb; 1 read x",
        Forbidden,
    ),
    (
        "RBS+dsb-tlbiis-dsb",
        MAPPED,
        "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 1 read x",
        Forbidden,
    ),
];

/// Where it does not, and why.
const DIFFERENT: [(Test, &str); 3] = [
    (
        (
            "CoRpteT.EL1+dsb-tlbi-dsb",
            MAPPED,
            "1 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 read x",
            Forbidden,
        ),
        "who reads a store is not followed: a flush counts once the CPU that stored has had a DSB",
    ),
    (
        (
            "MP.RT.EL1+dsb-tlbiis-dsb+dmb",
            MAPPED,
            "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 1 read x",
            Allowed,
        ),
        "the reader's translation was early; guests run in order here",
    ),
    (
        (
            "CoRpteTf.inv+dsb",
            "",
            "1 set x a; 0 dsb; 0 read x",
            Allowed,
        ),
        "new entries are watched on the CPU that made them only",
    ),
];

fn speaks((_, set_up, program, _): Test) -> bool {
    let mut world = World::new(Referee::new(4, 0, false).strict());
    world
        .run(set_up)
        .run("0 dsb; 0 allis; 0 dsb; 0 isb")
        .run(program);
    !world.findings().is_clean()
}

#[test]
fn the_referee_judges_as_published() {
    for test in AGREED {
        assert_eq!(speaks(test), test.3 == Allowed, "{}", test.0);
    }
}

#[test]
fn where_it_does_not_it_is_known_why() {
    for (test, why) in DIFFERENT {
        assert_ne!(speaks(test), test.3 == Allowed, "{}: {why}", test.0);
    }
}
