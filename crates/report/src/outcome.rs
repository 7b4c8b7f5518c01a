// SPDX-License-Identifier: GPL-2.0-only
//! Results as tests that passed or did not, for the machines that collect such:
//! [`ktap`](crate::ktap) is what kernel tests print, [`junit`](crate::junit) what GitLab reads.

use wideleaf_lab::results::{BootResult, Comparison, Results, Verdict};

/// A comparison that has no results.
pub struct Failure {
    /// The job and the machine: `exec 6.12 arm64 64K`.
    pub name: String,
    /// Why; `None`: another one failed before it was begun.
    pub reason: Option<String>,
}

/// How a test went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Passed,
    /// It did not hold.
    Failed,
    /// It came to no end, for this reason.
    Broken(String),
    /// It was not begun, for this reason.
    Skipped(String),
}

/// A boot, a verdict, or a comparison that consists of such.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Its name, which says nothing of how it went.
    pub name: String,
    /// How it went.
    pub status: Status,
    /// Seconds that it took, if that is known.
    pub seconds: Option<f64>,
    /// What a reader must know, a line each.
    pub notes: Vec<String>,
    /// What it consists of.
    pub tests: Vec<Test>,
}

/// All comparisons of a run, in order: those with results, then those without.
pub fn tests(results: &Results, failures: &[Failure]) -> Vec<Test> {
    let done = results.comparisons.iter();
    let done = done.map(|one| comparison(one, &results.expectations));
    done.chain(failures.iter().map(failure)).collect()
}

fn comparison(comparison: &Comparison, verdicts: &[Verdict]) -> Test {
    let machine = comparison.machine();
    let own = verdicts.iter().filter(|one| one.comparison == machine);
    let tests: Vec<_> = comparison
        .runs
        .iter()
        .map(boot)
        .chain(own.map(verdict))
        .collect();
    let passed = tests.iter().all(|test| test.status == Status::Passed);
    Test {
        name: format!("{} {machine}", comparison.job),
        status: if passed {
            Status::Passed
        } else {
            Status::Failed
        },
        seconds: Some(comparison.runs.iter().map(|run| run.wall_s).sum()),
        notes: Vec::new(),
        tests,
    }
}

/// A boot of which there are results did what its job asked for.
fn boot(run: &BootResult) -> Test {
    Test {
        name: format!("{} boot {}", run.variant, run.repeat),
        status: Status::Passed,
        seconds: Some(run.wall_s),
        notes: run
            .warnings
            .iter()
            .map(|text| format!("warning: {text}"))
            .collect(),
        tests: Vec::new(),
    }
}

fn verdict(verdict: &Verdict) -> Test {
    let passed = verdict.passed;
    Test {
        name: verdict.expectation.clone(),
        status: if passed {
            Status::Passed
        } else {
            Status::Failed
        },
        seconds: None,
        notes: vec![verdict.to_string()],
        tests: Vec::new(),
    }
}

fn failure(failure: &Failure) -> Test {
    let skipped = || "a comparison before it failed".to_string();
    Test {
        name: failure.name.clone(),
        status: match &failure.reason {
            Some(reason) => Status::Broken(reason.clone()),
            None => Status::Skipped(skipped()),
        },
        seconds: None,
        notes: Vec::new(),
        tests: Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    /// A comparison with a verdict that held and one that did not, one that broke, one skipped.
    pub fn all() -> Vec<Test> {
        let mut results = source(1, "exec", &json!({ "cold.faults": count(9, 8, 7) })).results;
        let verdict = |expectation: &str, passed| Verdict {
            expectation: expectation.into(),
            comparison: "7.3 arm64 4K".into(),
            measured: Some(0.5),
            passed,
        };
        let other = Verdict {
            comparison: "7.3 arm64 64K".into(),
            ..verdict("of another machine", false)
        };
        results.expectations = vec![
            verdict("cold.faults<=90%", true),
            verdict("walks # <&>\u{1b}[2J<=1%", false),
            other,
        ];
        let failure = |name: &str, reason: Option<&str>| Failure {
            name: name.into(),
            reason: reason.map(Into::into),
        };
        let broken = failure("exec 7.3 arm64 16K", Some("pristine: it panics\nOops # 1"));
        let failures = [broken, failure("exec 7.3 arm64 64K", None)];
        let mut tests = tests(&results, &failures);
        let boot = Test {
            name: "pristine boot 1".into(),
            seconds: Some(1.5),
            status: Status::Passed,
            notes: vec!["warning: w".into()],
            tests: Vec::new(),
        };
        tests[0].tests.insert(0, boot);
        tests
    }
}
