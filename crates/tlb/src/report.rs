// SPDX-License-Identifier: GPL-2.0-only
//! What the plugin writes and the lab reads: one JSON object per run.
//!
//! Counts are plain numbers of events since boot, split by phase and by who
//! ran. Sizes are named `"64K"`, `"2M"`.

use crate::leaf;
use crate::profile::Profile;
use crate::referee::finding::Findings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Version of this schema. Raised when a field changes its meaning or goes
/// away; added fields leave it.
pub const SCHEMA: u32 = 1;

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The CPU that was modelled.
    pub profile: ProfileInfo,
    /// vCPUs that ran.
    pub vcpus: u32,
    /// Phases that have any counts, ascending; all vCPUs together.
    pub phases: Vec<Phase>,
    /// The same for each vCPU, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Cpu>,
    /// Counts of the same accesses by variants of the profile, if they were asked for; all vCPUs
    /// together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Model>,
    /// Answers to the guest's coverage requests, in order.
    pub coverage: Vec<Coverage>,
    /// Answers to the guest's questions which pages of a file were executed from, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<Touched>,
    /// What the reader of these figures should know; empty in a good run.
    pub warnings: Vec<String>,
    /// What the referee found, if it was asked to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referee: Option<Findings>,
}

/// The modelled CPU, as in [`crate::profile::PROFILES`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileInfo {
    /// Name on the command line.
    pub name: String,
    /// `"arm64"` or `"x86_64"`.
    pub arch: String,
    /// Contiguous groups are held as one entry.
    pub contiguous: bool,
    /// Replacement policy of all arrays; `"lru"`.
    pub replacement: String,
    /// Neighbouring pages that are held as one entry without a contiguous bit; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub coalesced_pages: u8,
    /// The arrays.
    pub arrays: Vec<ArrayInfo>,
    /// What else there is to know.
    pub notes: String,
}

fn is_zero(pages: &u8) -> bool {
    *pages == 0
}

/// One array of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayInfo {
    /// `"L1I"`, `"L1D"`, `"L2"`, `"L2I"` or `"L2D"`.
    pub level: String,
    /// Number of entries.
    pub entries: usize,
    /// Entries per set.
    pub ways: usize,
    /// Sizes an entry can have.
    pub sizes: Vec<String>,
    /// Where the figures are from.
    pub source: String,
}

impl From<&Profile> for ProfileInfo {
    fn from(p: &Profile) -> Self {
        let size = |s: &u8| leaf::name_of_shift(*s).to_owned();
        let arrays = p.arrays().into_iter().map(|(level, a)| ArrayInfo {
            level: level.to_owned(),
            entries: a.entries,
            ways: a.ways,
            sizes: a.sizes.iter().map(size).collect(),
            source: a.source.to_owned(),
        });
        ProfileInfo {
            name: p.name.to_owned(),
            arch: p.arch.to_string(),
            contiguous: p.contiguous,
            replacement: "lru".to_owned(),
            coalesced_pages: p.coalesce.map_or(0, |c| c.pages),
            arrays: arrays.collect(),
            notes: p.notes.to_owned(),
        }
    }
}

/// Counts of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Phases in which it counted anything, ascending.
    pub phases: Vec<Phase>,
}

/// Counts of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Number from the guest's marker; 0 = outside any phase.
    pub phase: u8,
    /// While the guest ran at EL0 or CPL 3.
    pub user: Counts,
    /// While it ran at EL1 or CPL 0.
    pub kernel: Counts,
}

/// Counts of one phase in one mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions begun. One that faults and is run again counts twice.
    pub instructions: u64,
    /// Instruction side: one access per block of code entered and page that
    /// the block touches.
    pub itlb: Tlb,
    /// Data side: one access per load or store and page that it touches.
    pub dtlb: Tlb,
    /// Page-table walks of both sides: `itlb.l2_misses + dtlb.l2_misses`.
    pub walks: u64,
    /// Descriptors that the walks read from memory.
    pub walk_reads: u64,
    /// Instructions that invalidated translations: TLBI; INVLPG, INVPCID and moves to CR3 that
    /// keep none of its address space.
    #[serde(default)]
    pub tlb_invalidations: u64,
    /// Calls of the function that the guest named.
    #[serde(default)]
    pub function_calls: u64,
    /// Instructions of these calls, with all that the function calls; on the caller's stack only,
    /// so without interrupts and other tasks.
    #[serde(default)]
    pub function_instructions: u64,
}

