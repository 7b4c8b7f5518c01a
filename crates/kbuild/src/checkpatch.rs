// SPDX-License-Identifier: GPL-2.0-only
//! Runs the base's own `scripts/checkpatch.pl --strict` over an exported series.

use crate::author::Author;
use crate::dir::SeriesDir;
use crate::series::Series;
use crate::source::Source;
use crate::stack::Stack;
use crate::worktree::WorkTree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};

/// The cache's kind of entry that says that checkpatch had no complaint.
const KIND: &str = "checkpatch";

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

/// Names all that checkpatch's answer depends on: every file of the series' folder, the source, and
/// what is ignored.
fn key(files: &SeriesDir, source: &Source) -> Result<Key> {
    let mut key = Key::new()
        .field("source", source.to_string())
        .field("ignored", [IGNORED, LAYOUT].join(" "));
    let mut folders = vec![files.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = item?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(files.path()).unwrap_or(&path);
            key = key.file(name.to_string_lossy(), &path)?;
        }
    }
    Ok(key)
}

/// Whether checkpatch had no complaint about these very files before.
///
/// # Errors
///
/// If the series cannot be read.
pub fn passed_before(files: &SeriesDir, source: &Source, cache: &Cache) -> Result<bool> {
    Ok(cache.get(KIND, &key(files, source)?).is_some())
}

/// Keeps in mind that checkpatch had no complaint about these files.
///
/// # Errors
///
/// If the series cannot be read, or the cache cannot be written.
pub fn keep_pass(files: &SeriesDir, source: &Source, cache: &Cache) -> Result<()> {
    let key = key(files, source)?;
    cache.get_or_build(KIND, &key, || (), |_| Ok(())).map(drop)
}

/// Exports `series`, which stands on `ground`, for `tree` and checks it.
pub fn check(tree: &WorkTree, series: &Series, ground: &Stack) -> Result<Report> {
    let dir = tempfile::tempdir().context("cannot create a scratch folder")?;
    let export = dir.path().join("export");
    let original = tree.under(series, ground)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Base;

    #[test]
    fn a_pass_counts_for_these_files_and_this_source_alone() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        let folder = dir.path().join("series");
        fs::create_dir_all(folder.join("overlay/mm")).unwrap();
        fs::write(folder.join("overlay/mm/wide.c"), "int wide;\n").unwrap();
        let files = SeriesDir::at(folder.clone());
        let of = |version: &str| Source {
            base: Base::V7_3,
            version: version.into(),
        };
        let passed = |source: &Source| passed_before(&files, source, &cache).unwrap();
        assert!(!passed(&of("7.3.1")));
        keep_pass(&files, &of("7.3.1"), &cache).unwrap();
        assert!(passed(&of("7.3.1")));
        assert!(!passed(&of("7.3.2")), "another checkpatch.pl may object");
        fs::write(folder.join("overlay/mm/wide.c"), "int wide; \n").unwrap();
        assert!(!passed(&of("7.3.1")));
    }
}
