// SPDX-License-Identifier: GPL-2.0-only
//! x86-64: what the CPUID instruction tells.

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn detect(_page_size: u64) -> crate::Cpu {
    unreachable!("only called where Arch::host() is X86_64")
}

#[cfg(target_arch = "x86_64")]
pub(crate) use imp::detect;

#[cfg(target_arch = "x86_64")]
mod imp {
    use crate::known::intel_model;
    use crate::{Coalesce, Cpu, Role, Tlb, TlbArray};
    use raw_cpuid::{Associativity, CpuId, CpuIdReader, DatType};
    use wideleaf_kit::arch::Arch;

    const K4: u64 = 4 << 10;
    const M2: u64 = 2 << 20;
    const G1: u64 = 1 << 30;

    pub(crate) fn detect(page_size: u64) -> Cpu {
        // raw-cpuid lacks one bit that is needed here, so its reader is shared.
        describe(raw_cpuid::CpuIdReaderNative, page_size)
    }

    /// Describes the CPU that `reader` answers for; tests pass recordings.
    fn describe<R: CpuIdReader>(reader: R, page_size: u64) -> Cpu {
        let cpuid = &CpuId::with_cpuid_reader(reader.clone());
        let vendor = cpuid
            .get_vendor_info()
            .map(|v| v.as_str().to_owned())
            .unwrap_or_default();
        // raw-cpuid adds the extended to the base fields as both vendors ask.
        let (family, model) = cpuid
            .get_feature_info()
            .map(|f| (u16::from(f.family_id()), f.model_id()))
            .unwrap_or_default();
        let brand = cpuid
            .get_processor_brand_string()
            .map(|b| b.as_str().trim().to_owned());
        let amd = matches!(vendor.as_str(), "AuthenticAMD" | "HygonGenuine");
        let tlb = if amd {
            amd_tlb(cpuid, amd_l2_unit(cpuid, &reader, family), family)
        } else {
            intel_tlb(cpuid).or_else(|| by_model(&vendor, family, model))
        };
        Cpu {
            name: format!(
                "{} (family {family:X}h model {model:X}h)",
                brand.filter(|b| !b.is_empty()).unwrap_or(vendor)
            ),
            arch: Some(Arch::X86_64),
            origin: "CPUID of the CPU that this process runs on".to_owned(),
            coalesce: if amd {
                Coalesce::amd(family)
            } else {
                Coalesce::generic(Some(Arch::X86_64), page_size)
            },
            tlb,
        }
    }

    /// The factor of the L2 sizes. Since Zen 5 (family 1Ah) they are encoded in
    /// units of 32, which Fn8000_0021 EAX bit 14 (L2TlbSizeX32) says. Some
    /// hypervisors pass the sizes and hide the bit, so the family decides too.
    fn amd_l2_unit<R: CpuIdReader>(
        cpuid: &CpuId<R>,
        reader: &R,
        family: u16,
    ) -> (u32, &'static str) {
        let hypervisor = cpuid.get_feature_info().is_some_and(|f| f.has_hypervisor());
        let known = reader.cpuid1(0x8000_0000).eax >= 0x8000_0021;
        if known && reader.cpuid1(0x8000_0021).eax & (1 << 14) != 0 {
            (32, ", L2TlbSizeX32")
        } else if family >= 0x1a && hypervisor {
            (
                32,
                ", L2 sizes x 32 as family 1Ah encodes them (the hypervisor hides the bit that says so)",
            )
        } else {
            (1, "")
        }
    }

