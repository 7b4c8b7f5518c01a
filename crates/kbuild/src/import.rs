// SPDX-License-Identifier: GPL-2.0-only
//! Writes a series from the commits of a git repository: the reverse of an export.
//!
//! Everything is written beside the files that it replaces and applied there once, and what comes
//! out compared with the repository. Only then do the new files take the place of the old ones.

mod comments;
mod range;
mod swap;

use crate::series::Series;
use crate::step::Step;
use crate::{Base, KernelDir, SeriesDir, SeriesName, scratch};
use anyhow::{Context, Result, bail};
use comments::Comments;
use range::{Blob, Range};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use swap::swap;

/// What to write a series from.
#[derive(Clone, Debug)]
pub struct Import {
    /// The series to write.
    pub series: SeriesName,
    /// The base that it is for.
    pub base: Base,
    /// A git repository with the kernel and the steps as commits.
    pub tree: PathBuf,
    /// Its commits, one step each, as git names them: `base..HEAD`.
    pub range: String,
    /// Whether overlay files may be replaced that another base's series has too.
    pub force: bool,
}

/// What an import did to our files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The patches in order, the series file, and the overlay files that are others now.
    pub written: Vec<PathBuf>,
    /// Overlay files that no series names any more.
    pub removed: Vec<PathBuf>,
}

/// Writes `kernel/<series>/<base>` and the overlay files that its steps add.
///
/// A file that a commit adds is an overlay file, with the content that it has after the last
/// commit, if all that later commits do is change lines of it. Other new files are in the patches.
///
/// # Errors
///
/// If the commits cannot be had, are no row without merges, or make no series; if an
/// overlay file is not this base's alone. Then nothing has changed.
pub fn import(import: &Import, files: &KernelDir) -> Result<Imported> {
    let files = &files.series(import.series);
    let range = Range::read(&import.tree, &import.range)?;
    let others = others(import.base, files)?;
    let comments = Comments::read(import.base, files)?;
    fs::create_dir_all(files.path())
        .with_context(|| format!("cannot create {}", files.path().display()))?;
    let stage = tempfile::Builder::new()
        .prefix(".import.")
        .tempdir_in(files.path())
        .with_context(|| format!("cannot write in {}", files.path().display()))?;
    let staged = SeriesDir::at(stage.path().into());

    let ours = ours(&range)?;
    let mut steps = Vec::new();
    let patches = staged.of(import.base);
    fs::create_dir(&patches)?;
    for (number, revision) in range.revisions.iter().enumerate() {
        let added = revision.changes.keys().cloned();
        let added: Vec<_> = added
            .filter(|path| ours.get(path).is_some_and(|file| file.by == number))
            .collect();
        let patch = range.patch(number, &added, &patches)?;
        steps.push(Step {
            patch,
            overlay: added,
        });
    }
    for (path, file) in &ours {
        let at = staged.overlay(path);
        fs::create_dir_all(at.parent().unwrap_or(stage.path()))?;
        fs::write(&at, &file.last).with_context(|| format!("cannot write {}", at.display()))?;
    }
    let named = comments.overlay.clone();
    fs::write(patches.join("series"), comments.series(&steps)?)?;
    check(import.base, &staged, &range, &ours)?;

    let mut changes = vec![(files.of(import.base), Some(patches.clone()))];
    let mut imported = Imported {
        written: Vec::new(),
        removed: Vec::new(),
    };
    let names = steps.iter().map(Step::name).chain(["series".to_string()]);
    imported.written = names.map(|name| changes[0].0.join(name)).collect();
    for (path, file) in &ours {
        let at = files.overlay(path);
        let old = fs::read(&at).ok();
        if old.as_ref() == Some(&file.last) {
            continue;
        }
        if let (true, Some(other), false) = (old.is_some(), others.get(path), import.force) {
            bail!(
                "{}: would get other content, and the series for {other} has it too: \
                 --force replaces it for both",
                at.display()
            );
        }
        imported.written.push(at.clone());
        changes.push((at, Some(staged.overlay(path))));
    }
    for path in named.iter().filter(|path| !ours.contains_key(*path)) {
        let at = files.overlay(path);
        if !others.contains_key(path) && at.is_file() {
            imported.removed.push(at.clone());
            changes.push((at, None));
        }
    }
    keep_others(&changes[0].0, &patches)?;
    swap(&changes, &stage.path().join("old"))?;
    Ok(imported)
}

