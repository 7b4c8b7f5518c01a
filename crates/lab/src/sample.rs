// SPDX-License-Identifier: GPL-2.0-only
//! A job and results for tests, those of jobs' rooms too.

use crate::compare::conclude;
use crate::job::{AnyJob, Facts, Job, Measured, Run, usual};
use crate::plan::{Asked, Plan};
use crate::results::figures::{Figure, Figures, counted, figure, text};
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Counted, KernelInfo, PhaseCounts};
use crate::vm::emulator::Qemu;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use wideleaf_guest::protocol::{Farewell, Hello};
use wideleaf_kbuild::{Arch, Base, PageSize, Variant};
use wideleaf_tlb::report::{Counts, Coverage, LeafCounts, Tlb};

/// A job that calls something.
#[derive(Debug)]
pub struct Calls;

/// Its options.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How often
    #[arg(long, default_value_t = 4)]
    pub calls: u64,
}

/// What its guest found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Without reading from the disk.
    pub minor: u64,
    /// With it.
    pub major: u64,
}

impl Job for Calls {
    type Options = Options;
    type Report = Faults;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            ..Facts::new("calls", "what calls cost")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        Ok(Plan::new(asked.own, 60))
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("cold.minor_faults", "faults", "").row("cold", "faults (minor/major)"),
            figure("cold.major_faults", "faults", "").row("cold", "faults (minor/major)"),
            figure("cold.faults", "faults", ""),
            counted("cold.instructions").row("cold", "guest instructions"),
            counted("random.walks").row("random", "page walks"),
            text("text.<leaf>"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        let Faults { minor, major } = run.report;
        figures.put("cold.minor_faults", minor);
        figures.put("cold.major_faults", major);
        figures.put("cold.faults", minor + major);
        figures.put_text("", run, 1);
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let mut rows = Row::defined(measured, &Job::figures(self));
        rows.push(measured.time_row("guests"));
        rows
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        vec![format!("  {} calls", measured.own.calls)]
    }
}

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
        outcome: json!({ "minor": 3, "major": 4 }),
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
        models: Vec::new(),
        coverage: vec![Coverage {
            id: 1,
            phase: 0,
            start: 0x10000,
            len: 1 << 20,
            leaves: [("64K".to_string(), 1 << 20)].into(),
            table_bytes: 0,
        }],
        touched: Vec::new(),
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

/// A comparison of two such runs.
pub fn comparison(pristine: u64, patched: u64) -> Comparison {
    let runs = vec![
        run(Variant::Pristine, pristine),
        run(Variant::Patched, patched),
    ];
    let comparison = comparison_of(&Calls, runs);
    conclude(&Calls, comparison).expect("the sample's own job")
}

/// Counts of a processor that called stubs as the job exec does.
pub fn hardware() -> Counted {
    Counted {
        job: "exec".into(),
        arch: Arch::Arm64,
        page_size: PageSize::K4,
        figures: [("random.text_walks".into(), 4321)].into(),
        missing: [("random.itlb_l1_misses".into(), "EACCES".into())].into(),
        nanoseconds: [("random".into(), 500)].into(),
        outcome: json!(null),
    }
}

/// A comparison of these runs of a job as it is unless told, without figures.
pub fn comparison_of(job: &dyn AnyJob, runs: Vec<BootResult>) -> Comparison {
    let kernel = |variant| KernelInfo {
        variant,
        image: "/k/Image".into(),
        image_hash: "00".into(),
        package_version: Some("6.12.117-1".into()),
        commit: None,
        config_hash: Some("11".into()),
        compiler: Some("gcc 12".into()),
    };
    let (common, options) = usual(job);
    Comparison {
        job: job.name().into(),
        base: Base::V6_12,
        arch: Arch::Arm64,
        page_size: PageSize::K64,
        common,
        options,
        memory_bytes: 2 << 30,
        qemu: Qemu {
            path: "/usr/bin/qemu-system-aarch64".into(),
            version: "10.0.2".into(),
        },
        profile: wideleaf_tlb::profile::Profile::by_name("neoverse-v2")
            .ok()
            .map(Into::into),
        kernels: vec![kernel(Variant::Pristine), kernel(Variant::Patched)],
        runs,
        figures: BTreeMap::new(),
        sweep: BTreeMap::new(),
    }
}