    /// AMD APM volume 3, appendix E: Fn8000_0005 (L1), Fn8000_0006 (L2) and
    /// Fn8000_0019 (1G entries). A hypervisor may leave any of them zero.
    fn amd_tlb<R: CpuIdReader>(
        cpuid: &CpuId<R>,
        (unit, unit_note): (u32, &'static str),
        family: u16,
    ) -> Option<Tlb> {
        let mut arrays = Vec::new();
        let giant = cpuid.get_tlb_1gb_page_info();
        if let Some(l1) = cpuid.get_l1_cache_and_tlb_info() {
            let g1 = giant
                .as_ref()
                .map_or(0, |g| u32::from(g.itlb_l1_1gb_size()));
            let counts = [
                (K4, u32::from(l1.itlb_4k_size())),
                (M2, u32::from(l1.itlb_2m_4m_size())),
                (G1, g1),
            ];
            push(&mut arrays, 1, family, &counts);
        }
        if let Some(l2) = cpuid.get_l2_l3_cache_and_tlb_info() {
            let count = |associativity, entries: u16| match associativity {
                Associativity::Disabled => 0,
                _ => u32::from(entries) * unit,
            };
            let g1 = giant.as_ref().map_or(0, |g| {
                count(g.itlb_l2_1gb_associativity(), g.itlb_l2_1gb_size().into())
            });
            let counts = [
                (K4, count(l2.itlb_4k_associativity(), l2.itlb_4k_size())),
                (
                    M2,
                    count(l2.itlb_2m_4m_associativity(), l2.itlb_2m_4m_size()),
                ),
                (G1, g1),
            ];
            push(&mut arrays, 2, family, &counts);
        }
        (!arrays.is_empty()).then(|| Tlb {
            arrays,
            source: format!("CPUID Fn8000_0005, Fn8000_0006, Fn8000_0019{unit_note}"),
        })
    }

    /// Since Zen (family 17h) one array serves all sizes and CPUID reports
    /// its size once per page size; before, each size had its own array.
    fn push(arrays: &mut Vec<TlbArray>, level: u8, family: u16, counts: &[(u64, u32)]) {
        for &(size, entries) in counts.iter().filter(|c| c.1 > 0) {
            let shared = arrays
                .iter_mut()
                .find(|a| family >= 0x17 && a.level == level && a.entries == entries);
            match shared {
                Some(array) => array.sizes.push(size),
                None => arrays.push(TlbArray {
                    level,
                    role: Role::Instruction,
                    entries,
                    sizes: vec![size],
                }),
            }
        }
    }

    /// Intel SDM volume 2A, CPUID leaf 18H; before it (leaf 2) descriptors.
    fn intel_tlb<R: CpuIdReader>(cpuid: &CpuId<R>) -> Option<Tlb> {
        let exact: Vec<TlbArray> = cpuid
            .get_deterministic_address_translation_info()
            .into_iter()
            .flatten()
            .filter_map(|t| {
                let role = match t.cache_type() {
                    DatType::InstructionTLB => Role::Instruction,
                    DatType::UnifiedTLB => Role::Unified,
                    DatType::DataTLB | DatType::LoadOnly | DatType::StoreOnly => Role::Data,
                    _ => return None,
                };
                let held = [
                    (t.has_4k_entries(), K4),
                    (t.has_2mb_entries(), M2),
                    (t.has_1gb_entries(), G1),
                ];
                Some(TlbArray {
                    level: t.cache_level(),
                    role,
                    entries: u32::from(t.ways()).saturating_mul(t.sets()),
                    sizes: held.into_iter().filter(|h| h.0).map(|h| h.1).collect(),
                })
            })
            .filter(|a| a.entries > 0 && !a.sizes.is_empty())
            .collect();
        if exact.iter().any(|a| a.role != Role::Data) {
            return Some(Tlb {
                arrays: exact,
                source: "CPUID leaf 18H".to_owned(),
            });
        }
        let arrays: Vec<TlbArray> = cpuid
            .get_cache_info()
            .into_iter()
            .flatten()
            .filter_map(|c| descriptor(c.num))
            .collect();
        (!arrays.is_empty()).then(|| Tlb {
            arrays,
            source: "CPUID leaf 2 descriptors".to_owned(),
        })
    }

    /// What the core has by its model, for hypervisors that hide leaf 18H.
    fn by_model(vendor: &str, family: u16, model: u8) -> Option<Tlb> {
        let mut tlb = intel_model(vendor, family, model)?;
        tlb.source += &format!(", by family {family:X}h model {model:X}h: CPUID leaf 18H is empty");
        Some(tlb)
    }

    /// The descriptors of CPUID leaf 2 that concern instruction fetches on
    /// 64-bit CPUs (Intel SDM volume 2A, table 3-12).
    fn descriptor(byte: u8) -> Option<TlbArray> {
        let (level, role, entries, sizes): (u8, Role, u32, &[u64]) = match byte {
            0x55 => (1, Role::Instruction, 7, &[M2]),
            0x61 => (1, Role::Instruction, 48, &[K4]),
            0x76 => (1, Role::Instruction, 8, &[M2]),
            0xb0 => (1, Role::Instruction, 128, &[K4]),
            0xb1 => (1, Role::Instruction, 8, &[M2]),
            0xb2 => (1, Role::Instruction, 64, &[K4]),
            0xb5 => (1, Role::Instruction, 64, &[K4]),
            0xb6 => (1, Role::Instruction, 128, &[K4]),
            0xc1 => (2, Role::Unified, 1024, &[K4, M2]),
            0xc3 => (2, Role::Unified, 1536, &[K4, M2]),
            0xca => (2, Role::Unified, 512, &[K4]),
            _ => return None,
        };
        Some(TlbArray {
            level,
            role,
            entries,
            sizes: sizes.to_vec(),
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use raw_cpuid::CpuIdResult;

        fn answer(eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuIdResult {
            CpuIdResult { eax, ebx, ecx, edx }
        }

        /// Recorded on an AMD EPYC (family 1Ah) virtual machine.
        fn turin(eax: u32, _ecx: u32) -> CpuIdResult {
            match eax {
                0 => answer(0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65),
                1 => answer(0x00b0_0f21, 0, 1 << 31, 0),
                0x8000_0000 => answer(0x8000_0028, 0, 0, 0),
                0x8000_0005 => answer(4_284_546_880, 4_284_546_880, 806_093_120, 537_395_520),
                0x8000_0006 => answer(1_082_138_688, 1_619_017_792, 67_141_952, 201_363_776),
                _ => answer(0, 0, 0, 0),
            }
        }

        #[test]
        fn zen5_has_one_array_per_level() {
            let cpu = describe(turin, 4096);
            assert_eq!(cpu.name, "AuthenticAMD (family 1Ah model 2h)");
            assert_eq!(cpu.coalesce.sizes, [16 << 10]);
            let tlb = cpu.tlb.unwrap();
            assert_eq!((tlb.entries(1), tlb.entries(2)), (64, 2048), "{tlb:?}");
            assert_eq!(tlb.arrays.len(), 2, "{tlb:?}");
        }

        /// Leaf 18H of a Sapphire Rapids: 256 x 4K, 32 x 2M, 2048 shared.
        fn sapphire_rapids(eax: u32, ecx: u32) -> CpuIdResult {
            match (eax, ecx) {
                (0, _) => answer(0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69),
                (1, _) => answer(0x0008_06f8, 0, 0, 0),
                (0x18, 0) => answer(8, 0, 0, 0),
                (0x18, 1) => answer(0, 0x0008_0001, 32, 0x0000_4022),
                (0x18, 2) => answer(0, 0x0008_0006, 4, 0x0000_4022),
                (0x18, 4) => answer(0, 0x0010_0001, 1, 0x0000_4125),
                (0x18, 7) => answer(0, 0x0008_0007, 256, 0x0000_4043),
                _ => answer(0, 0, 0, 0),
            }
        }

        #[test]
        fn intel_leaf_18_is_read() {
            let tlb = describe(sapphire_rapids, 4096).tlb.unwrap();
            assert_eq!(tlb.source, "CPUID leaf 18H");
            assert_eq!((tlb.entries(1), tlb.entries(2)), (288, 2048));
            assert_eq!(tlb.last_level(), Some(2));
        }

        /// As the guests of some clouds have it: the model is told, the TLBs are not.
        fn emerald_rapids_guest(eax: u32, ecx: u32) -> CpuIdResult {
            match eax {
                1 => answer(0x000c_06f2, 0, 1 << 31, 0),
                0x18 => answer(0, 0, 0, 0),
                _ => sapphire_rapids(eax, ecx),
            }
        }

        #[test]
        fn a_guest_that_sees_no_leaf_18_has_the_sizes_of_its_model() {
            let cpu = describe(emerald_rapids_guest, 4096);
            let tlb = cpu.tlb.expect("the model is known");
            assert_eq!((tlb.entries(1), tlb.entries(2)), (288, 2048));
            assert!(tlb.source.contains("sapphire-rapids"), "{}", tlb.source);
            assert!(tlb.source.contains("model CFh"), "{}", tlb.source);
        }

        #[test]
        fn a_hypervisor_that_hides_everything_gives_no_tlb() {
            let cpu = describe(|_, _| answer(0, 0, 0, 0), 4096);
            assert!(cpu.tlb.is_none());
            assert!(cpu.coalesce.sizes.is_empty());
        }
    }
}
