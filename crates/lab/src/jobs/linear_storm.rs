// SPDX-License-Identifier: GPL-2.0-only
//! Permissions of the linear map change in many processes at once, then it is to be wide again.

use super::linear_map::{
    KEPT, USUAL_MEMORY, VARIANTS, busy, collapsing, kept, memory, put, report, rows, verdict,
};
use crate::job::Job;
use crate::options::{CpuModel, Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use wideleaf_guest::protocol::{LinearStormOptions, Task};
use wideleaf_kbuild::Variant;

/// CPUs of its guest unless told.
const CPUS: u32 = 4;

/// Rounds of each process that changes permissions, unless told.
const ROUNDS: u64 = 200;

/// Seconds of the guest's clock that the map may take to become wide again.
const SETTLE_S: u32 = 30;

/// The fragment whose kernels can make allocations fail.
const INJECTING: &str = "storm";

/// The number of the last moment.
const SETTLED: usize = 2;

/// The job.
#[derive(Debug)]
pub struct LinearStorm;

impl Job for LinearStorm {
    fn name(&self) -> String {
        "linear-storm".into()
    }

    fn about(&self) -> &'static str {
        "secret memory and filters come and go: no byte lost, the linear map wide again"
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Memory, Setting::Calls, Setting::Seed]
    }

    fn defaults(&self, options: &mut Options) {
        options.cpus = CPUS;
        options.cpu_model = CpuModel::Bbm;
    }

    fn fragments(&self) -> &'static [&'static str] {
        &["linear"]
    }

    fn time_limit_s(&self) -> u32 {
        600
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory.unwrap_or(USUAL_MEMORY)
    }

    fn memory_used(&self, options: &Options) -> u64 {
        busy(self.memory(options))
    }

    fn task(&self, options: &Options) -> Task {
        Task::LinearStorm(LinearStormOptions {
            rounds: options.calls.unwrap_or(ROUNDS),
            seed: options.seed,
            settle_s: SETTLE_S,
            fail_allocations: injects(options),
        })
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        put(run, figures);
    }

    /// Of kernels that collapse, where the tables were seen or the kernel tells.
    fn verdicts(&self, comparison: &Comparison) -> Vec<Verdict> {
        let judge = |run| {
            let wide = "linear map as wide as at boot >=99.9%";
            let mut verdicts = vec![verdict(comparison, run, wide, kept(run, SETTLED), KEPT)];
            if injects(&comparison.options) {
                let (what, failed) = ("splits found no memory >=1", failed_splits(run));
                verdicts.push(verdict(comparison, run, what, failed, 1.0));
            }
            verdicts
        };
        collapsing(comparison).flat_map(judge).collect()
    }

    fn title(&self, comparison: &Comparison) -> String {
        let Options { cpus, seed, .. } = &comparison.options;
        let memory = memory(comparison);
        format!("linear-storm: {cpus} CPUs, seed {seed}, {memory} of memory,")
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let mut rows = rows(comparison);
        rows.push(Row::text(
            comparison,
            "settled",
            "as wide as at boot",
            |run| kept(run, SETTLED).map_or("-".into(), |kept| format!("{:.3}%", 100.0 * kept)),
        ));
        rows
    }
}

fn injects(options: &Options) -> bool {
    options.extras.iter().any(|extra| extra == INJECTING)
}

/// How many splits the kernel says it had no memory for, since boot.
fn failed_splits(run: &BootResult) -> Option<f64> {
    let report = report(run)?;
    let of_last = report.moments.last()?.events.get("split_failures")?;
    Some(*of_last as f64)
}
