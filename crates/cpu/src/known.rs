// SPDX-License-Identifier: GPL-2.0-only
//! CPUs by name and by part number.
//!
//! TLB sizes are not kept here: they come from the profile table of
//! `wideleaf-tlb`, so that the lab's model and the tool agree.

use crate::{Coalesce, Cpu, Role, Tlb, TlbArray};
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::profile::{ArraySpec, Level2, PROFILES};

/// `(name, implementer, part)` of MIDR_EL1 bits 31:24 and 15:4, as in the
/// kernel's arch/arm64/include/asm/cputype.h (7.3).
const ARM64_PARTS: &[(&str, u8, u16)] = &[
    ("cortex-a53", 0x41, 0xd03),
    ("cortex-a55", 0x41, 0xd05),
    ("cortex-a57", 0x41, 0xd07),
    ("cortex-a72", 0x41, 0xd08),
    ("cortex-a73", 0x41, 0xd09),
    ("cortex-a76", 0x41, 0xd0b),
    ("neoverse-n1", 0x41, 0xd0c),
    ("neoverse-v1", 0x41, 0xd40),
    ("neoverse-n2", 0x41, 0xd49),
    ("neoverse-v2", 0x41, 0xd4f),
    ("neoverse-v3", 0x41, 0xd84),
    ("neoverse-n3", 0x41, 0xd8e),
    ("ampereone", 0xc0, 0xac3),
];

/// `(name, AMD family or 0 for Intel)`.
const X86: &[(&str, u16)] = &[
    ("zen1", 0x17),
    ("zen2", 0x17),
    ("zen3", 0x19),
    ("zen4", 0x19),
    ("zen5", 0x1a),
    ("skylake", 0),
    ("ice-lake", 0),
    ("sapphire-rapids", 0),
];

/// `(name, models)` of Intel's family 6, as in the kernel's arch/x86/include/asm/intel-family.h
/// (7.3): those whose core the TLB model has a profile for.
#[cfg(target_arch = "x86_64")]
const INTEL_MODELS: &[(&str, &[u8])] = &[
    // Sapphire Rapids, Emerald Rapids.
    ("sapphire-rapids", &[0x8f, 0xcf]),
];

/// Every name that [`named`] takes, in the order to show them.
pub fn names() -> Vec<&'static str> {
    let arm64 = ARM64_PARTS.iter().map(|p| p.0);
    let x86 = X86.iter().map(|p| p.0);
    arm64
        .chain(x86)
        .chain(["generic-arm64", "generic-x86_64"])
        .collect()
}

/// A CPU by name, for base pages of `page_size` bytes; `None` if the name is
/// not among [`names`].
pub fn named(name: &str, page_size: u64) -> Option<Cpu> {
    let (arch, coalesce) = if name == "generic-arm64" || ARM64_PARTS.iter().any(|p| p.0 == name) {
        (Arch::Arm64, Coalesce::contpte(page_size))
    } else if name == "generic-x86_64" {
        (
            Arch::X86_64,
            Coalesce::generic(Some(Arch::X86_64), page_size),
        )
    } else {
        let (_, family) = X86.iter().find(|p| p.0 == name)?;
        let coalesce = match family {
            0 => Coalesce::generic(Some(Arch::X86_64), page_size),
            _ => Coalesce::amd(*family),
        };
        (Arch::X86_64, coalesce)
    };
    Some(Cpu {
        name: name.to_owned(),
        arch: Some(arch),
        origin: "named on the command line".to_owned(),
        coalesce,
        tlb: profile_tlb(name),
    })
}

/// Name and TLBs for a value of MIDR_EL1.
pub(crate) fn arm64_part(midr: u64) -> (String, Option<Tlb>) {
    let (implementer, part) = ((midr >> 24) as u8, (midr >> 4) as u16 & 0xfff);
    match ARM64_PARTS
        .iter()
        .find(|p| (p.1, p.2) == (implementer, part))
    {
        Some((name, ..)) => ((*name).to_owned(), profile_tlb(name)),
        None => (
            format!("arm64 implementer {implementer:#x} part {part:#x}"),
            None,
        ),
    }
}

/// The TLBs of an Intel CPU by what CPUID leaf 1 says.
#[cfg(target_arch = "x86_64")]
pub(crate) fn intel_model(vendor: &str, family: u16, model: u8) -> Option<Tlb> {
    let intel = vendor == "GenuineIntel" && family == 6;
    let (name, _) = INTEL_MODELS
        .iter()
        .find(|(_, models)| intel && models.contains(&model))?;
    profile_tlb(name)
}

/// The TLBs that the lab's model uses for this core, if it has a profile.
fn profile_tlb(name: &str) -> Option<Tlb> {
    let profile = PROFILES.iter().find(|p| p.name == name)?;
    let arrays = |level, role, specs: &[ArraySpec]| -> Vec<TlbArray> {
        specs
            .iter()
            .map(|spec| TlbArray {
                level,
                role,
                entries: u32::try_from(spec.entries).unwrap_or(u32::MAX),
                sizes: spec.sizes.iter().map(|shift| 1 << shift).collect(),
            })
            .collect()
    };
    let mut all = arrays(1, Role::Instruction, profile.l1i);
    all.extend(match profile.l2 {
        Level2::Unified(specs) => arrays(2, Role::Unified, specs),
        Level2::Split { instruction, .. } => arrays(2, Role::Instruction, instruction),
    });
    Some(Tlb {
        arrays: all,
        source: format!("profile {name} of the lab's TLB model"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_no_other() {
        for name in names() {
            assert_eq!(named(name, 4096).unwrap().name, name);
        }
        assert!(named("pentium", 4096).is_none());
    }

    #[test]
    fn every_profile_of_the_model_can_be_named() {
        for profile in PROFILES {
            let tlb = named(profile.name, 4096)
                .expect(profile.name)
                .tlb
                .expect(profile.name);
            assert!(tlb.last_level() == Some(2) && tlb.entries(1) > 0, "{tlb:?}");
        }
    }

    #[test]
    fn an_unknown_part_is_named_by_number() {
        assert_eq!(arm64_part(0x410f_d4f1).0, "neoverse-v2");
        assert_eq!(arm64_part(0x4100_0000).0, "arm64 implementer 0x41 part 0x0");
    }
}
