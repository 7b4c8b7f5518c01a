// SPDX-License-Identifier: GPL-2.0-only
//! What an overlay file is when its step adds it, and what after the last step.
//!
//! `overlay/` holds what a file is in the end. A step may change a file that an earlier one added;
//! so that file begins as what is left when the hunks of all later steps are taken back, the last
//! step's first. Nothing is kept of it: the overlay and the patches say it all.

use crate::SeriesDir;
use crate::scratch;
use crate::step::{Step, Touch};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The content of an overlay file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// When its step adds it.
    pub first: Vec<u8>,
    /// After the last step of the whole series: the file in the overlay.
    pub last: Vec<u8>,
}

/// Checks that each overlay file is added once, and only changed, and that only after it was added.
/// `steps` is a whole series, `series` its file.
///
/// # Errors
///
/// If not: the text names the patches and the file.
pub(crate) fn check(steps: &[Step], series: &Path) -> Result<()> {
    let mut adds = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        for file in &step.overlay {
            if adds.insert(file, number).is_some() {
                bail!("{}: two steps add {file}", series.display());
            }
        }
    }
    for (number, step) in steps.iter().enumerate() {
        for (file, touch) in step.touches()? {
            let Some(&adding) = adds.get(&file) else {
                continue;
            };
            let patch = step.patch.display();
            let by = steps[adding].name();
            if number == adding {
                bail!("{patch}: touches {file}, which the same step adds from the overlay");
            }
            if number < adding {
                bail!("{patch}: touches {file} before {by} adds it from the overlay");
            }
            let verb = match touch {
                Touch::Changes => continue,
                Touch::Adds => "adds",
                Touch::Removes => "removes",
            };
            bail!(
                "{patch}: {verb} {file}, which {by} adds from the overlay: \
                 a later step can change it, no more"
            );
        }
    }
    Ok(())
}

/// Reads the overlay files `wanted`, and takes the hunks of `steps`, the whole series, back to get
/// what each file is when its step adds it.
///
/// # Errors
///
/// If a file cannot be read, or a hunk does not fit what the overlay holds.
pub(crate) fn lives(
    files: &SeriesDir,
    steps: &[Step],
    wanted: &BTreeSet<String>,
) -> Result<BTreeMap<String, Life>> {
    let mut lives = BTreeMap::new();
    for file in wanted {
        let path = files.overlay(file);
        let last = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let first = last.clone();
        lives.insert(file.clone(), Life { first, last });
    }
    let mut changes = Vec::new();
    for step in steps.iter().rev() {
        let touched = step.touches()?.into_keys();
        let ours: Vec<_> = touched.filter(|file| wanted.contains(file)).collect();
        if !ours.is_empty() {
            changes.push((step, ours));
        }
    }
    if changes.is_empty() {
        return Ok(lives);
    }
    let dir = scratch::folder()?;
    let changed: BTreeSet<_> = changes.iter().flat_map(|(_, files)| files).collect();
    for &file in &changed {
        scratch::write(dir.path(), file, &lives[file].last)?;
    }
    for (step, ours) in &changes {
        reverse(dir.path(), step, ours, files)?;
    }
    for (file, life) in &mut lives {
        if changed.contains(file) {
            let path = dir.path().join(file);
            life.first = fs::read(path).with_context(|| format!("cannot read {file}"))?;
        }
    }
    Ok(lives)
}

/// Takes back what `step` does to the files `ours` in `dir`, and to no others.
fn reverse(dir: &Path, step: &Step, ours: &[String], files: &SeriesDir) -> Result<()> {
    let mut git = scratch::git(dir);
    git.args(["apply", "-R", "-p1", "--whitespace=nowarn"])
        .args(ours.iter().map(|file| format!("--include={file}")))
        .arg(&step.patch);
    let Err(error) = scratch::run(&mut git) else {
        return Ok(());
    };
    let text = error.to_string();
    let shown: Vec<_> = ours
        .iter()
        .filter(|file| text.contains(file.as_str()))
        .map(|file| files.overlay(file).display().to_string())
        .collect();
    bail!(
        "{}: a hunk does not reverse: {} was edited where {} changes it ({text}); \
         write the step back with 'wideleaf kernel import'",
        step.patch.display(),
        shown.join(", "),
        step.name()
    )
}
