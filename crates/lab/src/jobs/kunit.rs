// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own KUnit suites.

use crate::job::Job;
use crate::options::{CpuModel, Options};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison};
use anyhow::{Result, bail};
use wideleaf_guest::protocol::{KunitReport, KunitStatus, KunitSuite, Outcome, Task};
use wideleaf_kbuild::Variant;

/// The job.
#[derive(Debug)]
pub struct Kunit;

impl Job for Kunit {
    fn name(&self) -> String {
        "kunit".into()
    }

    fn about(&self) -> &'static str {
        "a kernel's own KUnit suites, those of our series: which tests pass"
    }

    /// A pristine kernel has no tests of ours.
    fn variants(&self) -> &'static [Variant] {
        &[Variant::Patched]
    }

    /// Each series has its own, and all of them in the end.
    fn possible_variants(&self) -> &'static [Variant] {
        &[Variant::Patched, Variant::LinearMap, Variant::Both]
    }

    /// Those of the linear map split leaves of the kernel that they run in.
    fn defaults(&self, options: &mut Options) {
        options.cpu_model = CpuModel::Bbm;
    }

    fn time_limit_s(&self) -> u32 {
        300
    }

    fn task(&self, _: &Options) -> Task {
        Task::Kunit
    }

    fn judge(&self, outcome: &Outcome) -> Result<()> {
        if let Some(report) = report(outcome)
            && !report.passed()
        {
            let logs: Vec<_> = report.suites.iter().map(|suite| suite.log.trim()).collect();
            bail!("KUnit tests failed, or none ran:\n{}", logs.join("\n"));
        }
        Ok(())
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        let Some(report) = report(&run.outcome) else {
            return;
        };
        for (name, status) in [
            ("passed", KunitStatus::Pass),
            ("failed", KunitStatus::Fail),
            ("skipped", KunitStatus::Skip),
        ] {
            figures.put(
                format!("kunit.{name}"),
                "tests",
                report.count(status) as u64,
            );
        }
    }

    fn is_headline(&self, figure: &str) -> bool {
        ["kunit.passed", "kunit.failed"].contains(&figure)
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let suites = |run: &BootResult| report(&run.outcome).map_or(vec![], |r| r.suites.clone());
        let names = comparison.runs.first().map(suites).unwrap_or_default();
        let row = |suite: &KunitSuite| {
            Row::text(comparison, "kunit", &suite.name, |run| {
                let of_run = suites(run).into_iter().find(|s| s.name == suite.name);
                of_run.map_or("-".into(), |suite| tally(&suite))
            })
        };
        names.iter().map(row).collect()
    }
}

fn report(outcome: &Outcome) -> Option<&KunitReport> {
    match outcome {
        Outcome::Kunit(report) => Some(report),
        _ => None,
    }
}

fn tally(suite: &KunitSuite) -> String {
    let count = |status| {
        let tests = suite.tests.iter();
        tests.filter(|test| test.status == status).count()
    };
    format!(
        "{} passed, {} failed, {} skipped",
        count(KunitStatus::Pass),
        count(KunitStatus::Fail),
        count(KunitStatus::Skip)
    )
}