/// Counts of a variant of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// As in [`crate::variant::variants`].
    pub name: String,
    /// The property that is other than in the profile.
    pub about: String,
    /// The phases of [`Report::phases`].
    pub phases: Vec<MissedPhase>,
}

/// Counts of a variant in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedPhase {
    /// Number from the guest's marker; 0 = outside any phase.
    pub phase: u8,
    /// While the guest ran at EL0 or CPL 3.
    pub user: Missed,
    /// While it ran at EL1 or CPL 0.
    pub kernel: Missed,
}

/// The counts that depend on the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// See [`Tlb::l1_misses`], instruction side.
    pub itlb_l1_misses: u64,
    /// See [`Tlb::l2_misses`], instruction side.
    pub itlb_l2_misses: u64,
    /// See [`Tlb::l1_misses`], data side.
    pub dtlb_l1_misses: u64,
    /// See [`Tlb::l2_misses`], data side.
    pub dtlb_l2_misses: u64,
    /// See [`Counts::walk_reads`].
    pub walk_reads: u64,
}

impl Missed {
    /// `counts` as this variant has them: with its misses, walks and reads, and none by leaf.
    pub fn in_place_of(&self, counts: &Counts) -> Counts {
        let side = |tlb: &Tlb, l1_misses, l2_misses| Tlb {
            accesses: tlb.accesses,
            l1_misses,
            l2_misses,
            by_leaf: BTreeMap::new(),
        };
        Counts {
            itlb: side(&counts.itlb, self.itlb_l1_misses, self.itlb_l2_misses),
            dtlb: side(&counts.dtlb, self.dtlb_l1_misses, self.dtlb_l2_misses),
            walks: self.itlb_l2_misses + self.dtlb_l2_misses,
            walk_reads: self.walk_reads,
            ..counts.clone()
        }
    }
}

/// Counts of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tlb {
    /// Accesses; hits are the accesses that are no L1 misses.
    pub accesses: u64,
    /// Accesses that the first level could not serve.
    pub l1_misses: u64,
    /// Of these, accesses that the second level could not serve either.
    pub l2_misses: u64,
    /// The same by size of the leaf accessed; `"none"` where the walk found no
    /// translation. Sums to the above.
    pub by_leaf: BTreeMap<String, LeafCounts>,
}

/// Counts of one side and one leaf size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafCounts {
    /// See [`Tlb::accesses`].
    pub accesses: u64,
    /// See [`Tlb::l1_misses`].
    pub l1_misses: u64,
    /// See [`Tlb::l2_misses`].
    pub l2_misses: u64,
}

/// Which leaves map a range, at the moment the guest asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Number that the guest gave.
    pub id: u64,
    /// Phase the guest was in.
    pub phase: u8,
    /// First virtual address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes by leaf size, and `"unmapped"`.
    pub leaves: BTreeMap<String, u64>,
    /// Bytes of the page tables that translate the range.
    #[serde(default)]
    pub table_bytes: u64,
}

/// Which pages of a range user mode has executed from, while the guest had that recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// Number that the guest gave.
    pub id: u64,
    /// 4K pages of memory in the record, those that are not in the range included.
    pub recorded: u32,
    /// The place in the order of first fetches, from 0 on, and the number of the 4K page in the
    /// range, by which they are sorted.
    pub pages: Vec<(u32, u32)>,
}

impl AddAssign for LeafCounts {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
    }
}

impl Tlb {
    /// Adds `counts` of leaves called `name`.
    pub fn add(&mut self, name: &str, counts: LeafCounts) {
        self.accesses += counts.accesses;
        self.l1_misses += counts.l1_misses;
        self.l2_misses += counts.l2_misses;
        *self.by_leaf.entry(name.to_owned()).or_default() += counts;
    }
}

