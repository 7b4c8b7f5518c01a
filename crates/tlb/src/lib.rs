// SPDX-License-Identifier: GPL-2.0-only
//! A model of a core's TLBs and of the page-table walks behind them.
//!
//! Pure logic, no QEMU: guest memory comes in through [`walk::PhysMem`], the
//! translation registers through [`arm64::Mmu`] or [`x86::Mmu`], accesses
//! through [`model::Core`]; what comes out are the counters of [`report`].
//!
//! | module | reason to exist |
//! |---|---|
//! | [`leaf`] | the sizes a leaf can have and their names |
//! | [`profile`] | the table of CPUs: how many entries, how many ways, what sizes, and where that is written |
//! | [`design`], [`variant`] | what a model is built by: what a profile says, and variants of it |
//! | [`tlb`], [`replacement`] | one set-associative array, its invalidation, which entry goes |
//! | [`walk`], [`arm64`], [`x86`] | page-table walkers |
//! | [`mmu`] | the registers by which a core translates |
//! | `levels` | arrays and walker tied together, with what misses cost |
//! | [`model`] | one core: registers, what it counts, its levels and variants of them |
//! | [`insn_arm64`], [`insn_x86`] | which instructions the model must know of |
//! | [`referee`] | what a TLB of unlimited size could still hold, and whether the guest minds |
//! | [`report`] | the JSON that the plugin writes and the lab reads |
//!
//! What the model leaves out is in `docs/tlb-model.md`.

pub mod arm64;
pub mod design;
pub mod insn_arm64;
pub mod insn_x86;
pub mod leaf;
mod levels;
pub mod mmu;
pub mod model;
pub mod profile;
pub mod referee;
pub mod replacement;
pub mod report;
pub mod tlb;
pub mod variant;
pub mod walk;
pub mod x86;
