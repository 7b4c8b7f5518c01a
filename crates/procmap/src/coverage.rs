// SPDX-License-Identifier: GPL-2.0-only
//! What is reported: bytes by leaf, bytes by folio, and what could not be seen.

use crate::maps::Vma;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of a range by the leaf that maps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Bytes of address space.
    pub size: u64,
    /// Bytes that a page table entry maps now.
    pub resident: u64,
    /// Resident bytes by leaf size in bytes. A size between the base page and
    /// the PMD is a group that the CPU can cache as one entry.
    pub leaves: BTreeMap<u64, u64>,
    /// Resident bytes below PMD size whose leaf cannot be told for lack of
    /// permission.
    pub unknown: u64,
}

impl Coverage {
    /// Bytes that nothing maps yet (or any more).
    pub fn absent(&self) -> u64 {
        self.size.saturating_sub(self.resident)
    }

    /// TLB entries needed to reach every resident byte, by leaf size; what is
    /// unknown counts as base pages of `page` bytes, the most it can be.
    pub fn entries(&self, page: u64) -> BTreeMap<u64, u64> {
        let mut entries: BTreeMap<u64, u64> = self
            .leaves
            .iter()
            .map(|(leaf, bytes)| (*leaf, bytes.div_ceil(*leaf)))
            .collect();
        if self.unknown > 0 {
            *entries.entry(page).or_default() += self.unknown.div_ceil(page);
        }
        entries
    }

    /// Bytes mapped by leaves wider than `page`.
    pub fn wide(&self, page: u64) -> u64 {
        self.leaves.range(page + 1..).map(|(_, bytes)| bytes).sum()
    }

    /// Adds the figures of another range.
    pub fn add(&mut self, other: &Self) {
        self.size += other.size;
        self.resident += other.resident;
        self.unknown += other.unknown;
        for (leaf, bytes) in &other.leaves {
            *self.leaves.entry(*leaf).or_default() += bytes;
        }
    }
}

/// Bytes of large folios, in the terms of the kernel's `tools/mm/thpmaps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FolioBytes {
    /// Wholly mapped by PTEs at an address aligned to the folio, by folio size.
    pub aligned: BTreeMap<u64, u64>,
    /// Wholly mapped by PTEs at another address, by folio size.
    pub unaligned: BTreeMap<u64, u64>,
    /// In folios of which only a part is mapped here.
    pub partial: u64,
    /// Mapped by a PMD.
    pub pmd: u64,
    /// In contiguous aligned blocks of one folio, mapped by PTEs, by block
    /// size: thpmaps' `cont`, for the sizes that the CPU coalesces.
    pub blocks: BTreeMap<u64, u64>,
}

impl FolioBytes {
    /// Adds the figures of another range.
    pub fn add(&mut self, other: &Self) {
        self.partial += other.partial;
        self.pmd += other.pmd;
        let maps = [
            (&mut self.aligned, &other.aligned),
            (&mut self.unaligned, &other.unaligned),
            (&mut self.blocks, &other.blocks),
        ];
        for (to, from) in maps {
            for (size, bytes) in from {
                *to.entry(*size).or_default() += bytes;
            }
        }
    }
}

/// Large folios by what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Folios {
    /// Anonymous memory.
    pub anon: FolioBytes,
    /// Page cache, shared memory included.
    pub file: FolioBytes,
}

/// How much of a process could be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sight {
    /// Only the size of the mappings: pagemap is not readable.
    Maps,
    /// What is resident and what a PMD maps; page frame numbers or their
    /// flags are hidden, so the leaves below PMD size are unknown.
    Pmd,
    /// Everything.
    Full,
}

/// One mapping and what maps it.
#[derive(Clone, Debug, Serialize)]
pub struct Mapping {
    /// The mapping itself.
    #[serde(flatten)]
    pub vma: Vma,
    /// Bytes by leaf.
    #[serde(flatten)]
    pub coverage: Coverage,
    /// Bytes by folio.
    pub folios: Folios,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// The command name, as the process set it. For a terminal:
    /// [`wideleaf_kit::names::printable`].
    pub name: String,
    /// Its bytes in hexadecimal if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<String>,
    /// Its control group: the v2 path or, where that is the root, the path
    /// in a v1 hierarchy.
    pub cgroup: String,
    /// Its bytes in hexadecimal if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_bytes: Option<String>,
    /// How much could be seen.
    pub sight: Sight,
    /// The sum of its mappings.
    #[serde(flatten)]
    pub total: Coverage,
    /// The sum of its mappings.
    pub folios: Folios,
    /// Its mappings in address order. Empty for a kernel thread or a zombie.
    pub mappings: Vec<Mapping>,
}

/// A stretch of addresses mapped alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// What maps it.
    pub leaf: Leaf,
}

/// What maps a [`Extent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// Leaves of this size in bytes.
    Size(u64),
    /// Base pages or coalesced groups; permission to tell is missing.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_up_and_count_the_unknown_as_pages() {
        let coverage = Coverage {
            size: 8 << 20,
            resident: (2 << 20) + (64 << 10) + 12288,
            leaves: BTreeMap::from([(2 << 20, 2 << 20), (65536, 65536), (4096, 4096)]),
            unknown: 8192,
        };
        assert_eq!(
            coverage.entries(4096),
            BTreeMap::from([(2 << 20, 1), (65536, 1), (4096, 3)])
        );
        assert_eq!(coverage.wide(4096), (2 << 20) + 65536);
        assert_eq!(coverage.absent(), (6 << 20) - 65536 - 12288);
    }
}
