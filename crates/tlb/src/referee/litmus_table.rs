// SPDX-License-Identifier: GPL-2.0-only
//! Litmus tests of the Arm virtual-memory model, each as what its CPUs do, in
//! the order that the outcome in question asks for.
//!
//! Names and verdicts are those of Simner et al., "Relaxed virtual memory in
//! Armv8-A" (ESOP 2022), strong model with ETS, as published in
//! `rems-project/system-semantics-arm-axiomatic-models`
//! (`isla_machinery/esop_test_results.csv`). The referee has to speak of the
//! last access where the stale outcome is allowed, and to be silent where it
//! is forbidden. Two machines run this table: that of `tests.rs`, and QEMU
//! with the plugin (`crates/plugin/tests/litmus.rs`).
//!
//! `x` and `y` are pages, `u` and `v` two below another table; `a`, `a1`, `b` are
//! what they can be mapped to. At first nothing is mapped but what the second
//! column says (`u hole`: not even the table is there), and no TLB holds
//! anything else. A step is a CPU, then one of
//!
//! ```text
//! set VA PAGE[+ro]   inv VA   link VA (its table)   unlink VA   load VA (its entry, as data)
//! read VA   write VA   fail VA (a read that faults)   flag (tell another CPU)   seen (be told)
//! dmb   dsb   isb   svc   eret   tlbi VA   tlbiis VA   asidis ASID   allis
//! ```
//!
//! All run at EL1 under ASID 1. Those of the tests that run at EL0 or EL2 do
//! not differ there in what they ask. What is left out, and why, is in
//! `docs/results/judges.md`.

/// The published verdict on the stale outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A CPU may do it.
    Allowed,
    /// None does.
    Forbidden,
}
use Verdict::{Allowed, Forbidden};

