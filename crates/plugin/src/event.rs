// SPDX-License-Identifier: GPL-2.0-only
//! What vCPUs tell the model, and each other.

use wideleaf_tlb::tlb::Invalidate;
use wideleaf_tlb::{insn_arm64, insn_x86};

/// An instruction of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// AArch64.
    Arm64(insn_arm64::Event),
    /// x86-64.
    X86(insn_x86::Event),
}

/// Something another vCPU did that concerns this one.
#[derive(Clone, Copy, Debug)]
pub enum Mail {
    /// A broadcast TLBI.
    Invalidate(Invalidate),
    /// The job entered a phase.
    Phase(u8),
    /// The job named the function at this address.
    Function(u64),
}
