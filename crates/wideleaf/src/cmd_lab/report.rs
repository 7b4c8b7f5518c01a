// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab report`: results files as one HTML page.

use super::repeat;
use crate::stdout::write_out;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_kit::replace::replace;
use wideleaf_lab::results::Results;
use wideleaf_report::Source;

const EXAMPLES: &str = "\
The page loads nothing from elsewhere. It shows each machine's tables and plots
with the command that repeats them, and what differs where a comparison was
made more than once.

Examples:
  wideleaf lab run --json today.json && wideleaf lab report today.json -o report.html
  wideleaf lab report results/*.json -o report.html
  wideleaf lab matrix docs/measured.toml -o results && wideleaf lab report results
  wideleaf lab report monday.json friday.json > report.html

Exit status:    0 written, 1 a file cannot be read or written, 2 wrong usage";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// What 'wideleaf lab run --json FILE' wrote, or a folder of such files, as
    /// 'wideleaf lab matrix' fills it
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// The page; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// If a results file cannot be read or the page cannot be written.
    pub fn run(&self) -> Result<ExitCode> {
        let mut files = Vec::new();
        for path in &self.results {
            files.extend(files_of(path)?);
        }
        let sources: Result<Vec<_>> = files.iter().map(|path| source(path)).collect();
        let page = wideleaf_report::page(&sources?, &repeat::command)?;
        if self.output == Path::new("-") {
            write_out(&page)?;
        } else {
            replace(&self.output, &page)
                .with_context(|| format!("cannot write {}", self.output.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The results files of a folder by name; any other path is one itself.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let what = || path.display().to_string();
    let items: std::io::Result<Vec<_>> = std::fs::read_dir(path).with_context(what)?.collect();
    let paths = items
        .with_context(what)?
        .into_iter()
        .map(|item| item.path());
    let is_results = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut files: Vec<_> = paths.filter(is_results).collect();
    ensure!(!files.is_empty(), "{}: no results in this folder", what());
    files.sort();
    Ok(files)
}

fn source(path: &Path) -> Result<Source> {
    Ok(Source {
        name: path.display().to_string(),
        results: Results::read(path)?,
    })
}