impl AddAssign for Missed {
    fn add_assign(&mut self, other: Self) {
        self.itlb_l1_misses += other.itlb_l1_misses;
        self.itlb_l2_misses += other.itlb_l2_misses;
        self.dtlb_l1_misses += other.dtlb_l1_misses;
        self.dtlb_l2_misses += other.dtlb_l2_misses;
        self.walk_reads += other.walk_reads;
    }
}

impl AddAssign<&Tlb> for Tlb {
    fn add_assign(&mut self, other: &Tlb) {
        for (name, counts) in &other.by_leaf {
            self.add(name, *counts);
        }
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.instructions += other.instructions;
        self.itlb += &other.itlb;
        self.dtlb += &other.dtlb;
        self.walks += other.walks;
        self.walk_reads += other.walk_reads;
        self.tlb_invalidations += other.tlb_invalidations;
        self.function_calls += other.function_calls;
        self.function_instructions += other.function_instructions;
    }
}

impl Report {
    /// Adds the phases of another vCPU.
    pub fn add_phases(&mut self, phases: Vec<Phase>) {
        for phase in phases {
            match self.phases.binary_search_by_key(&phase.phase, |p| p.phase) {
                Ok(i) => {
                    self.phases[i].user += &phase.user;
                    self.phases[i].kernel += &phase.kernel;
                }
                Err(i) => self.phases.insert(i, phase),
            }
        }
    }

    /// Adds what the variants of another vCPU counted.
    pub fn add_models(&mut self, models: Vec<Model>) {
        if self.models.is_empty() {
            self.models = models;
            return;
        }
        for (sum, model) in self.models.iter_mut().zip(models) {
            sum.add(model.phases);
        }
    }
}

impl Model {
    fn add(&mut self, phases: Vec<MissedPhase>) {
        for phase in phases {
            match self.phases.binary_search_by_key(&phase.phase, |p| p.phase) {
                Ok(i) => {
                    self.phases[i].user += phase.user;
                    self.phases[i].kernel += phase.kernel;
                }
                Err(i) => self.phases.insert(i, phase),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(accesses: u64, l1_misses: u64, l2_misses: u64) -> LeafCounts {
        LeafCounts {
            accesses,
            l1_misses,
            l2_misses,
        }
    }

    fn phase(phase: u8, leaf: &str) -> Phase {
        let mut p = Phase {
            phase,
            ..Phase::default()
        };
        p.user.instructions = 10;
        p.user.dtlb.add(leaf, counts(5, 3, 1));
        p
    }

    #[test]
    fn phases_of_several_vcpus_add_up_in_order() {
        let mut r = Report::default();
        r.add_phases(vec![phase(3, "4K")]);
        r.add_phases(vec![phase(1, "4K"), phase(3, "2M")]);
        let numbers: Vec<_> = r.phases.iter().map(|p| p.phase).collect();
        assert_eq!(numbers, [1, 3]);
        assert_eq!(r.phases[1].user.instructions, 20);
        let dtlb = &r.phases[1].user.dtlb;
        assert_eq!((dtlb.accesses, dtlb.l1_misses, dtlb.l2_misses), (10, 6, 2));
        assert_eq!(dtlb.by_leaf["2M"], counts(5, 3, 1));
    }

    /// The field names are the contract with the lab.
    #[test]
    fn json_has_the_agreed_names_and_reads_back() {
        let profile = Profile::by_name("neoverse-v2").unwrap();
        let mut report = Report {
            schema: SCHEMA,
            profile: profile.into(),
            vcpus: 1,
            ..Report::default()
        };
        report.add_phases(vec![phase(1, "64K")]);
        report.coverage.push(Coverage {
            id: 7,
            phase: 1,
            start: 0x1000,
            len: 4096,
            leaves: BTreeMap::from([("64K".to_owned(), 4096)]),
            table_bytes: 8192,
        });
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["profile"]["name"], "neoverse-v2");
        assert_eq!(
            json["phases"][0]["user"]["dtlb"]["by_leaf"]["64K"]["l2_misses"],
            1
        );
        assert_eq!(json["phases"][0]["kernel"]["walk_reads"], 0);
        assert_eq!(json["coverage"][0]["leaves"]["64K"], 4096);
        let back: Report = serde_json::from_value(json).unwrap();
        assert_eq!(back, report);
    }
}
