// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures, the table; how many TLB invalidations a fault may cost.

use super::{NAME, Report, STEP, Task};
use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_kbuild::Variant;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{Row, shown};

/// The most that a fault may cost, of the cost with pristine.
const LIMIT_PERCENT: u32 = 101;

/// Bytes of the disk besides the files.
const ROOM: u64 = 256 << 20;

/// The job.
#[derive(Debug)]
pub struct Faults;

/// The registry's entry.
pub const JOB: Faults = Faults;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How often memory is given back; each thread touches 1M meanwhile
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub rounds: u64,
    /// Count faults on pages that come back from swap too, on kernels with zram
    #[arg(long)]
    pub swap: bool,
}

impl Job for Faults {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            defaults: &[("cpus", "4")],
            examples: &["faults --referee", "faults --swap --repeat 3"],
            ..Facts::new(
                NAME,
                "TLB invalidations of faults while a thread gives memory back",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let cpus = asked.common.cpus;
        ensure!(cpus > 1, "--cpus {cpus}: the job faults needs 2 or more");
        let task = Task {
            folder: MOUNT_POINT.into(),
            rounds: asked.own.rounds,
            swap: asked.own.swap,
        };
        let touched = u64::from(cpus - 1) * task.rounds * STEP;
        let mut plan = Plan::new(&task, 900).with_disk(Disk::new(Contents::Room(ROOM + touched)));
        plan.fragments.extend(task.swap.then(|| "zram".into()));
        let memory = plan.memory + 2 * touched;
        Ok(plan.with_memory(memory))
    }

    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        let last = measured.runs.iter().map(|run| run.variant).max();
        let (Some(pristine), Some(last)) = (measured.run(Variant::Pristine), last) else {
            return Vec::new();
        };
        if last == Variant::Pristine {
            return Vec::new();
        }
        let names = pristine.report.cases.iter().map(|case| &case.name);
        names.map(|name| verdict(measured, last, name)).collect()
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("<kind>.faults", "faults", "of the threads that touch pages").row("", "faults"),
            counted("<kind>.tlb_invalidations").row("", "TLB invalidations"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for case in &run.report.cases {
            figures.put(format!("{}.faults", case.name), case.faults);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        format!(
            "faults on {} CPUs while another gives memory back, {} rounds,",
            measured.common.cpus - 1,
            measured.own.rounds
        )
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let Some(run) = measured.runs.first() else {
            return Vec::new();
        };
        let figures = Job::figures(self);
        let mut rows = Vec::new();
        for case in &run.report.cases {
            let name = &case.name;
            let shown = shown(&figures).into_iter();
            rows.extend(shown.map(|shown| shown.of_case(measured, name, name, shown.label)));
            let cell = |run: &Run<'_, Self>| {
                by_fault(run, name).map_or("-".into(), |count| format!("{count:.4}"))
            };
            rows.push(measured.row(name, "TLB invalidations/fault", cell));
        }
        rows
    }

    fn notes(&self, _: &Measured<'_, Self>) -> Vec<String> {
        vec![
            "  TLB invalidations are those of the whole guest, also of the memory that is given back"
                .into(),
        ]
    }
}

/// Whether a fault of this kind costs no more TLB invalidations than with pristine. Where they vary
/// between runs, the mean is held against the most that a run of pristine had.
fn verdict(measured: &Measured<'_, Faults>, variant: Variant, name: &str) -> Verdict {
    let costs = |variant| {
        let runs = measured.runs.iter();
        let ours = runs.filter(|run| run.variant == variant);
        ours.map(|run| by_fault(run, name))
            .collect::<Option<Vec<f64>>>()
    };
    let found = costs(Variant::Pristine).zip(costs(variant));
    let ratio = found.map(|(pristine, costs)| {
        let mean = costs.iter().sum::<f64>() / costs.len() as f64;
        mean / pristine.into_iter().fold(f64::MIN_POSITIVE, f64::max)
    });
    Verdict {
        expectation: format!("{name}.tlb_invalidations by fault, {variant}<={LIMIT_PERCENT}%"),
        comparison: measured.machine(),
        measured: ratio,
        passed: ratio.is_some_and(|ratio| ratio <= f64::from(LIMIT_PERCENT) / 100.0),
    }
}

/// TLB invalidations for each fault of a kind.
fn by_fault(run: &Run<'_, Faults>, name: &str) -> Option<f64> {
    let phase = run.phases.iter().find(|phase| phase.name == name)?;
    let case = run.report.cases.iter().find(|case| case.name == name)?;
    let count = phase.user.tlb_invalidations + phase.kernel.tlb_invalidations;
    (case.faults > 0).then(|| count as f64 / case.faults as f64)
}

#[cfg(test)]
mod tests {
    use super::super::Case;
    use super::*;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::results::BootResult;
    use wideleaf_lab::sample::{comparison_of, run};

    /// A run with so many TLB invalidations for 1000 faults.
    fn lived(variant: Variant, invalidations: u64) -> BootResult {
        let mut run = run(variant, 1);
        run.outcome = serde_json::to_value(Report {
            cases: vec![Case {
                name: "swap".into(),
                faults: 1000,
            }],
        })
        .unwrap();
        run.phases[0].name = "swap".into();
        run.phases[0].kernel.tlb_invalidations = invalidations;
        run
    }

    fn passes(pristine: &[u64], patched: &[u64]) -> bool {
        let runs = |variant, counts: &[u64]| {
            let runs = counts.iter().map(move |count| lived(variant, *count));
            runs.collect::<Vec<_>>()
        };
        let all = [
            runs(Variant::Pristine, pristine),
            runs(Variant::Patched, patched),
        ];
        let comparison = comparison_of(&Faults, all.concat());
        let verdicts = Faults.look(&comparison).unwrap().verdicts();
        assert_eq!(verdicts.len(), 1);
        verdicts[0].passed
    }

    #[test]
    fn a_fault_may_cost_one_percent_more_than_pristine_and_what_that_varies_by() {
        assert!(passes(&[1000], &[1010]));
        assert!(!passes(&[1000], &[1011]));
        assert!(passes(&[1000, 1100], &[1000, 1200]));
        assert!(!passes(&[1000, 1100], &[1100, 1200]));
        assert!(!passes(&[0], &[10]));
    }

    #[test]
    fn nothing_is_judged_without_pristine() {
        let comparison = comparison_of(&Faults, vec![lived(Variant::Patched, 1)]);
        assert!(Faults.look(&comparison).unwrap().verdicts().is_empty());
    }
}
