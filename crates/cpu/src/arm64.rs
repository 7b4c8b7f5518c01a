// SPDX-License-Identifier: GPL-2.0-only
//! arm64: MIDR_EL1 as the kernel shows it in sysfs, and the parts table.

use crate::{Coalesce, Cpu, known};
use std::collections::BTreeMap;
use std::path::Path;
use wideleaf_kit::arch::Arch;

/// Reads `MIDR_EL1` of every CPU below `sys` and describes the commonest.
///
/// A machine with several kinds of core is described by the kind with the
/// most cores; the others are named in [`Cpu::origin`].
pub(crate) fn detect(sys: &Path, page_size: u64) -> Cpu {
    let kinds = midrs(&sys.join("devices/system/cpu"));
    let mut by_count: Vec<(u64, usize)> = kinds.into_iter().collect();
    by_count.sort_by_key(|(midr, count)| (std::cmp::Reverse(*count), *midr));
    let Some(&(midr, _)) = by_count.first() else {
        return Cpu {
            name: "arm64".to_owned(),
            arch: Some(Arch::Arm64),
            origin: "no regs/identification/midr_el1 in sysfs".to_owned(),
            coalesce: Coalesce::contpte(page_size),
            tlb: None,
        };
    };
    let (name, tlb) = known::arm64_part(midr);
    let others: Vec<String> = by_count[1..]
        .iter()
        .map(|(m, n)| format!("{n} x {}", known::arm64_part(*m).0))
        .collect();
    let also = if others.is_empty() {
        String::new()
    } else {
        format!("; also {}", others.join(", "))
    };
    Cpu {
        name,
        arch: Some(Arch::Arm64),
        origin: format!("MIDR_EL1 {midr:#010x} in sysfs{also}"),
        coalesce: Coalesce::contpte(page_size),
        tlb,
    }
}

fn midrs(cpus: &Path) -> BTreeMap<u64, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(cpus).into_iter().flatten().flatten() {
        let file = entry.path().join("regs/identification/midr_el1");
        let Ok(text) = std::fs::read_to_string(file) else {
            continue;
        };
        if let Ok(midr) = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16) {
            *kinds.entry(midr).or_default() += 1;
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commonest_core_is_described_and_the_others_named() {
        let sys = tempfile::tempdir().unwrap();
        for (cpu, midr) in [
            ("cpu0", "0x00000000410fd034\n"),
            ("cpu1", "0x00000000410fd034\n"),
            ("cpu2", "0x00000000410fd082\n"),
        ] {
            let dir = sys
                .path()
                .join("devices/system/cpu")
                .join(cpu)
                .join("regs/identification");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("midr_el1"), midr).unwrap();
        }
        let cpu = detect(sys.path(), 4096);
        assert_eq!(cpu.name, "cortex-a53");
        assert!(cpu.origin.contains("also 1 x cortex-a72"), "{}", cpu.origin);
        assert_eq!(cpu.coalesce.sizes, [65536]);
    }

    #[test]
    fn a_machine_without_the_files_still_has_contpte() {
        let sys = tempfile::tempdir().unwrap();
        let cpu = detect(sys.path(), 65536);
        assert_eq!(cpu.coalesce.sizes, [2 << 20]);
        assert!(cpu.tlb.is_none());
    }
}
