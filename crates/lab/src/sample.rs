// SPDX-License-Identifier: GPL-2.0-only
//! Results for the tests.

use crate::compare::conclude;
use crate::disk::filesystem::Filesystem;
use crate::job::usual;
use crate::jobs::exec::Exec;
use crate::options::Options;
use crate::results::{BootResult, Comparison, KernelInfo, PhaseCounts};
use crate::vm::emulator::Qemu;
use std::collections::BTreeMap;
use wideleaf_bench::report::{ColdReport, ExecReport, Faults, Figure, PhaseReport, Smaps};
use wideleaf_guest::protocol::{Farewell, Hello, Outcome};
use wideleaf_kbuild::{Arch, Base, PageSize, Variant};
use wideleaf_tlb::report::{Counts, Coverage, LeafCounts, Tlb};

/// A run with a cold phase of `instructions` in user mode.
pub fn run(variant: Variant, instructions: u64) -> BootResult {
    BootResult {
        variant,
        repeat: 1,
        wall_s: 2.5,
        guest: Hello {
            version: 1,
            release: "6.12.117".into(),
            page_size: 65536,
            thp: [("enabled".to_string(), "[always] madvise never".to_string())].into(),
            ..Hello::default()
        },
        outcome: Outcome::Exec {
            report: exec_report(),
            read_ahead_kb: Some(128),
        },
        farewell: Farewell {
            tainted: Some(0),
            uptime_cs: 100,
        },
        phases: vec![PhaseCounts {
            id: 1,
            name: "cold".into(),
            wall_s: Some(0.5),
            user: counts(instructions, 5, 2),
            kernel: counts(500, 1, 1),
        }],
        cpus: Vec::new(),
        coverage: vec![Coverage {
            id: 1,
            phase: 0,
            start: 0x10000,
            len: 1 << 20,
            leaves: [("64K".to_string(), 1 << 20)].into(),
            table_bytes: 0,
        }],
        warnings: Vec::new(),
        referee: None,
    }
}

fn counts(instructions: u64, itlb: u64, dtlb: u64) -> Counts {
    let side = |l2_misses| {
        let mut tlb = Tlb::default();
        tlb.add(
            "64K",
            LeafCounts {
                accesses: 20,
                l1_misses: 10,
                l2_misses,
            },
        );
        tlb
    };
    Counts {
        instructions,
        itlb: side(itlb),
        dtlb: side(dtlb),
        walks: itlb + dtlb,
        walk_reads: 3,
        tlb_invalidations: 0,
        function_calls: 0,
        function_instructions: 0,
    }
}

/// A report with both phases.
pub fn exec_report() -> ExecReport {
    let phase = PhaseReport {
        calls: 16,
        faults: Faults { minor: 3, major: 4 },
        read_bytes: Figure::Value(1 << 20),
        nanoseconds: 1,
        events: BTreeMap::new(),
        reclaim: BTreeMap::new(),
    };
    ExecReport {
        file: "/mnt/stubs".into(),
        filesystem: "xfs".into(),
        arch: Arch::Arm64,
        page_size: 65536,
        size: 1 << 20,
        stride: 65536,
        stubs: 16,
        seed: 1,
        address: 1 << 30,
        address_alignment: 1 << 30,
        align: None,
        cold: Some(ColdReport {
            phase: phase.clone(),
            resident_before: 0,
        }),
        random: Some(phase),
        smaps: Some(Smaps {
            rss: 1 << 20,
            file_pmd_mapped: Figure::Value(0),
            shmem_pmd_mapped: Figure::missing("no such line"),
        }),
        warnings: Vec::new(),
    }
}

/// A comparison of two such runs.
pub fn comparison(pristine: u64, patched: u64) -> Comparison {
    let kernel = |variant| KernelInfo {
        variant,
        image: "/k/Image".into(),
        image_hash: "00".into(),
        package_version: Some("6.12.117-1".into()),
        commit: None,
        config_hash: Some("11".into()),
        compiler: Some("gcc 12".into()),
    };
    let comparison = Comparison {
        job: "exec".into(),
        base: Base::V6_12,
        arch: Arch::Arm64,
        page_size: PageSize::K64,
        options: Options {
            filesystem: Filesystem::Xfs,
            ..usual(&Exec, Arch::Arm64)
        },
        memory_bytes: 2 << 30,
        qemu: Qemu {
            path: "/usr/bin/qemu-system-aarch64".into(),
            version: "10.0.2".into(),
        },
        profile: wideleaf_tlb::profile::Profile::by_name("neoverse-v2")
            .ok()
            .map(Into::into),
        kernels: vec![kernel(Variant::Pristine), kernel(Variant::Patched)],
        runs: vec![
            run(Variant::Pristine, pristine),
            run(Variant::Patched, patched),
        ],
        figures: BTreeMap::new(),
    };
    conclude(&Exec, comparison)
}
