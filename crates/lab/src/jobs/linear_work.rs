// SPDX-License-Identifier: GPL-2.0-only
//! What work through the linear map costs: TLB misses and walks of the kernel's data accesses.

use super::linear_map::{VARIANTS, memory, put, rows};
use crate::job::Job;
use crate::options::{CpuModel, Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, PhaseCounts};
use wideleaf_guest::protocol::{LinearWorkOptions, Task};
use wideleaf_kbuild::Variant;

/// Bytes of the file in the page cache, unless told.
const SIZE: u64 = 256 << 20;

/// Reads and requests unless told.
const CALLS: u64 = 5_000;

/// Places of the map that are changed and changed back.
const CHANGES: u64 = 256;

/// The job.
#[derive(Debug)]
pub struct LinearWork;

impl Job for LinearWork {
    fn name(&self) -> String {
        "linear-work".into()
    }

    fn about(&self) -> &'static str {
        "page cache reads and requests: the kernel's own data TLB misses and walks"
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn settings(&self) -> &'static [Setting] {
        &[
            Setting::Memory,
            Setting::Size,
            Setting::Calls,
            Setting::Seed,
        ]
    }

    fn defaults(&self, options: &mut Options) {
        options.size = SIZE;
        options.cpu_model = CpuModel::Bbm;
    }

    fn fragments(&self) -> &'static [&'static str] {
        &["linear"]
    }

    fn counts(&self) -> bool {
        true
    }

    fn time_limit_s(&self) -> u32 {
        600
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory.unwrap_or(options.memory(options.size))
    }

    fn task(&self, options: &Options) -> Task {
        Task::LinearWork(LinearWorkOptions {
            size: options.size,
            calls: options.calls.unwrap_or(CALLS),
            seed: options.seed,
            changes: CHANGES,
        })
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        put(run, figures);
        for phase in &run.phases {
            let (name, kernel) = (&phase.name, &phase.kernel);
            let mut put = |what: &str, unit, value| {
                figures.put(format!("{name}.kernel_{what}"), unit, value);
            };
            put("dtlb_l1_misses", "misses", kernel.dtlb.l1_misses);
            put("dtlb_walks", "walks", kernel.dtlb.l2_misses);
        }
    }

    fn is_headline(&self, figure: &str) -> bool {
        figure.ends_with(".kernel_dtlb_walks")
    }

    fn title(&self, comparison: &Comparison) -> String {
        let size = wideleaf_size::short(comparison.options.size);
        format!(
            "linear-work: {size} in the page cache, {},",
            memory(comparison)
        )
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let mut all = Vec::new();
        let phases = comparison.runs.first().map(|run| &run.phases);
        for phase in phases.into_iter().flatten() {
            let name = phase.name.as_str();
            for (label, what) in [
                ("kernel instructions", "kernel_instructions"),
                ("kernel L1 dTLB misses", "kernel_dtlb_l1_misses"),
                ("kernel data walks", "kernel_dtlb_walks"),
            ] {
                let figure = format!("{name}.{what}");
                all.push(Row::figures(comparison, name, label, &[figure]));
            }
            let per = |run: &BootResult| walks_per_1000(run, name);
            all.push(Row::text(comparison, name, "walks per 1000 of these", per));
        }
        all.extend(rows(comparison));
        all
    }

    fn notes(&self, _: &Comparison) -> Vec<String> {
        vec![
            "change: secret memory is made, a page at a time; restore: it is given back; settle: \
             6 s in which nothing is asked for."
                .into(),
        ]
    }
}

fn walks_per_1000(run: &BootResult, name: &str) -> String {
    let phase: Option<&PhaseCounts> = run.phases.iter().find(|phase| phase.name == name);
    let kernel = phase.map(|phase| &phase.kernel);
    let kernel = kernel.filter(|kernel| kernel.instructions > 0);
    kernel.map_or("-".into(), |kernel| {
        let share = kernel.dtlb.l2_misses as f64 / kernel.instructions as f64;
        format!("{:.3}", 1000.0 * share)
    })
}
