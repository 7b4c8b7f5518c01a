// SPDX-License-Identifier: GPL-2.0-only
//! Figures that are committed: results in their compact form, and the pages that show them.

use super::files::files_below;
use super::repeat;
use crate::stdout::{say, tell};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use wideleaf_kit::replace::replace;
use wideleaf_lab::results::Results;
use wideleaf_report::committed::Figures;
use wideleaf_report::compact::Row;
use wideleaf_report::markdown::{fill, loose};
use wideleaf_report::picture::entries;
use wideleaf_report::sheet;

/// Keeps each results file as a row in `folder`, and seals each sheet; no row is written unless all
/// can be read.
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
    let is_sheet = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let (sheets, files): (Vec<_>, Vec<_>) = files.iter().partition(is_sheet);
    let rows: Result<Vec<_>> = files.iter().map(|path| row(path, folder, commit)).collect();
    for row in rows? {
        say!("{}", row.write(folder)?.display())?;
    }
    for sheet in sheets {
        say!("{}", sheet::seal(sheet, folder)?.display())?;
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
    let row = Row::of(name, &results, &command.unwrap_or_default(), &commit).with_context(what)?;
    ensure!(
        !row.set().is_empty(),
        "{}: not called as a matrix calls the results of a row: call it {}.SET.json",
        what(),
        row.machine()
    );
    Ok(row)
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
    let figures = Figures::read(folders)?;
    let (mut tables, mut wrong) = (0, 0);
    for page in pages_of(pages)? {
        let what = || page.display().to_string();
        let text = std::fs::read_to_string(&page).with_context(what)?;
        let (right, stale) = fill(&text, &figures).with_context(what)?;
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
        if check {
            let loose = loose(&text);
            wrong += loose.len();
            for line in loose {
                tell!(
                    "{}:{line}: a table of figures that are not in the results: keep them there \
                     (docs/lab-schema.md), or if it has none put '<!-- not measured -->' before it",
                    what()
                );
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
            "wideleaf: tables that differ: {wrong}, tables that are made: {tables}; the same command without --check writes the latter"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws the text of the one row that `files` has; with `check` only tells whether the drawing is
/// as it should be.
///
/// # Errors
///
/// If there is no row or more than one, or it has no text.
pub fn picture(files: &[PathBuf], picture: &Path, check: bool) -> Result<ExitCode> {
    let figures = Figures::read(files)?;
    let [row] = &figures.rows[..] else {
        bail!("{} rows, where a picture is of one", figures.rows.len());
    };
    let drawn = entries(row)?;
    let what = || picture.display().to_string();
    if !check {
        replace(picture, drawn).with_context(|| format!("cannot write {}", what()))?;
    } else if std::fs::read_to_string(picture).with_context(what)? != drawn {
        tell!(
            "wideleaf: {}: not what {} says; the same command without --check draws it",
            what(),
            row.row
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The pages of a folder and of those in it, by name; any other path is one itself.
fn pages_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => pages.extend(files_below(path, "md")?),
            false => pages.push(path.clone()),
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str], unix_s: u64) -> String {
        let date = format!("@{unix_s} +0000");
        let run = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(["-c", "user.name=n", "-c", "user.email=e"])
            .args(arguments)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date)
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        String::from_utf8(run.stdout).unwrap().trim().to_string()
    }

    #[test]
    fn the_commit_is_the_last_one_before_the_results() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        git(folder, &["init", "-q"], 0);
        let empty = ["commit", "-q", "--allow-empty", "-m", "c"];
        git(folder, &empty, 1_000_000_000);
        let first = git(folder, &["rev-parse", "--short=7", "HEAD"], 0);
        git(folder, &empty, 1_000_000_100);
        assert_eq!(commit_at(folder, 1_000_000_050).unwrap(), first);
        assert_ne!(commit_at(folder, 1_000_000_150).unwrap(), first);
        let error = commit_at(folder, 999_999_000).unwrap_err().to_string();
        assert!(
            error.contains("older") && error.contains("--commit"),
            "{error}"
        );
    }

    #[test]
    fn outside_of_a_checkout_the_commit_has_to_be_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = commit_at(folder.path(), 1).unwrap_err().to_string();
        assert!(
            error.contains("no git checkout") && error.contains("--commit"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = compact(&[], Path::new("/none/results"), None).unwrap_err();
        assert!(error.to_string().contains("/none/results"), "{error}");
    }

    #[test]
    fn a_page_without_tables_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        std::fs::write(&page, "# Page\n").unwrap();
        let rows = [PathBuf::from("../../results")];
        let error = markdown(&rows, &[page], true).unwrap_err().to_string();
        assert!(error.contains("<!-- figures: NAME -->"), "{error}");
    }

    #[test]
    fn a_page_that_differs_is_told_and_then_written() {
        let folder = tempfile::tempdir().unwrap();
        let deeper = folder.path().join("jobs");
        std::fs::create_dir(&deeper).unwrap();
        let page = deeper.join("page.md");
        let text = "# Page\n\n<!-- figures: front -->\n8192\n<!-- end -->\n";
        std::fs::write(&page, text).unwrap();
        let rows = [PathBuf::from("../../results")];
        let pages = [folder.path().to_path_buf()];
        let run = |check| markdown(&rows, &pages, check).unwrap();
        assert_eq!(run(true), ExitCode::FAILURE);
        assert_eq!(std::fs::read_to_string(&page).unwrap(), text);
        assert_eq!(run(false), ExitCode::SUCCESS);
        let written = std::fs::read_to_string(&page).unwrap();
        assert!(written.contains("8192 → 259"), "{written}");
        assert_eq!(run(true), ExitCode::SUCCESS);
    }
}