/// Name, what is mapped at first, steps, verdict.
pub type Test = (&'static str, &'static str, &'static str, Verdict);

/// Where the referee agrees.
#[rustfmt::skip]
pub const AGREED: [Test; 52] = [
    ("BBM+dsb-tlbiis-dsb", "x a", "0 inv x; 0 dsb; 1 read x; 0 tlbiis x; 0 dsb; 0 set x b", Allowed),
    ("BBM.Tf+dsb-tlbiis-dsb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 set x b; 1 read x", Allowed),
    ("CoRpteT+dsb", "x a", "0 inv x; 1 load x; 1 dsb; 1 read x", Allowed),
    ("CoRpteT+dsb-isb", "x a", "0 inv x; 1 load x; 1 dsb; 1 isb; 1 read x", Allowed),
    ("CoRpteT.EL1+dsb-tlbi-dsb-isb", "x a", "0 inv x; 1 load x; 1 dsb; 1 tlbi x; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("CoRpteTf.inv+dsb", "", "0 set x a; 1 load x; 1 dsb; 1 read x", Allowed),
    ("CoRpteTf.inv+dsb-isb", "", "0 set x a; 1 load x; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("CoTTf.inv+dsb-isb", "", "0 set x a; 1 read x; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("CoTTf.inv+po", "", "0 set x a; 1 read x; 1 read x", Allowed),
    ("CoTfT+dsb-isb", "x a", "0 inv x; 1 read x; 1 dsb; 1 isb; 1 read x", Allowed),
    ("CoTfT+po", "x a", "0 inv x; 1 read x; 1 read x", Allowed),
    ("CoWTa1.1.inv+dsb-tlbiasidis-dsb-eret", "", "0 set x a; 0 dsb; 0 asidis 1; 0 dsb; 0 eret; 0 read x", Forbidden),
    ("CoWTa2.1.inv+dsb-tlbiasidis-dsb-eret", "", "0 set x a; 0 dsb; 0 asidis 2; 0 dsb; 0 eret; 0 read x", Forbidden),
    ("CoWTf.inv+dsb-isb", "", "0 set x a; 0 dsb; 0 isb; 0 read x", Forbidden),
    ("CoWTf.inv+po", "", "0 set x a; 0 read x", Allowed),
    ("CoWTf.inv+poloc-ctrl-isb", "", "0 set x a; 0 load x; 0 isb; 0 read x", Allowed),
    ("CoWTf.inv+svc", "", "0 set x a; 0 svc; 0 read x", Allowed),
    ("CoWTf.inv.EL1+dsb-eret", "", "0 set x a; 0 dsb; 0 eret; 0 read x", Forbidden),
    ("CoWTf.inv.EL1+dsb-svc", "", "0 set x a; 0 dsb; 0 svc; 0 read x", Forbidden),
    ("CoWTf.inv.EL1+eret", "", "0 set x a; 0 eret; 0 read x", Allowed),
    ("CoWinvT+dsb-isb", "x a", "0 inv x; 0 dsb; 0 isb; 0 read x", Allowed),
    ("CoWinvT+po", "x a", "0 inv x; 0 read x", Allowed),
    ("CoWinvT.EL1+dsb-tlbi-dsb", "x a", "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 read x", Allowed),
    ("CoWinvT.EL1+dsb-tlbi-dsb-isb", "x a", "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 isb; 0 read x", Forbidden),
    ("CoWinvT.EL1+dsb-tlbiis-dsb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 read x", Allowed),
    ("CoWinvT.EL1+dsb-tlbiis-dsb-isb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 isb; 0 read x", Forbidden),
    ("CoWinvTa1.1+dsb-tlbiasidis-dsb-eret", "x a", "0 inv x; 0 dsb; 0 asidis 1; 0 dsb; 0 eret; 0 read x", Forbidden),
    ("CoWinvTa2.1+dsb-tlbiasidis-dsb-eret", "x a", "0 inv x; 0 dsb; 0 asidis 2; 0 dsb; 0 eret; 0 read x", Allowed),
    ("MP.BBM1+dsb-tlbiis-dsb-dsb+dsb-isb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 set x b; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.RT.EL1+dsb+dsb-tlbi-dsb+dsb+dsb-isb", "x a", "0 inv x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 tlbi x; 1 dsb; 1 flag; 2 seen; 2 dsb; 2 flag; 3 seen; 3 dsb; 3 isb; 3 read x", Allowed),
    ("MP.RT.EL1+dsb+dsb-tlbiis-dsb+dsb+dsb-isb", "x a", "0 inv x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 tlbiis x; 1 dsb; 1 flag; 2 seen; 2 dsb; 2 flag; 3 seen; 3 dsb; 3 isb; 3 read x", Forbidden),
    ("MP.RT.EL1+dsb-shootdown-dsb+dsb-isb", "x a", "0 inv x; 0 dsb; 0 flag; 1 seen; 1 svc; 1 tlbi x; 1 dsb; 1 isb; 1 eret; 1 flag; 0 seen; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.RT.EL1+dsb-tlbi-dsb+dsb-isb", "x a", "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read x", Allowed),
    ("MP.RT.EL1+dsb-tlbiis-dsb+dsb-isb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.RTf.inv+dmb+dsb-isb", "", "0 set x a; 0 dmb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.RTf.inv+dmb+po", "", "0 set x a; 0 dmb; 0 flag; 1 seen; 1 read x", Allowed),
    ("MP.RTf.inv+dmbs", "", "0 set x a; 0 dmb; 0 flag; 1 seen; 1 dmb; 1 read x", Allowed),
    ("MP.RTf.inv.EL1+dsb-tlbiis-dsb+dsb-isb", "", "0 set x a; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.RTf.inv.EL1+dsb-tlbiis-dsb+po", "", "0 set x a; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 read x", Allowed),
    ("MP.TTf.inv+dsb+dsb-isb", "", "0 set x a; 0 dsb; 0 set y a1; 1 read y; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.TTf.inv+dsb+po", "", "0 set x a; 0 dsb; 0 set y a1; 1 read y; 1 read x", Allowed),
    ("MP.TTf.inv+dsbs", "", "0 set x a; 0 dsb; 0 set y a1; 1 read y; 1 dsb; 1 read x", Allowed),
    ("RBS+dsb-tlbiis-dsb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 read x", Forbidden),
    ("S.RT.ro+dsb-tlbiis-dsb+dsb-isb", "x a+ro", "0 set x a; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 write x", Forbidden),
    ("WRC.RRTf.inv+dmbs", "", "0 set x a; 1 load x; 1 dmb; 1 flag; 2 seen; 2 dmb; 2 read x", Allowed),
    ("WRC.RRTf.inv+dsbs", "", "0 set x a; 1 load x; 1 dsb; 1 flag; 2 seen; 2 dsb; 2 read x", Allowed),
    ("WRC.RRTf.inv+pos", "", "0 set x a; 1 load x; 1 flag; 2 seen; 2 read x", Allowed),
    ("WRC.TRTf.inv+dmbs", "", "0 set x a; 1 read x; 1 dmb; 1 flag; 2 seen; 2 dmb; 2 read x", Allowed),
    ("WRC.TRTf.inv+dsb+dsb-isb", "", "0 set x a; 1 read x; 1 dsb; 1 flag; 2 seen; 2 dsb; 2 isb; 2 read x", Forbidden),
    ("WRC.TRTf.inv+pos", "", "0 set x a; 1 read x; 1 flag; 2 seen; 2 read x", Allowed),
    ("pKVM.create_hyp_mappings.inv.l2", "u hole", "0 link u; 0 set u a; 0 dsb; 0 isb; 0 read u", Forbidden),
    ("pKVM.create_hyp_mappings.inv.l3", "", "0 set x a; 0 dsb; 0 isb; 0 read x", Forbidden),
];

/// Tests that are not in that file, with the verdicts of the later lists of
/// the same repository (`isla_machinery/regressions/2022-09-14`, of
/// `badtlbi` and `tlbi-dsb-isb` 2022-12-21). The referee agrees.
#[rustfmt::skip]
pub const LISTED_LATER: [Test; 25] = [
    ("CoRpteTf.inv+ctrl-isb", "", "0 set x a; 1 load x; 1 isb; 1 read x", Forbidden),
    ("CoRpteTf.inv+po", "", "0 set x a; 1 load x; 1 read x", Allowed),
    ("CoTTf.inv+ctrl-isb", "", "0 set x a; 1 read x; 1 isb; 1 read x", Forbidden),
    ("CoWTf.inv.EL1+dsb-svc-dsb", "", "0 set x a; 0 dsb; 0 svc; 0 dsb; 0 read x", Forbidden),
    ("CoWinvT.EL1+dsb-badtlbi-dsb-isb", "x a", "0 inv x; 0 dsb; 0 tlbi y; 0 dsb; 0 isb; 0 read x", Allowed),
    ("CoWinvT.EL1+tlbi-dsb-isb", "x a", "0 inv x; 0 tlbi x; 0 dsb; 0 isb; 0 read x", Allowed),
    ("InvalidateWide", "u a", "0 unlink u; 0 dsb; 0 tlbi v; 0 dsb; 0 isb; 0 read u", Allowed),
    ("MP.BBM1+dsb-tlbiis-dsb-dsb+ctrl-isb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 set x b; 0 dsb; 0 flag; 1 seen; 1 isb; 1 read x", Forbidden),
    ("MP.RTT.EL1+dsb-tlbiis-tlbiis-dsb+dsb-isb", "x a", "0 inv x; 0 inv y; 0 dsb; 0 tlbiis y; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 dsb; 1 isb; 1 read y; 1 read x", Forbidden),
    ("MP.RTf.inv+dmb+ctrl", "", "0 set x a; 0 dmb; 0 flag; 1 seen; 1 read x", Allowed),
    ("MP.RTf.inv+dmb+ctrl-isb", "", "0 set x a; 0 dmb; 0 flag; 1 seen; 1 isb; 1 read x", Forbidden),
    ("MP.RTf.inv.EL1+dsb-tlbiis-dsb+ctrl-isb", "", "0 set x a; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 isb; 1 read x", Forbidden),
    ("MP.TTf.inv+dmb+dsb-isb", "", "0 set x a; 0 dmb; 0 set y a1; 1 read y; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("MP.TTf.inv+dmb+po", "", "0 set x a; 0 dmb; 0 set y a1; 1 read y; 1 read x", Allowed),
    ("MP.TTf.inv+dsb+ctrl-isb", "", "0 set x a; 0 dsb; 0 set y a1; 1 read y; 1 isb; 1 read x", Forbidden),
    ("ROT+dmb", "u a", "0 unlink u; 0 dmb; 0 set u b; 1 read u", Allowed),
    ("ROT+dsb-tlbivmallis-dsb", "u a", "0 unlink u; 0 dsb; 0 allis; 0 dsb; 0 set u b; 1 read u", Forbidden),
    ("SB.TfTf.inv+dsb-isbs", "", "0 set x a; 0 dsb; 0 isb; 0 read y; 1 set y a1; 1 dsb; 1 isb; 1 read x", Forbidden),
    ("WBM+dsb-tlbiis-dsb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 write x", Forbidden),
    ("WRC.RRTf.inv+dmb+dsb-isb", "", "0 set x a; 1 load x; 1 dmb; 1 flag; 2 seen; 2 dsb; 2 isb; 2 read x", Forbidden),
    ("WRC.RRTf.inv+dsb+ctrl-isb", "", "0 set x a; 1 load x; 1 dsb; 1 flag; 2 seen; 2 isb; 2 read x", Forbidden),
    ("WRC.RRTf.inv+dsb+dsb-isb", "", "0 set x a; 1 load x; 1 dsb; 1 flag; 2 seen; 2 dsb; 2 isb; 2 read x", Forbidden),
    ("WRC.TRTf.inv+po+dsb-isb", "", "0 set x a; 1 read x; 1 flag; 2 seen; 2 dsb; 2 isb; 2 read x", Forbidden),
    ("WRC.TfRT+dsb-tlbiis-dsb+dsb-isb", "x a", "0 inv x; 1 fail x; 1 dsb; 1 tlbiis x; 1 dsb; 1 flag; 2 seen; 2 dsb; 2 isb; 2 read x", Forbidden),
    ("WRC.TfRT+po+dsb-isb", "x a", "0 inv x; 1 fail x; 1 flag; 2 seen; 2 dsb; 2 isb; 2 read x", Allowed),
];

const DEPENDS: &str =
    "what an address was computed from is not followed; such a dependency orders the accesses";
const TWIN: &str = "allowed in CoWinvT.EL1+dsb-tlbi-dsb, where the CPU itself has written; who wrote does not \
     matter to a load that was translated too early, an ISB is what keeps it back";
const LATER: &str = "forbidden in the later list of the same repository (regressions/2022-09-14): a DMB keeps \
     the load behind the flag, and the TLBI is complete before that";

/// Where it does not, and why.
#[rustfmt::skip]
pub const DIFFERENT: [(Test, &str); 6] = [
    (
        ("MP.RTf.inv+dmb+addr", "", "0 set x a; 0 dmb; 0 flag; 1 seen; 1 read x", Forbidden),
        DEPENDS,
    ),
    (
        ("WRC.RRTf.inv+addrs", "", "0 set x a; 1 load x; 1 flag; 2 seen; 2 read x", Forbidden),
        DEPENDS,
    ),
    (
        ("WRC.TRTf.inv+addrs", "", "0 set x a; 1 read x; 1 flag; 2 seen; 2 read x", Forbidden),
        DEPENDS,
    ),
    (
        ("WRC.TTTf.inv+addrs", "", "0 set x a; 1 read x; 1 set y a1; 2 read y; 2 read x", Forbidden),
        DEPENDS,
    ),
    (
        ("CoRpteT.EL1+dsb-tlbi-dsb", "x a", "0 inv x; 1 load x; 1 dsb; 1 tlbi x; 1 dsb; 1 read x", Forbidden),
        TWIN,
    ),
    (
        ("MP.RT.EL1+dsb-tlbiis-dsb+dmb", "x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsb; 0 flag; 1 seen; 1 dmb; 1 read x", Allowed),
        LATER,
    ),
];
