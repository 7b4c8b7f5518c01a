// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Program, Report, Task};
use crate::kit::deviations::{Deviations, Ending, Endings, deviations};
use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::Path;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::selftests::{TESTS, XFS};
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures, figure};

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

/// The registry's entry.
pub const JOB: MmSelftests = MmSelftests;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Categories, as the base's run_vmtests.sh has them: 'mmap mremap thp'
    /// [default: all]
    #[arg(
        long,
        value_name = "CATEGORIES",
        default_value = "",
        hide_default_value = true
    )]
    pub tests: String,
    /// Programs that are not run, because they take too long:
    /// 'cow transhuge-stress' [default: none]
    #[arg(
        long,
        value_name = "PROGRAMS",
        default_value = "",
        hide_default_value = true
    )]
    pub without: String,
}

impl Options {
    /// The programs that are not to run.
    fn left_out(&self) -> impl Iterator<Item = &str> {
        self.without.split_whitespace()
    }
}

impl Job for MmSelftests {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            fragments: &["selftests"],
            builds_from_base: true,
            examples: &["mm-selftests --repeat 2 --tests 'mmap mremap thp'"],
            ..Facts::new(
                NAME,
                "the base's own selftests/mm: which do not end the same way",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let disk = Path::new(MOUNT_POINT);
        let task = Task {
            tests: disk.join(TESTS),
            xfs: disk.join(XFS),
            categories: asked.own.tests.clone(),
            left_out: asked.own.left_out().map(Into::into).collect(),
            test_limit_s: TEST_LIMIT_S,
        };
        // Tests of huge pages skip if they get none: with 64K pages one has 512M.
        let plan = Plan::new(&task, 3 * 3600).with_memory(4 << 30);
        Ok(plan.with_disk(Disk::new(Contents::Selftests)))
    }

    fn judge(&self, report: &Report) -> Result<()> {
        let tests = report.programs.iter().flat_map(|program| &program.tests);
        let of_tests = tests.map(|test| test.status.into());
        let of_programs = report.programs.iter().map(ending);
        if !of_tests.chain(of_programs).any(|e| e == Ending::Passed) {
            bail!("no test passed: something is wrong with the guest");
        }
        Ok(())
    }

    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        if measured.variants().len() < 2 {
            return Vec::new();
        }
        let differences = found(measured).differences.len();
        vec![Verdict {
            expectation: "no test differs".into(),
            comparison: measured.machine(),
            measured: Some(differences as f64),
            passed: differences == 0,
        }]
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let program = |name, label| {
            figure(name, "tests", "programs of the base's selftests that ended so").row("programs", label)
        };
        let test = |name, label| {
            figure(name, "tests", "tests that these programs report").shown("tests", label)
        };
        vec![
            program("selftests.programs.passed", "passed"),
            program("selftests.programs.failed", "failed"),
            program("selftests.programs.skipped", "skipped"),
            program("selftests.programs.killed", "killed"),
            test("selftests.tests.passed", "passed"),
            test("selftests.tests.failed", "failed"),
            test("selftests.tests.skipped", "skipped"),
            figure("selftests.tests.killed", "tests", "always 0: only a program is killed"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        let programs = &run.report.programs;
        count(figures, "programs", programs.iter().map(ending));
        let tests = programs.iter().flat_map(|program| &program.tests);
        count(figures, "tests", tests.map(|test| test.status.into()));
    }

    fn title(&self, _: &Measured<'_, Self>) -> String {
        "selftests/mm:".into()
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let found = found(measured);
        let differs = found.differences.iter().map(|d| format!("  differs: {d}"));
        let gained = found.gained.iter().map(|d| format!("  gained: {d}"));
        let flaky = found.flaky.iter().map(|d| format!("  flaky: {d}"));
        let left_out = measured.own.left_out();
        let left_out = left_out.map(|name| format!("  left out: {name}"));
        differs.chain(gained).chain(flaky).chain(left_out).collect()
    }
}

fn found(measured: &Measured<'_, MmSelftests>) -> Deviations {
    let runs = measured.runs.iter();
    deviations(runs.map(|run| (run.variant, endings(&run.report))))
}

/// By a program's command line and, of its own tests, by their names besides.
fn endings(report: &Report) -> Endings {
    let mut endings = Endings::default();
    for program in &report.programs {
        let name = endings.add(program.name.clone(), ending(program));
        for test in &program.tests {
            endings.add(format!("{name}: {}", test.name), test.status.into());
        }
        if matches!(ending(program), Ending::Killed | Ending::Skipped) {
            endings.ended_early(format!("{name}: "));
        }
    }
    endings
}

/// How a program ended.
fn ending(program: &Program) -> Ending {
    match program.reason.starts_with("killed") {
        true => Ending::Killed,
        false => program.status.into(),
    }
}

/// How many ended how, as `selftests.<what>.<ending>`.
fn count(figures: &mut Figures, what: &str, endings: impl Iterator<Item = Ending>) {
    let name = |ending| format!("selftests.{what}.{ending}");
    for ending in ENDINGS {
        figures.put(name(ending), 0);
    }
    for ending in endings {
        figures.add(&name(ending), 1);
    }
}
