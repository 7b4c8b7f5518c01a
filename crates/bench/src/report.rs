// SPDX-License-Identifier: GPL-2.0-only
//! The figures of one run.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wideleaf_kit::arch::Arch;

/// A figure, or why there is none. In JSON a number or `{"not_available": "reason"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure {
    /// The figure, in the unit of the field that holds it.
    Value(u64),
    /// There is none.
    Missing {
        /// Why, in words.
        not_available: String,
    },
}

impl Figure {
    /// No figure, for this reason.
    #[must_use]
    pub fn missing(reason: impl std::fmt::Display) -> Self {
        Self::Missing {
            not_available: reason.to_string(),
        }
    }

    /// The figure if there is one.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Missing { .. } => None,
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Missing { not_available } => write!(f, "not available: {not_available}"),
        }
    }
}

/// Page faults of the benchmark's thread during a phase, from getrusage(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// Served without reading from a disk.
    pub minor: u64,
    /// Served by reading from a disk.
    pub major: u64,
}

/// What was counted while one phase ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Stubs called.
    pub calls: u64,
    /// Page faults.
    pub faults: Faults,
    /// Bytes read from the disk.
    pub read_bytes: Figure,
    /// Requests to the disk that this took, those that the kernel merged counted as one. None where
    /// the reads of one process are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_requests: Option<u64>,
    /// Elapsed CLOCK_MONOTONIC time in ns. Under emulation it says nothing about speed.
    pub nanoseconds: u64,
    /// The CPU's own counters by name (`instructions`, `itlb-loads`, `itlb-misses`,
    /// `itlb-walks`), user space only. Empty where they were not asked for.
    #[serde(default)]
    pub events: BTreeMap<String, Figure>,
    /// What memory pressure did meanwhile, see [`crate::exec::ReclaimCounter`]. Empty where it was
    /// not asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reclaim: BTreeMap<String, u64>,
}

/// The first sweep: every stub once, in order of address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdReport {
    /// The counts.
    #[serde(flatten)]
    pub phase: PhaseReport,
    /// Bytes of the file still in the page cache when the sweep began, from mincore(2).
    /// Anything but 0 means that the sweep was not cold.
    pub resident_before: u64,
}

/// What /proc/self/smaps says of the mapping after the last phase. Bytes.
///
/// The kernel counts PMD leaves only; contiguous ones are seen by the lab's plugin, or by
/// nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smaps {
    /// Resident.
    pub rss: u64,
    /// Mapped by PMD leaves of a file.
    pub file_pmd_mapped: Figure,
    /// Mapped by PMD leaves of shared memory (tmpfs).
    pub shmem_pmd_mapped: Figure,
}

/// Everything one run found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecReport {
    /// The stub file.
    pub file: String,
    /// The file system that holds it, as mount(8) names it.
    pub filesystem: String,
    /// Whose stubs.
    pub arch: Arch,
    /// Base page size in bytes.
    pub page_size: u64,
    /// Bytes mapped.
    pub size: u64,
    /// Distance between two called stubs in bytes.
    pub stride: u64,
    /// Stubs called by one sweep.
    pub stubs: u64,
    /// Seed of the random sequence.
    pub seed: u64,
    /// Address of the mapping.
    pub address: u64,
    /// The widest power of two that divides the address, in bytes.
    pub address_alignment: u64,
    /// Alignment asked for, in bytes; `None`: the kernel chose.
    pub align: Option<u64>,
    /// The first sweep, from an empty page cache.
    pub cold: Option<ColdReport>,
    /// Random calls after a full sweep.
    pub random: Option<PhaseReport>,
    /// Coverage as the kernel tells it.
    pub smaps: Option<Smaps>,
    /// What a reader of the figures must know.
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_figure_is_never_a_number() {
        let missing = Figure::missing("no PMU");
        let json = serde_json::to_string(&missing).unwrap();
        assert_eq!(json, r#"{"not_available":"no PMU"}"#);
        assert_eq!(serde_json::from_str::<Figure>(&json).unwrap(), missing);
        assert_eq!(missing.value(), None);
        assert_eq!(
            serde_json::from_str::<Figure>("7").unwrap().value(),
            Some(7)
        );
    }
}
