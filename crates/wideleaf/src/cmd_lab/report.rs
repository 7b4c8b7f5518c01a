// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab report`: results files as one HTML page, as figures to commit, as tables of pages.

use super::files::files_in;
use super::{figures, repeat};
use crate::stdout::write_out;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_kit::replace::replace;
use wideleaf_lab::results::Results;
use wideleaf_report::Source;

const EXAMPLES: &str = "\
The page loads nothing from elsewhere. It shows each machine's tables and plots
with the command that repeats them, and what differs where a comparison was
made more than once.

--compact keeps the figures of a matrix, a file for each row, small enough to
commit; it also seals a table of other figures that was written by hand
(FILE.toml, see docs/lab-schema.md). --markdown writes tables from such files
into pages, between the lines '<!-- figures: NAME -->' and '<!-- end -->'.

Examples:
  wideleaf lab run --json today.json && wideleaf lab report today.json -o report.html
  wideleaf lab report results/*.json -o report.html
  wideleaf lab matrix docs/measured.toml -o results && wideleaf lab report results
  wideleaf lab report monday.json friday.json > report.html
  wideleaf lab report target/measured --compact results
  wideleaf lab report results --markdown docs --markdown README.md
  wideleaf lab report results --markdown docs --check
  wideleaf lab report results/6.12-arm64-64K.text-by-leaf.json --picture docs/text.svg

Exit status:    0 written, 1 a file cannot be read or written, or with --check a
                table differs, 2 wrong usage";

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Report {
    /// A file of 'wideleaf lab run --json FILE', or a folder of such files, as
    /// 'wideleaf lab matrix' fills it; with --markdown, what --compact wrote
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// The page; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Keep the figures of each results file, or of each FILE.toml, in this folder
    /// instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "output")]
    compact: Option<PathBuf>,
    /// Wideleaf's commit that made the results [default: the checkout's at that
    /// time]
    #[arg(long, value_name = "ID", requires = "compact")]
    commit: Option<String>,
    /// Write the tables of figures in this page, or in the pages below this folder,
    /// instead
    #[arg(long, value_name = "PAGE", group = "checked", conflicts_with_all = ["output", "compact"])]
    markdown: Vec<PathBuf>,
    /// Draw the text of RESULTS, one row that --compact wrote, as SVG: a cell for each leaf that
    /// maps it, with the first kernel and with the last
    #[arg(long, value_name = "FILE", group = "checked", conflicts_with_all = ["output", "compact"])]
    picture: Option<PathBuf>,
    /// Only tell which tables, or that the picture, differ from the figures
    #[arg(long, requires = "checked")]
    check: bool,
}

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// If a results file cannot be read or the page cannot be written.
    pub fn run(&self) -> Result<ExitCode> {
        if !self.markdown.is_empty() {
            return figures::markdown(&self.results, &self.markdown, self.check);
        }
        if let Some(picture) = &self.picture {
            return figures::picture(&self.results, picture, self.check);
        }
        let mut files = Vec::new();
        for path in &self.results {
            files.extend(files_of(path)?);
        }
        if let Some(folder) = &self.compact {
            return figures::compact(&files, folder, self.commit.as_deref());
        }
        let sources: Result<Vec<_>> = files.iter().map(|path| source(path)).collect();
        let page = wideleaf_report::page(&sources?, &repeat::command);
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
    files_in(path, "json")
}

fn source(path: &Path) -> Result<Source> {
    Ok(Source {
        name: path.display().to_string(),
        results: Results::read(path)?,
    })
}
