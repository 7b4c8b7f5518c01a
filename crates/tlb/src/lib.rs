// SPDX-License-Identifier: GPL-2.0-only
//! A model of a core's TLBs and of the page-table walks behind them.
//!
//! Pure logic, no QEMU: guest memory comes in through [`walk::PhysMem`], the
//! translation registers through [`arm64::Mmu`] or [`x86::Mmu`], accesses
//! through [`core::Core`]; what comes out are the counters of [`report`].
//!
//! | module | reason to exist |
//! |---|---|
//! | [`leaf`] | the sizes a leaf can have and their names |
//! | [`profile`] | the table of CPUs: how many entries, how many ways, what sizes, and where that is written |
//! | [`tlb`] | one set-associative LRU array, and its invalidation |
//! | [`walk`], [`arm64`], [`x86`] | page-table walkers |
//! | [`core`] | arrays, walker and counters tied together: one core |
//! | [`insn_arm64`], [`insn_x86`] | which instructions the model must know of |
//! | [`report`] | the JSON that the plugin writes and the lab reads |
//!
//! What the model leaves out is in `docs/tlb-model.md`.

pub mod arm64;
pub mod core;
pub mod insn_arm64;
pub mod insn_x86;
pub mod leaf;
pub mod profile;
pub mod report;
pub mod tlb;
pub mod walk;
pub mod x86;
