// SPDX-License-Identifier: GPL-2.0-only
//! The leaves that TLBs may hold, by architecture and base page. The kernel
//! makes its own table of the constants that it was built with
//! (`mm/leaf_ground.c`); here are those of all machines that the tool knows.
//!
//! Arm ARM D8.7.1: the contiguous bit covers 16 entries of a 4K granule; 128
//! (level 3) or 32 (level 2) of a 16K granule; 32 of a 64K granule.

use crate::ffi::LeafTable;
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
pub struct Machine {
    pub arch: &'static str,
    /// Narrowest first.
    pub leaves: &'static [Leaf],
    /// The same for the C core.
    pub table: LeafTable,
}

macro_rules! machine {
    ($arch:literal: $($shift:literal $kind:literal),*) => {
        Machine {
            arch: $arch,
            leaves: &[$(Leaf { shift: $shift, kind: $kind }),*],
            table: LeafTable {
                shift: [$($shift),*].as_slice().as_ptr(),
                nr: [$($shift),*].len() as u32,
            },
        }
    };
}

pub static ALL: [Machine; 4] = [
    machine!("arm64": 12 "page", 16 "contpte", 21 "pmd", 25 "contpmd", 30 "pud"),
    machine!("arm64": 14 "page", 21 "contpte", 25 "pmd", 30 "contpmd"),
    machine!("arm64": 16 "page", 21 "contpte", 29 "pmd", 34 "contpmd"),
    machine!("x86_64": 12 "page", 21 "pmd", 30 "pud"),
];
