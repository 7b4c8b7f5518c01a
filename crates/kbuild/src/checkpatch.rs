// SPDX-License-Identifier: GPL-2.0-only
//! Runs the base's own `scripts/checkpatch.pl --strict` over an exported series.

use crate::author::Author;
use crate::series::Series;
use crate::worktree::WorkTree;
use anyhow::{Context, Result, bail};
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
    let script = tree.src().join("scripts/checkpatch.pl");
    let out = Command::new("perl")
        .arg(&script)
        .args(["--strict", "--quiet", "--show-types", "--color=never"])
        // A source package has no history in which to look up `Fixes:`.
        .args(["--ignore", "UNKNOWN_COMMIT_ID"])
        .arg(format!("--root={}", tree.src().display()))
        .args(patches)
        .current_dir(dir.path())
        .output()
        .context("cannot run perl")?;
    let text = [out.stdout, out.stderr].concat();
    let messages = String::from_utf8_lossy(&text)
        .replace(&format!("{}/", export.display()), "")
        .trim()
        .to_string();
    if !out.status.success() && messages.is_empty() {
        bail!("{}: {} without a word", script.display(), out.status);
    }
    Ok(Report {
        patches: patches.len(),
        messages,
    })
}
