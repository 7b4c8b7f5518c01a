// SPDX-License-Identifier: GPL-2.0-only
//! A table of figures that no row of a matrix has: of another command than the lab's, or of runs
//! whose outcome is words.
//!
//! The file is TOML, written by hand and then sealed: its first line is the hash of all that
//! follows. `docs/lab-schema.md` has the fields.

use crate::compact::hash;
use crate::layout::table;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use wideleaf_kit::replace::replace;

/// The name of the format.
pub const SCHEMA: &str = "wideleaf-table";

/// Raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// The beginning of the first line.
const FIRST: &str = "hash = \"";

/// A table, and where its figures come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    #[serde(default, rename = "hash")]
    _hash: String,
    schema: String,
    schema_version: u32,
    /// The name by which a page asks for it, as the file is called.
    pub table: String,
    /// The commands that make its figures, or what was done.
    pub command: String,
    /// The day on which they were made, in UTC; absent if that is not known.
    pub date: Option<String>,
    /// Wideleaf's commit at that time; absent if that is not known.
    pub commit: Option<String>,
    /// Another place that the figures were taken from.
    pub taken_from: Option<String>,
    /// The heads, between bars.
    pub head: String,
    /// The cells of each line, between bars.
    pub lines: Vec<String>,
}

impl Sheet {
    /// The sheet that [`seal`] wrote to `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or was changed since.
    pub fn read(path: &Path) -> Result<Self> {
        let text = text(path)?;
        let (stated, content) = split(&text);
        ensure!(
            stated == Some(hash(content)),
            "{0}: the content is not what was sealed, as its hash tells: take the edit back ('git \
             checkout' has the file as it was), or if the figures were made again: 'wideleaf lab \
             report {0} --compact {1}'",
            path.display(),
            path.parent().unwrap_or(Path::new("")).display()
        );
        parse(content, path)
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let cells = |line: &String| line.split('|').map(|cell| cell.trim().into()).collect();
        let mut heads: Vec<String> = cells(&self.head);
        let first = heads.remove(0);
        table(&first, heads, self.lines.iter().map(cells))
    }
}

/// Writes the sheet at `path` into `folder`, with the hash of what it is now.
///
/// # Errors
///
/// If it is no sheet, or does not say where its figures come from.
pub fn seal(path: &Path, folder: &Path) -> Result<PathBuf> {
    let text = text(path)?;
    let (_, content) = split(&text);
    let sheet = parse(content, path)?;
    let to = folder.join(format!("{}.toml", sheet.table));
    let sealed = format!("{FIRST}{}\"\n{content}", hash(content));
    replace(&to, sealed).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(to)
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The hash that a file's text states, and what it has to be the hash of.
fn split(text: &str) -> (Option<String>, &str) {
    let stated = text.strip_prefix(FIRST);
    match stated.and_then(|rest| rest.split_once("\"\n")) {
        Some((hash, content)) => (Some(hash.into()), content),
        None => (None, text),
    }
}

fn parse(content: &str, path: &Path) -> Result<Sheet> {
    let what = || path.display().to_string();
    let sheet: Sheet = toml::from_str(content).with_context(what)?;
    sheet.check(path).with_context(what)?;
    Ok(sheet)
}

impl Sheet {
    fn check(&self, path: &Path) -> Result<()> {
        if (self.schema.as_str(), self.schema_version) != (SCHEMA, SCHEMA_VERSION) {
            bail!(
                "it is {} {}, this wideleaf reads {SCHEMA} {SCHEMA_VERSION}",
                self.schema,
                self.schema_version
            );
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        ensure!(
            stem == Some(&self.table),
            "this is the table '{0}': call the file {0}.toml",
            self.table
        );
        ensure!(
            !self.command.is_empty() && (self.commit.is_some() || self.taken_from.is_some()),
            "it does not say where its figures come from: 'command', and 'commit' or 'taken_from'"
        );
        let columns = self.head.split('|').count();
        let other = |line: &&String| line.split('|').count() != columns;
        if let Some(line) = self.lines.iter().find(other) {
            bail!("the head has {columns} cells, another number has the line '{line}'");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHEET: &str = "schema = \"wideleaf-table\"\nschema_version = 1\ntable = \"curve\"\n\
        command = \"wideleaf policy simulate\"\ncommit = \"c0ffee0\"\n\
        head = \"touched | 4K\"\nlines = [\"1 % | 0.64\", \"5 % | 1.04\"]\n";

    #[test]
    fn a_sealed_sheet_is_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curve.toml");
        std::fs::write(&path, SHEET).unwrap();
        let error = format!("{:#}", Sheet::read(&path).unwrap_err());
        assert!(
            error.contains("curve.toml") && error.contains("--compact"),
            "{error}"
        );
        assert_eq!(seal(&path, folder.path()).unwrap(), path);
        let table = "| touched | 4K |\n|---|---|\n| 1 % | 0.64 |\n| 5 % | 1.04 |\n\n";
        assert_eq!(Sheet::read(&path).unwrap().markdown(), table);
        let once = std::fs::read_to_string(&path).unwrap();
        seal(&path, folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), once);
    }

    #[test]
    fn a_sheet_that_was_edited_by_hand_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curve.toml");
        std::fs::write(&path, SHEET).unwrap();
        seal(&path, folder.path()).unwrap();
        let sealed = std::fs::read_to_string(&path).unwrap();
        for (old, new) in [
            ("0.64", "0.65"),
            ("c0ffee0", "c0ffee1"),
            ("hash = \"", "hash = \"0"),
        ] {
            std::fs::write(&path, sealed.replacen(old, new, 1)).unwrap();
            let error = format!("{:#}", Sheet::read(&path).unwrap_err());
            assert!(
                error.contains("curve.toml") && error.contains("git checkout"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_cannot_be_sealed_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("curve.toml");
        for (old, new, words) in [
            ("wideleaf-table", "other", "it is other 1"),
            ("\"curve\"", "\"line\"", "call the file line.toml"),
            ("commit = \"c0ffee0\"\n", "", "where its figures come from"),
            ("5 % | 1.04", "5 %", "'5 %'"),
            ("head", "heads", "heads"),
        ] {
            let text = SHEET.replace(old, new);
            std::fs::write(&path, &text).unwrap();
            let error = format!("{:#}", seal(&path, folder.path()).unwrap_err());
            assert!(
                error.contains("curve.toml") && error.contains(words),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