/// An overlay file of the range.
struct Ours {
    /// The number of the commit that adds it.
    by: usize,
    /// Its content there.
    first: Vec<u8>,
    /// Its content after the last commit.
    last: Vec<u8>,
}

/// The new files that the overlay can hold.
fn ours(range: &Range) -> Result<BTreeMap<String, Ours>> {
    let mut ours: BTreeMap<String, (usize, Blob, Blob)> = BTreeMap::new();
    let mut not = BTreeSet::new();
    for (number, revision) in range.revisions.iter().enumerate() {
        for (path, change) in &revision.changes {
            match (&change.old, &change.new) {
                (None, Some(new)) if !ours.contains_key(path) && is_word(path) => {
                    ours.insert(path.clone(), (number, new.clone(), new.clone()));
                }
                // Nothing but its content changes: the overlay keeps no modes.
                (Some(old), Some(new)) if old.mode == new.mode => {
                    if let Some((_, _, last)) = ours.get_mut(path) {
                        *last = new.clone();
                    }
                }
                _ => {
                    not.insert(path.clone());
                }
            }
        }
    }
    let mut files = BTreeMap::new();
    for (path, (by, first, last)) in ours {
        if not.contains(&path) {
            continue;
        }
        let (first_text, last_text) = (range.blob(&first)?, range.blob(&last)?);
        if suits(&first, &first_text) && suits(&last, &last_text) {
            let file = Ours {
                by,
                first: first_text,
                last: last_text,
            };
            files.insert(path, file);
        }
    }
    Ok(files)
}

/// Whether a path can stand in a line of the series file, and for itself in git's patterns.
fn is_word(path: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "#*?[]\\\"'".contains(c);
    !path.contains(odd)
}

/// Whether a file of this content gets this mode when a step adds it from the overlay, and git
/// shows its changes as text.
fn suits(blob: &Blob, content: &[u8]) -> bool {
    let mode = match scratch::is_script(content) {
        true => "100755",
        false => "100644",
    };
    blob.mode == mode && !content.contains(&0) && std::str::from_utf8(content).is_ok()
}

/// Checks that the written series makes of the range's base what its tip is.
fn check(
    base: Base,
    staged: &SeriesDir,
    range: &Range,
    ours: &BTreeMap<String, Ours>,
) -> Result<()> {
    let series = Series::load(base, staged)?;
    for (path, file) in ours {
        if series.first(path)? != Some(&file.first[..]) {
            bail!("{path}: its later changes do not lead back to what it begins as");
        }
    }
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for change in range
        .revisions
        .iter()
        .flat_map(|revision| &revision.changes)
    {
        let (path, change) = change;
        before.entry(path.clone()).or_insert(change.old.clone());
        after.insert(path.clone(), change.new.clone());
    }
    let read = |blob: Option<Blob>| blob.map(|blob| range.blob(&blob)).transpose();
    let mut original = scratch::Contents::new();
    for (path, blob) in before {
        original.insert(path, read(blob)?);
    }
    let made = series.apply(&range.name, &original)?;
    for (path, blob) in after {
        if made.get(&path) != Some(&read(blob)?) {
            bail!(
                "{path}: the series that was written does not make what '{}' has",
                range.name
            );
        }
    }
    Ok(())
}

/// The overlay files that the series for other bases names, each with its base.
fn others(base: Base, files: &SeriesDir) -> Result<BTreeMap<String, Base>> {
    let mut named = BTreeMap::new();
    for &other in Base::ALL.iter().filter(|&&other| other != base) {
        let comments = Comments::read(other, files)?;
        named.extend(comments.overlay.into_iter().map(|path| (path, other)));
    }
    Ok(named)
}

/// Copies what is neither a patch nor the series file: it is none of ours.
fn keep_others(old: &Path, new: &Path) -> Result<()> {
    for item in fs::read_dir(old).into_iter().flatten() {
        let item = item?;
        let name = item.file_name().to_string_lossy().into_owned();
        if name == "series" || name.ends_with(".patch") || !item.file_type()?.is_file() {
            continue;
        }
        fs::copy(item.path(), new.join(&name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
