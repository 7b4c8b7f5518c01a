// SPDX-License-Identifier: GPL-2.0-only
//! Figures that are committed: results in their compact form, and the pages that show them.

use super::{repeat, report};
use crate::stdout::{say, tell};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use wideleaf_kit::replace::replace;
use wideleaf_lab::results::Results;
use wideleaf_report::compact::Row;
use wideleaf_report::markdown::fill;

/// Keeps each results file as a row in `folder`; none is written unless all can be read.
///
/// # Errors
///
/// If a file is not the results of a row, or its commit is not known.
pub fn compact(files: &[PathBuf], folder: &Path, commit: Option<&str>) -> Result<ExitCode> {
    ensure!(
        folder.is_dir(),
        "{}: no such folder: create it, or name the one that has the figures",
        folder.display()
    );
    let row = |path: &PathBuf| row(path, folder, commit);
    let rows: Result<Vec<_>> = files.iter().map(row).collect();
    for row in rows? {
        say!("{}", row.write(folder)?.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(path: &Path, folder: &Path, commit: Option<&str>) -> Result<Row> {
    let results = Results::read(path)?;
    let what = || path.display().to_string();
    let name = path.file_stem().and_then(|stem| stem.to_str());
    let name = name.with_context(|| format!("{}: not the name of a row", what()))?;
    let command = results.comparisons.first().map(repeat::command);
    let commit = match commit {
        Some(commit) => commit.to_string(),
        None => commit_at(folder, results.created_unix_s).with_context(what)?,
    };
    Row::of(name, &results, &command.unwrap_or_default(), &commit).with_context(what)
}

/// The last commit that the checkout around `folder` had at this time.
fn commit_at(folder: &Path, unix_s: u64) -> Result<String> {
    let log = ["log", "-1", "--first-parent", "--format=%h", "--abbrev=7"];
    let git = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(log)
        .arg(format!("--before=@{unix_s}"))
        .output();
    let remedy = "name the commit of these results with --commit";
    let git = git.with_context(|| format!("cannot run git: {remedy}"))?;
    let commit = String::from_utf8_lossy(&git.stdout).trim().to_string();
    if !git.status.success() {
        let said = String::from_utf8_lossy(&git.stderr).trim().to_string();
        bail!(
            "{} is in no git checkout ({said}): {remedy}",
            folder.display()
        );
    }
    ensure!(
        !commit.is_empty(),
        "they are older than the first commit: {remedy}"
    );
    Ok(commit)
}

/// Writes the tables of `pages` from the rows of `folders`; with `check` only tells which are not
/// as they should be.
///
/// # Errors
///
/// If a row or a page cannot be read, or a page asks for what there is not.
pub fn markdown(folders: &[PathBuf], pages: &[PathBuf], check: bool) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for folder in folders {
        rows.extend(match folder.is_dir() {
            true => Row::read_all(folder)?,
            false => vec![Row::read(folder)?],
        });
    }
    let (mut tables, mut wrong) = (0, 0);
    for page in pages_of(pages)? {
        let what = || page.display().to_string();
        let text = std::fs::read_to_string(&page).with_context(what)?;
        let (right, stale) = fill(&text, &rows).with_context(what)?;
        tables += text.matches("\n<!-- figures: ").count();
        wrong += stale.len();
        for stale in &stale {
            let (line, name) = (stale.line, &stale.name);
            match check {
                true => tell!(
                    "{}:{line}: the table '{name}' is not what the results say",
                    what()
                ),
                false => say!("{}:{line}: the table '{name}' is written", what())?,
            }
        }
        if !check && !stale.is_empty() {
            replace(&page, right).with_context(|| format!("cannot write {}", what()))?;
        }
    }
    ensure!(
        tables > 0,
        "no page has a table: '<!-- figures: NAME -->' to '<!-- end -->' is one"
    );
    if check && wrong > 0 {
        tell!(
            "wideleaf: {wrong} of {tables} tables differ: the same command without --check writes them"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The pages of a folder by name; any other path is one itself.
fn pages_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => pages.extend(report::files_in(path, "md")?),
            false => pages.push(path.clone()),
        }
    }
    Ok(pages)
}
