// SPDX-License-Identifier: GPL-2.0-only
//! The registers by which a core translates, whatever its architecture.

use crate::walk::{PhysMem, Walk};
use crate::{arm64, x86};

/// The translation registers of either architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mmu {
    /// AArch64 EL1&0.
    Arm64(arm64::Mmu),
    /// x86-64.
    X86(x86::Mmu),
}

impl Mmu {
    /// Is translation on? While it is off nothing is counted.
    pub fn enabled(&self) -> bool {
        match self {
            Mmu::Arm64(m) => m.enabled(),
            Mmu::X86(m) => m.enabled(),
        }
    }

    /// Current address space: ASID or PCID.
    pub fn asid(&self) -> u16 {
        match self {
            Mmu::Arm64(m) => m.asid(),
            Mmu::X86(m) => m.pcid(),
        }
    }

    /// Walks the page tables for `va`.
    pub fn walk(&self, mem: &impl PhysMem, va: u64) -> Walk {
        match self {
            Mmu::Arm64(m) => m.walk(mem, va),
            Mmu::X86(m) => m.walk(mem, va),
        }
    }

    /// log2 of the bytes that the table which a walk for `va` reads after `depth` others
    /// translates, and its size in bytes.
    pub(crate) fn table(&self, va: u64, depth: u8) -> (u8, u64) {
        match self {
            Mmu::Arm64(m) => m.table(va, depth),
            Mmu::X86(m) => (12 + 9 * (m.levels() - depth), 4096),
        }
    }

    /// `va` as TLBs compare it.
    #[inline]
    pub fn key(&self, va: u64) -> u64 {
        match self {
            Mmu::Arm64(_) => arm64::Mmu::untag(va),
            Mmu::X86(_) => va,
        }
    }
}
