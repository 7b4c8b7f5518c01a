// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU runs here, how many translations its TLBs hold, and which groups
//! of page-table entries it caches as one.
//!
//! Detection never fails: a CPU that nobody wrote down is described as far as
//! the hardware tells, and what is assumed is said in [`Cpu::origin`] and
//! [`Coalesce::why`]. A name given by the user ([`named`]) replaces detection.

mod arm64;
mod coalesce;
mod known;
mod tlb;
mod x86;

pub use coalesce::Coalesce;
pub use known::{named, names};
pub use tlb::{Demand, Role, Tlb, TlbArray};

use serde::Serialize;
use std::path::Path;

/// An instruction-set architecture that Wideleaf knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// AArch64
    Arm64,
    /// x86-64
    #[serde(rename = "x86_64")]
    X86_64,
    /// Anything else: base pages and PMD leaves only
    Other,
}

impl Arch {
    /// The architecture that this program was compiled for.
    pub fn native() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Arm64
        } else if cfg!(target_arch = "x86_64") {
            Self::X86_64
        } else {
            Self::Other
        }
    }
}

/// A CPU as far as its TLBs are concerned.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    /// The name to show, for example `AMD EPYC (family 1Ah model 2)`.
    pub name: String,
    /// Its architecture.
    pub arch: Arch,
    /// How it was found out.
    pub origin: String,
    /// Which entries it coalesces.
    pub coalesce: Coalesce,
    /// Its TLBs, or `None` where neither the hardware nor a table tells.
    pub tlb: Option<Tlb>,
}

/// Detects the CPU of this machine.
///
/// `sys` is where sysfs is mounted (`/sys`; tests pass another folder), used
/// for arm64's `MIDR_EL1`; x86 asks the CPUID instruction. `page_size` is the
/// kernel's base page size in bytes.
pub fn detect(sys: &Path, page_size: u64) -> Cpu {
    match Arch::native() {
        Arch::X86_64 => x86::detect(page_size),
        Arch::Arm64 => arm64::detect(sys, page_size),
        Arch::Other => Cpu {
            name: std::env::consts::ARCH.to_owned(),
            arch: Arch::Other,
            origin: "architecture without a table entry".to_owned(),
            coalesce: Coalesce::none("nothing known about coalescing on this architecture"),
            tlb: None,
        },
    }
}
