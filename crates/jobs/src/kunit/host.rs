// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Report, Suite, Task};
use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::tap::Status;
use wideleaf_kbuild::Variant;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::Row;

/// The job.
#[derive(Debug)]
pub struct Kunit;

/// The registry's entry.
pub const JOB: Kunit = Kunit;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {}

impl Job for Kunit {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            // A pristine kernel has no tests of ours.
            variants: &[Variant::Patched],
            possible_variants: &[
                Variant::Patched,
                Variant::Reads,
                Variant::Khugepaged,
                Variant::LinearMap,
                Variant::Both,
            ],
            // Those of the linear map split leaves of the kernel that they run in.
            defaults: &[("cpu_model", "bbm")],
            examples: &["kunit --variants linear-map --extra linear"],
            ..Facts::new(NAME, "a kernel's own KUnit suites: which tests pass")
        }
    }

    fn plan(&self, _: &Asked<'_, Options>) -> Result<Plan> {
        let mut plan = Plan::new(&Task {}, 300);
        plan.always.push("kunit".into());
        Ok(plan)
    }

    fn judge(&self, report: &Report) -> Result<()> {
        if !report.passed() {
            let logs: Vec<_> = report.suites.iter().map(|suite| suite.log.trim()).collect();
            bail!("KUnit tests failed, or none ran:\n{}", logs.join("\n"));
        }
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("kunit.passed", "tests", "of the kernel's KUnit suites").headline(),
            figure("kunit.failed", "tests", "of these suites").headline(),
            figure("kunit.skipped", "tests", "of these suites"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for (name, status) in [
            ("kunit.passed", Status::Pass),
            ("kunit.failed", Status::Fail),
            ("kunit.skipped", Status::Skip),
        ] {
            figures.put(name, run.report.count(status) as u64);
        }
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let row = |suite: &Suite| {
            measured.row("kunit", &suite.name, |run| {
                let mut suites = run.report.suites.iter();
                let of_run = suites.find(|known| known.name == suite.name);
                of_run.map_or("-".into(), tally)
            })
        };
        let first = measured.runs.first();
        first.map_or(Vec::new(), |run| {
            run.report.suites.iter().map(row).collect()
        })
    }
}

fn tally(suite: &Suite) -> String {
    let count = |status| {
        let tests = suite.tests.iter();
        tests.filter(|test| test.status == status).count()
    };
    format!(
        "{} passed, {} failed, {} skipped",
        count(Status::Pass),
        count(Status::Fail),
        count(Status::Skip)
    )
}
