// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Task};
use crate::kit::linear::{
    self, CREW, KEPT, MOMENTS, USUAL_MEMORY, busy, collapsing, kept, memory, verdict,
};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_lab::common::Common;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{GuestMemory, Seed};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::Row;

/// Seconds of the guest's clock that the map may take to become wide again.
const SETTLE_S: u32 = 30;

/// The fragment whose kernels can make allocations fail.
const INJECTING: &str = "storm";

/// The number of the last moment.
const SETTLED: usize = 2;

/// The job.
#[derive(Debug)]
pub struct LinearStorm;

/// The registry's entry.
pub const JOB: LinearStorm = LinearStorm;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub memory: GuestMemory,
    /// Rounds of each process that changes permissions
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub calls: u64,
    /// Of what is done.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
}

impl Job for LinearStorm {
    type Options = Options;
    type Report = LinearReport;

    fn facts(&self) -> Facts {
        Facts {
            fragments: &["linear"],
            examples: &[
                "linear-storm --cpus 4 --seed 7",
                "linear-storm --extra storm",
            ],
            ..linear::crowded(NAME, "secret memory and filters come and go: no byte lost")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let memory = own.memory.memory.unwrap_or(USUAL_MEMORY);
        let task = Task {
            rounds: own.calls,
            seed: own.seed.seed,
            settle_s: SETTLE_S,
            fail_allocations: injects(asked.common),
        };
        Ok(Plan {
            memory_used: busy(memory),
            ..Plan::new(&task, 600).with_memory(memory)
        })
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let mut all: Vec<_> = MOMENTS.into_iter().chain(CREW).collect();
        all.extend([
            figure("failed_allocations", "events", "allocations that were made to fail at random"),
            figure("failed_one_by_one", "events", "allocations of single changes that were made to fail in turn"),
            figure("refused_one_by_one", "events", "for how many of these the change was refused"),
            figure("settled_ms", "ms", "of the guest's clock until the map was wide again, or patience ended"),
        ]);
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        linear::put(run, &run.report, figures);
    }

    /// Of kernels that collapse, where the tables were seen or the kernel tells.
    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        let judge = |run: &Run<'_, Self>| {
            let wide = "linear map as wide as at boot >=99.9%";
            let share = kept(run, &run.report, SETTLED);
            let mut verdicts = vec![verdict(measured, run, wide, share, KEPT)];
            if injects(&measured.common) {
                let (what, failed) = ("splits found no memory >=1", failed_splits(&run.report));
                verdicts.push(verdict(measured, run, what, failed, 1.0));
            }
            verdicts
        };
        collapsing(measured).flat_map(judge).collect()
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let (cpus, seed) = (measured.common.cpus, measured.own.seed.seed);
        let memory = memory(measured);
        format!("linear-storm: {cpus} CPUs, seed {seed}, {memory} of memory,")
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let mut rows = linear::rows(measured, measured.runs.iter().map(|run| &run.report));
        let label = "as wide as at boot";
        rows.push(measured.row("settled", label, |run| {
            let kept = kept(run, &run.report, SETTLED);
            kept.map_or("-".into(), |kept| format!("{:.3}%", 100.0 * kept))
        }));
        rows
    }
}

fn injects(common: &Common) -> bool {
    common.has_extra(INJECTING)
}

/// How many splits the kernel says it had no memory for, since boot.
fn failed_splits(report: &LinearReport) -> Option<f64> {
    let of_last = report.moments.last()?.events.get("split_failures")?;
    Some(*of_last as f64)
}
