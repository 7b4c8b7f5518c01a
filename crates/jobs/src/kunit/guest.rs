// SPDX-License-Identifier: GPL-2.0-only
//! Results of the kernel's built-in KUnit suites, which ran before init was started.
//!
//! debugfs has each suite's text whole, where the console would have it mixed with other
//! messages. The format is KTAP (Documentation/dev-tools/ktap.rst): a suite's own line is not
//! indented, a test's by four columns, a parameter's by eight.

use super::{NAME, Report, Suite, Task};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use wideleaf_guest::kit::tap::result_line;
use wideleaf_guest::kit::tap::{Status, Test};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Kunit;

/// The registry's entry.
pub const WORK: Kunit = Kunit;

impl Work for Kunit {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, _: &Task, _: &Place<'_>, _: &Port) -> Result<Report> {
        collect(Path::new(DEBUGFS))
    }
}

/// One folder per suite.
const DEBUGFS: &str = "/sys/kernel/debug/kunit";

/// Reads all suites below `folder`.
fn collect(folder: &Path) -> Result<Report> {
    let entries = fs::read_dir(folder).with_context(|| {
        format!(
            "{}: cannot list; the kernel needs CONFIG_DEBUG_FS, CONFIG_KUNIT and \
             CONFIG_KUNIT_DEBUGFS",
            folder.display()
        )
    })?;
    let mut suites = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| folder.display().to_string())?;
        let path = entry.path().join("results");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        suites.push(parse(&entry.file_name().to_string_lossy(), &text));
    }
    ensure!(
        !suites.is_empty(),
        "{}: no suites; none is built in",
        folder.display()
    );
    suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Report { suites })
}

/// One suite's KTAP text. A suite without a line of its own has not come to its end: it failed.
fn parse(name: &str, text: &str) -> Suite {
    let mut status = Status::Fail;
    let mut tests = Vec::new();
    let mut parameters: Vec<Test> = Vec::new();
    for line in text.lines() {
        let Some(result) = result_line(line.trim_start()) else {
            continue;
        };
        match line.len() - line.trim_start().len() {
            0 => status = result.status,
            4 => {
                let parent = &result.name;
                tests.extend(parameters.drain(..).map(|p| Test {
                    name: format!("{parent}/{}", p.name),
                    ..p
                }));
                tests.push(result);
            }
            _ => parameters.push(result),
        }
    }
    let failed = status == Status::Fail || tests.iter().any(|test| test.status == Status::Fail);
    Suite {
        name: name.to_owned(),
        status,
        tests,
        log: if failed {
            text.to_owned()
        } else {
            String::new()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "KTAP version 1
1..1
    KTAP version 1
    # Subtest: widths
    # module: leaf_test
    1..3
    ok 1 smallest
        KTAP version 1
        # Subtest: every_size
        ok 1 64K
        ok 2 2M # SKIP no such leaf
    # every_size: pass:1 fail:0 skip:1 total:2
    ok 2 every_size
    ok 3 - ranges # SKIP needs 52 bits
# widths: pass:2 fail:0 skip:1 total:3
# Totals: pass:2 fail:0 skip:2 total:4
ok 1 widths
";

    const BAD: &str = "KTAP version 1
1..1
    KTAP version 1
    # Subtest: widths
    1..1
    # smallest: EXPECTATION FAILED at mm/leaf_test.c:12
    Expected 1 == 2, but
    not ok 1 smallest
not ok 1 widths
";

    fn line(test: &Test) -> String {
        format!("{} {:?} {}", test.name, test.status, test.reason)
            .trim_end()
            .to_owned()
    }

    #[test]
    fn tests_parameters_and_skips() {
        let suite = parse("widths", GOOD);
        assert_eq!(suite.status, Status::Pass);
        assert_eq!(
            suite.tests.iter().map(line).collect::<Vec<_>>(),
            [
                "smallest Pass",
                "every_size/64K Pass",
                "every_size/2M Skip no such leaf",
                "every_size Pass",
                "ranges Skip needs 52 bits",
            ]
        );
        assert_eq!(suite.log, "");
        let report = Report {
            suites: vec![suite],
        };
        assert!(report.passed());
        assert_eq!(report.count(Status::Skip), 2);
    }

    #[test]
    fn a_failure_fails_the_report_and_keeps_the_text() {
        let suite = parse("widths", BAD);
        assert_eq!(suite.status, Status::Fail);
        assert_eq!(line(&suite.tests[0]), "smallest Fail");
        assert!(suite.log.contains("Expected 1 == 2"));
        assert!(
            !Report {
                suites: vec![suite]
            }
            .passed()
        );
    }

    #[test]
    fn a_suite_cut_short_has_failed() {
        let cut = GOOD.strip_suffix("ok 1 widths\n").unwrap();
        let suite = parse("widths", cut);
        assert_eq!(suite.status, Status::Fail);
        assert!(
            !Report {
                suites: vec![suite]
            }
            .passed()
        );
    }

    #[test]
    fn suites_are_collected_from_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let error = format!("{:#}", collect(dir.path()).unwrap_err());
        assert!(error.contains("no suites"), "{error}");
        for (name, text) in [("b", BAD), ("a", GOOD)] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("results"), text).unwrap();
        }
        let report = collect(dir.path()).unwrap();
        assert_eq!(
            report
                .suites
                .iter()
                .map(|s| &s.name[..])
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert!(!report.passed());
        let error = format!("{:#}", collect(Path::new("/no/such")).unwrap_err());
        assert!(error.contains("CONFIG_KUNIT_DEBUGFS"), "{error}");
    }
}
