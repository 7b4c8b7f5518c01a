// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU runs here, how many translations its TLBs hold, and which groups
//! of page-table entries it caches as one.
//!
//! Detection never fails: a CPU that nobody wrote down is described as far as
//! the hardware tells, and what is assumed is said in [`Cpu::origin`] and
//! [`Coalesce::why`]. A name given by the user ([`named`]) replaces detection.

mod arm64;
mod coalesce;
mod cpu;
mod known;
mod tlb;
mod x86;

pub use coalesce::Coalesce;
pub use cpu::Cpu;
pub use known::{named, names};
pub use tlb::{Demand, Role, Tlb, TlbArray};

use std::path::Path;
use wideleaf_kit::arch::Arch;

/// Detects the CPU of this machine.
///
/// `sys` is where sysfs is mounted (`/sys`; tests pass another folder), used
/// for arm64's `MIDR_EL1`; x86 asks the CPUID instruction. `page_size` is the
/// kernel's base page size in bytes.
pub fn detect(sys: &Path, page_size: u64) -> Cpu {
    match Arch::host() {
        Some(Arch::X86_64) => x86::detect(page_size),
        Some(Arch::Arm64) => arm64::detect(sys, page_size),
        None => Cpu {
            name: std::env::consts::ARCH.to_owned(),
            arch: None,
            origin: "architecture without a table entry".to_owned(),
            coalesce: Coalesce::none("nothing known about coalescing on this architecture"),
            tlb: None,
        },
    }
}
