// SPDX-License-Identifier: GPL-2.0-only
//! The machine a file is for, and the leaves its MMU knows.

use crate::LEAVES;
use object::elf;
use serde::{Serialize, Serializer};
use std::fmt;

/// Word size of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Class {
    /// 32-bit
    #[serde(rename = "32")]
    Bits32,
    /// 64-bit
    #[serde(rename = "64")]
    Bits64,
}

/// Byte order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Least significant byte first
    Little,
    /// Most significant byte first
    Big,
}

/// `e_machine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine(pub u16);

/// Names as `uname -m` says them, where it does.
const NAMES: &[(u16, &str)] = &[
    (elf::EM_SPARC.0, "sparc"),
    (elf::EM_386.0, "i386"),
    (elf::EM_68K.0, "m68k"),
    (elf::EM_MIPS.0, "mips"),
    (elf::EM_PARISC.0, "parisc"),
    (elf::EM_PPC.0, "ppc"),
    (elf::EM_PPC64.0, "ppc64"),
    (elf::EM_S390.0, "s390x"),
    (elf::EM_ARM.0, "arm"),
    (elf::EM_SH.0, "sh"),
    (elf::EM_SPARCV9.0, "sparc64"),
    (elf::EM_IA_64.0, "ia64"),
    (elf::EM_X86_64.0, "x86_64"),
    (elf::EM_AARCH64.0, "arm64"),
    (elf::EM_RISCV.0, "riscv"),
    (elf::EM_BPF.0, "bpf"),
    (elf::EM_LOONGARCH.0, "loongarch"),
    (elf::EM_ALPHA.0, "alpha"),
];

impl Machine {
    /// 64-bit Arm.
    pub const ARM64: Machine = Machine(elf::EM_AARCH64.0);
    /// 64-bit x86.
    pub const X86_64: Machine = Machine(elf::EM_X86_64.0);

    /// Which of [`LEAVES`] its MMU has. arm64: 64K, 16 contiguous 4K entries,
    /// and 32M, 16 contiguous 2M ones (Arm ARM D8.7.1, "the Contiguous bit").
    /// Of a machine that we do not know, no 64K leaf is assumed.
    pub fn leaves(self) -> &'static [u64] {
        match self {
            Machine::ARM64 => &LEAVES,
            Machine::X86_64 => &LEAVES[1..2],
            _ => &LEAVES[1..],
        }
    }

    /// The narrowest of them, in bytes: below it nothing can be gained.
    pub fn narrowest_wide_leaf(self) -> u64 {
        self.leaves()[0]
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.pad(name),
            None => f.pad(&format!("machine {}", self.0)),
        }
    }
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_the_names_people_use_and_unknown_ones_their_number() {
        assert_eq!(Machine(183).to_string(), "arm64");
        assert_eq!(Machine(62).to_string(), "x86_64");
        assert_eq!(Machine(4242).to_string(), "machine 4242");
    }
}
