// SPDX-License-Identifier: GPL-2.0-only
//! Runs the base's own `scripts/checkpatch.pl --strict` over an exported series.

use crate::author::Author;
use crate::series::Series;
use crate::worktree::WorkTree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What checkpatch found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Patches that were checked.
    pub patches: usize,
    /// Its messages; empty if there is nothing to say.
    pub messages: String,
}

impl Report {
    /// Whether checkpatch had no complaint.
    pub fn passed(&self) -> bool {
        self.messages.is_empty()
    }
}

/// A source package has no history in which to look up `Fixes:`.
const IGNORED: &str = "UNKNOWN_COMMIT_ID";

/// TRACE_EVENT() is not laid out as calls are, in no file of the kernel, and checkpatch does not
/// know it.
const LAYOUT: &str = "OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT";

fn adds_events(patch: &Path) -> bool {
    let text = fs::read_to_string(patch).unwrap_or_default();
    text.contains("\n+++ b/include/trace/events/")
}

/// Exports `series` for `tree` and checks it.
pub fn check(tree: &WorkTree, series: &Series) -> Result<Report> {
    let dir = tempfile::tempdir().context("cannot create a scratch folder")?;
    let export = dir.path().join("export");
    let original = tree.originals(&series.touched()?)?;
    let files = series.export(
        &tree.source().to_string(),
        &original,
        &Author::nobody(),
        &export,
    )?;
    // The first one is the cover letter.
    let patches = &files[1..];
    let mut messages = String::new();
    let (events, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        patches.iter().partition(|patch| adds_events(patch));
    for (group, ignored) in [
        (others, IGNORED.to_owned()),
        (events, format!("{IGNORED},{LAYOUT}")),
    ] {
        messages += &run(tree, &group, &ignored, dir.path())?;
    }
    let messages = messages
        .replace(&format!("{}/", export.display()), "")
        .trim()
        .to_string();
    Ok(Report {
        patches: patches.len(),
        messages,
    })
}

/// What checkpatch says of these patches, but for the types that are `ignored`.
fn run(tree: &WorkTree, patches: &[&PathBuf], ignored: &str, dir: &Path) -> Result<String> {
    if patches.is_empty() {
        return Ok(String::new());
    }
    let script = tree.src().join("scripts/checkpatch.pl");
    let out = Command::new("perl")
        .arg(&script)
        .args(["--strict", "--quiet", "--show-types", "--color=never"])
        .args(["--ignore", ignored])
        .arg(format!("--root={}", tree.src().display()))
        .args(patches)
        .current_dir(dir)
        .output()
        .context("cannot run perl")?;
    let text = [out.stdout, out.stderr].concat();
    let messages = String::from_utf8_lossy(&text).to_string();
    if !out.status.success() && messages.trim().is_empty() {
        bail!("{}: {} without a word", script.display(), out.status);
    }
    Ok(messages)
}
