// SPDX-License-Identifier: GPL-2.0-only
//! JUnit's XML: a suite for each comparison, a case for each boot and verdict of it.

use crate::outcome::{Status, Test};
use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::slice::from_ref;
use std::time::Duration;
use wideleaf_kit::names::printable;

/// The tests as JUnit's XML.
///
/// # Errors
///
/// Never in practice.
pub fn junit(tests: &[Test]) -> Result<String> {
    let mut report = Report::new("wideleaf lab run");
    report.add_test_suites(tests.iter().map(suite));
    let seconds = tests.iter().filter_map(|test| test.seconds).sum();
    report.set_time(duration(seconds));
    Ok(report.to_string()?)
}

/// A comparison without boots and verdicts is its own only case: readers count cases, not suites.
fn suite(test: &Test) -> TestSuite {
    let mut suite = TestSuite::new(printable(&test.name));
    let cases = match test.tests.is_empty() {
        true => from_ref(test),
        false => &test.tests,
    };
    suite.add_test_cases(cases.iter().map(|one| case(one, &test.name)));
    if let Some(seconds) = test.seconds {
        suite.set_time(duration(seconds));
    }
    suite
}

fn case(test: &Test, suite: &str) -> TestCase {
    let mut case = TestCase::new(printable(&test.name), status(test));
    case.set_classname(printable(suite));
    if let Some(seconds) = test.seconds {
        case.set_time(duration(seconds));
    }
    if !test.notes.is_empty() {
        let notes: Vec<_> = test.notes.iter().map(|note| printable(note)).collect();
        case.set_system_out(notes.join("\n"));
    }
    case
}

fn status(test: &Test) -> TestCaseStatus {
    let lines = |text: &str| text.lines().map(printable).collect::<Vec<_>>();
    let (mut status, said) = match &test.status {
        Status::Passed => return TestCaseStatus::success(),
        Status::Failed => (
            TestCaseStatus::non_success(NonSuccessKind::Failure),
            lines(&test.notes.join("\n")),
        ),
        Status::Broken(reason) => (
            TestCaseStatus::non_success(NonSuccessKind::Error),
            lines(reason),
        ),
        Status::Skipped(reason) => (TestCaseStatus::skipped(), lines(reason)),
    };
    status.set_message(said.first().map_or("", String::as_str));
    status.set_description(said.join("\n"));
    status
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::sample;

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let text = junit(&sample::all()).unwrap();
        let report = Report::deserialize_from_str(&text).unwrap();
        let counts = (report.tests, report.failures, report.errors);
        assert_eq!(counts, (5, 1, 1), "{text}");
        let suite = &report.test_suites[0];
        assert_eq!(suite.name.as_str(), "exec 7.3 arm64 4K");
        let cases: Vec<_> = suite
            .test_cases
            .iter()
            .map(|case| case.name.as_str())
            .collect();
        let right = [
            "pristine boot 1",
            "cold.faults<=90%",
            "walks # <&>\\x1b[2J<=1%",
        ];
        assert_eq!(cases, right);
        assert_eq!(suite.test_cases[0].time, Some(Duration::from_millis(1500)));
        assert_eq!(
            suite.test_cases[0].classname.as_ref().unwrap().as_str(),
            "exec 7.3 arm64 4K"
        );
        assert!(text.contains("tests=\"5\" skipped=\"1\""), "{text}");
    }

    #[test]
    fn a_failure_says_why() {
        let text = junit(&sample::all()).unwrap();
        let report = Report::deserialize_from_str(&text).unwrap();
        let why =
            |suite: usize, case: usize| match &report.test_suites[suite].test_cases[case].status {
                TestCaseStatus::NonSuccess {
                    kind,
                    message,
                    description,
                    ..
                } => (
                    *kind,
                    message.as_ref().unwrap().as_str().to_string(),
                    description.as_ref().unwrap().as_str().to_string(),
                ),
                other => panic!("{other:?}"),
            };
        let (kind, message, _) = why(0, 2);
        assert_eq!(kind, NonSuccessKind::Failure);
        assert!(
            message.starts_with("FAIL  7.3 arm64 4K: walks"),
            "{message}"
        );
        let (kind, message, all) = why(1, 0);
        assert_eq!(kind, NonSuccessKind::Error);
        assert_eq!(
            (message.as_str(), all.as_str()),
            ("pristine: it panics", "pristine: it panics\nOops # 1")
        );
    }

    #[test]
    fn attributes_are_those_that_gitlab_reads() {
        let text = junit(&sample::all()).unwrap();
        for part in [
            "<testsuites name=\"wideleaf lab run\" tests=\"5\"",
            "<testcase name=\"pristine boot 1\" classname=\"exec 7.3 arm64 4K\" time=\"1.500\"",
            "<failure message=\"FAIL",
            "<error message=\"pristine: it panics\"",
            "<skipped message=\"a comparison before it failed\"",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
