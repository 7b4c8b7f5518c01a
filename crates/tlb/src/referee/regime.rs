// SPDX-License-Identifier: GPL-2.0-only
//! What an architecture's rules are where architectures differ, chosen once.

/// The rules that CPUs of one architecture go by.
#[derive(Clone, Copy, Debug)]
pub struct Regime {
    /// Level of FEAT_BBM that the CPUs promise without conflict aborts.
    pub(super) bbm: u8,
    /// Entries must be broken before they are made anew, tables must not be used for anything else
    /// before the flush, and new entries are seen after barriers only.
    pub(super) breaks: bool,
    /// The halves of the address space that have roots: the upper one (`true`), or not.
    pub(super) halves: &'static [bool],
    /// A new root invalidates nothing: entries of others may still go by its ASID. Otherwise the
    /// instruction that installs it says itself whether it keeps them.
    pub(super) roots_keep_entries: bool,
    /// Linux installs tables that come and go under ASID 0.
    pub(super) asid_0_is_borrowed: bool,
    /// One of so many parts of a root's entries is its own: the first one.
    pub(super) root_parts: usize,
    /// A TLBI waits for barriers. Otherwise it is complete at once.
    pub(super) flushes_wait: bool,
}

impl Regime {
    /// AArch64, EL1&0, on CPUs that promise FEAT_BBM of level `bbm` without conflict aborts.
    pub fn arm64(bbm: u8) -> Self {
        Regime {
            bbm,
            breaks: true,
            halves: &[false, true],
            roots_keep_entries: true,
            asid_0_is_borrowed: true,
            root_parts: 1,
            flushes_wait: true,
        }
    }

    /// x86-64: only stale use is looked for. One root translates both halves, and its upper half is
    /// the kernel's.
    pub fn x86() -> Self {
        Regime {
            bbm: 0,
            breaks: false,
            halves: &[false],
            roots_keep_entries: false,
            asid_0_is_borrowed: false,
            root_parts: 2,
            flushes_wait: false,
        }
    }
}
