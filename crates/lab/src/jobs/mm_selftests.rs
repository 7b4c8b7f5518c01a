// SPDX-License-Identifier: GPL-2.0-only
//! The base's own selftests/mm, by their own runner.

use crate::disk::Contents;
use crate::disk::selftests::{TESTS, XFS};
use crate::job::{Job, MOUNT_POINT};
use crate::options::{Options, Setting};

use crate::results::deviations::{Ending, deviations, ending, report};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use anyhow::{Result, bail};
use std::path::Path;
use wideleaf_guest::protocol::{Outcome, SelftestOptions, SelftestReport, Task};

/// Seconds of the guest's clock that one program may take.
const TEST_LIMIT_S: u32 = 180;

/// In the table's order. Only a program is killed, not a test of it.
const ENDINGS: [Ending; 4] = [
    Ending::Passed,
    Ending::Failed,
    Ending::Skipped,
    Ending::Killed,
];

/// The job.
#[derive(Debug)]
pub struct MmSelftests;

impl Job for MmSelftests {
    fn name(&self) -> String {
        "mm-selftests".into()
    }

    fn about(&self) -> &'static str {
        "the base's own tools/testing/selftests/mm: which tests do not end the same way"
    }

    fn fragments(&self) -> &'static [&'static str] {
        &["selftests"]
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Tests, Setting::Without]
    }

    fn builds_from_base(&self) -> bool {
        true
    }

    fn time_limit_s(&self) -> u32 {
        3 * 3600
    }

    /// Tests of huge pages skip if they get none: with 64K pages one has 512M.
    fn memory(&self, _: &Options) -> u64 {
        4 << 30
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Selftests)
    }

    fn task(&self, options: &Options) -> Task {
        let disk = Path::new(MOUNT_POINT);
        Task::MmSelftests(SelftestOptions {
            tests: disk.join(TESTS),
            xfs: disk.join(XFS),
            categories: options.tests.clone(),
            left_out: left_out(options).map(Into::into).collect(),
            test_limit_s: TEST_LIMIT_S,
        })
    }

    fn judge(&self, outcome: &Outcome) -> Result<()> {
        let passed = |report: &SelftestReport| {
            let tests = report.programs.iter().flat_map(|program| &program.tests);
            let of_tests = tests.map(|test| test.status.into());
            let of_programs = report.programs.iter().map(ending);
            of_tests.chain(of_programs).any(|e| e == Ending::Passed)
        };
        if !report(outcome).is_some_and(passed) {
            bail!("no test passed: something is wrong with the guest");
        }
        Ok(())
    }

    fn verdicts(&self, comparison: &Comparison) -> Vec<Verdict> {
        if comparison.variants().len() < 2 {
            return Vec::new();
        }
        let differences = deviations(&comparison.runs).differences.len();
        vec![Verdict {
            expectation: "no test differs".into(),
            comparison: comparison.machine(),
            measured: Some(differences as f64),
            passed: differences == 0,
        }]
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        let Some(report) = report(&run.outcome) else {
            return;
        };
        let programs = report.programs.iter().map(ending);
        count(figures, "programs", programs);
        let tests = report.programs.iter().flat_map(|program| &program.tests);
        count(figures, "tests", tests.map(|test| test.status.into()));
    }

    fn is_headline(&self, figure: &str) -> bool {
        figure.starts_with("selftests.programs.")
    }

    fn title(&self, _: &Comparison) -> String {
        "selftests/mm:".into()
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let mut rows = Vec::new();
        for (section, endings) in [("programs", &ENDINGS[..]), ("tests", &ENDINGS[..3])] {
            for ending in endings {
                let figure = format!("selftests.{section}.{ending}");
                let label = ending.to_string();
                rows.push(Row::figures(comparison, section, &label, &[figure]));
            }
        }
        rows
    }

    fn notes(&self, comparison: &Comparison) -> Vec<String> {
        let found = deviations(&comparison.runs);
        let differs = found.differences.iter().map(|d| format!("  differs: {d}"));
        let gained = found.gained.iter().map(|d| format!("  gained: {d}"));
        let flaky = found.flaky.iter().map(|d| format!("  flaky: {d}"));
        let left_out = left_out(&comparison.options).map(|name| format!("  left out: {name}"));
        differs.chain(gained).chain(flaky).chain(left_out).collect()
    }
}

/// The programs that are not to run.
fn left_out(options: &Options) -> impl Iterator<Item = &str> {
    options.without.split_whitespace()
}

/// How many ended how, as `selftests.<what>.<ending>`.
fn count(figures: &mut Figures, what: &str, endings: impl Iterator<Item = Ending>) {
    let name = |ending| format!("selftests.{what}.{ending}");
    for ending in ENDINGS {
        figures.put(name(ending), "tests", 0);
    }
    for ending in endings {
        figures.add(&name(ending), 1);
    }
}
