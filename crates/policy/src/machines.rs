// SPDX-License-Identifier: GPL-2.0-only
//! The leaves that TLBs may hold, by architecture and base page.
//!
//! Arm ARM D8.7.1: the contiguous bit covers 16 entries of a 4K granule; 128
//! (level 3) or 32 (level 2) of a 16K granule; 32 of a 64K granule.

use serde::Serialize;

/// One leaf that a TLB may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Leaf {
    /// Log2 of its size in bytes.
    pub shift: u8,
    /// What makes it: `page`, `contpte`, `pmd`, ...
    pub kind: &'static str,
}

/// The leaves of one architecture and base page size.
#[derive(Clone, Copy)]
pub struct Table {
    arch: &'static str,
    /// Narrowest first.
    leaves: &'static [Leaf],
}

macro_rules! machine {
    ($arch:literal: $($shift:literal $kind:literal),*) => {
        Table {
            arch: $arch,
            leaves: &[$(Leaf { shift: $shift, kind: $kind }),*],
        }
    };
}

const ALL: [Table; 4] = [
    machine!("arm64": 12 "page", 16 "contpte", 21 "pmd", 25 "contpmd", 30 "pud"),
    machine!("arm64": 14 "page", 21 "contpte", 25 "pmd", 30 "contpmd"),
    machine!("arm64": 16 "page", 21 "contpte", 29 "pmd", 34 "contpmd"),
    machine!("x86_64": 12 "page", 21 "pmd", 30 "pud"),
];

impl Table {
    /// All tables there are.
    pub fn all() -> Vec<Table> {
        ALL.to_vec()
    }

    /// The table of `arch` (`arm64`, `x86_64`) with base pages of
    /// `1 << page_shift` bytes.
    pub fn find(arch: &str, page_shift: u8) -> Option<Table> {
        Table::all()
            .into_iter()
            .find(|table| table.arch() == arch && table.page_shift() == page_shift)
    }

    /// The architecture's name.
    pub fn arch(&self) -> &'static str {
        self.arch
    }

    /// Log2 of the base page size.
    pub fn page_shift(&self) -> u8 {
        self.leaves[0].shift
    }

    /// The leaves, narrowest first.
    pub fn leaves(&self) -> &'static [Leaf] {
        self.leaves
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}K", self.arch(), (1 << self.page_shift()) / 1024)
    }
}
