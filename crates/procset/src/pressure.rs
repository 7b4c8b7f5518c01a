// SPDX-License-Identifier: GPL-2.0-only
//! What text demands of the TLBs, against what these hold.

use serde::Serialize;
use std::collections::BTreeMap;
use wideleaf_cpu::Tlb;
use wideleaf_procmap::Coverage;

/// TLB entries needed against those there are.
#[derive(Clone, Debug, Serialize)]
pub struct Pressure {
    /// Entries to reach every resident byte; an upper bound where leaves are
    /// unknown.
    pub needed: u64,
    /// The same by leaf size in bytes.
    pub needed_by_leaf: BTreeMap<u64, u64>,
    /// Entries of the first level for instructions, if known.
    pub entries_l1: Option<u32>,
    /// Entries of the last level for instructions, if known.
    pub entries_last: Option<u32>,
    /// 1.0: the first level would be just full.
    pub load_l1: Option<f64>,
    /// 1.0: the last level would be just full.
    pub load_last: Option<f64>,
}

impl Pressure {
    /// That of `coverage` on base pages of `page` bytes; `tlb` is the CPU's, where it is known.
    pub(crate) fn of(coverage: &Coverage, page: u64, tlb: Option<&Tlb>) -> Self {
        let demand = coverage.entries(page);
        let last = tlb.and_then(Tlb::last_level);
        Self {
            needed: demand.values().sum(),
            needed_by_leaf: demand.clone(),
            entries_l1: tlb.map(|t| t.entries(1)).filter(|e| *e > 0),
            entries_last: tlb.zip(last).map(|(t, level)| t.entries(level)),
            load_l1: tlb.and_then(|t| t.load(1, &demand)),
            load_last: tlb.zip(last).and_then(|(t, level)| t.load(level, &demand)),
        }
    }
}
