// SPDX-License-Identifier: GPL-2.0-only
//! How a run of the lab went, for machines that collect test results: `--ktap` and `--junit`.

use crate::screen::Screen;
use anyhow::{Context, Error, Result, ensure};
use std::path::{Path, PathBuf};
use wideleaf_kit::replace::replace;
use wideleaf_lab::results::Results;
use wideleaf_lab::target::Target;
use wideleaf_report::junit::junit;
use wideleaf_report::ktap::ktap;
use wideleaf_report::outcome::{Failure, Test, tests};

/// Where it is told.
#[derive(clap::Args, Debug)]
pub struct Outcome {
    /// Write each boot and verdict as a test in KTAP, as kernel tests print them;
    /// - is standard output
    #[arg(long, value_name = "FILE")]
    ktap: Option<PathBuf>,
    /// The same as JUnit's XML, as GitLab reads it; - is standard output
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Outcome {
    /// Whether it takes standard output for itself.
    pub fn to_stdout(&self) -> bool {
        let files = [&self.ktap, &self.junit];
        files.into_iter().flatten().any(|path| is_stdout(path))
    }

    /// That standard output is not asked for twice, `json` included.
    ///
    /// # Errors
    ///
    /// If it is.
    pub fn check(&self, json: Option<&Path>) -> Result<()> {
        let files = [self.ktap.as_deref(), self.junit.as_deref(), json];
        let asked = files.into_iter().flatten().filter(|path| is_stdout(path));
        ensure!(
            asked.count() < 2,
            "only one of --json, --ktap and --junit can go to standard output: name files for \
             the others"
        );
        Ok(())
    }

    /// Writes what was asked for; files appear whole or not at all.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write(&self, results: &Results, failures: &[Failure], screen: &Screen) -> Result<()> {
        self.put(&tests(results, failures), screen)
    }

    /// The same with these tests.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn put(&self, tests: &[Test], screen: &Screen) -> Result<()> {
        if let Some(path) = &self.ktap {
            put(path, &ktap(tests), screen)?;
        }
        if let Some(path) = &self.junit {
            put(path, &junit(tests)?, screen)?;
        }
        Ok(())
    }
}

/// Of those that have no results, the first failed for this reason, and the others were not begun.
pub fn failures(without: &[Target], error: &Error) -> Vec<Failure> {
    let failure = |(at, target): (usize, &Target)| Failure {
        name: name(target),
        reason: (at == 0).then(|| format!("{error:#}")),
    };
    without.iter().enumerate().map(failure).collect()
}

fn name(target: &Target) -> String {
    let Target {
        job,
        base,
        arch,
        page_size,
        ..
    } = target;
    match &target.part {
        Some(part) => format!("{job} {part} {base} {arch} {page_size}"),
        None => format!("{job} {base} {arch} {page_size}"),
    }
}

fn put(path: &Path, text: &str, screen: &Screen) -> Result<()> {
    match is_stdout(path) {
        true => screen.print(text),
        false => replace(path, text).with_context(|| format!("cannot write {}", path.display())),
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(ktap: Option<&str>, junit: Option<&str>) -> Outcome {
        Outcome {
            ktap: ktap.map(Into::into),
            junit: junit.map(Into::into),
        }
    }

    #[test]
    fn standard_output_goes_to_one() {
        let both = outcome(Some("-"), Some("-"));
        let error = both.check(None).unwrap_err().to_string();
        assert!(error.contains("name files"), "{error}");
        let one = outcome(Some("-"), Some("a.xml"));
        assert!(one.check(Some(Path::new("a.json"))).is_ok());
        assert!(one.check(Some(Path::new("-"))).is_err());
        assert!(one.to_stdout() && !outcome(Some("a"), None).to_stdout());
    }

    #[test]
    fn both_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (ktap, junit) = (path("a.ktap"), path("a.xml"));
        let failure = Failure {
            name: "exec 6.12 arm64 4K".into(),
            reason: Some("no disk".into()),
        };
        let results = Results::new(Vec::new(), Vec::new());
        let both = outcome(Some(&ktap), Some(&junit));
        both.write(&results, &[failure], &Screen::new()).unwrap();
        let text = std::fs::read_to_string(ktap).unwrap();
        assert!(
            text.contains("not ok 1 exec 6.12 arm64 4K # ERROR no disk"),
            "{text}"
        );
        let text = std::fs::read_to_string(junit).unwrap();
        assert!(text.contains("<error message=\"no disk\""), "{text}");
        let nowhere = outcome(Some("/dev/null/a.ktap"), None);
        let error = nowhere.write(&results, &[], &Screen::new()).unwrap_err();
        assert!(
            format!("{error:#}").contains("/dev/null/a.ktap"),
            "{error:#}"
        );
    }
}
