// SPDX-License-Identifier: GPL-2.0-only
//! One step of a series: a patch, and the overlay files that it adds.

use crate::SeriesDir;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// One commit: a patch, and the overlay files that it adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The patch, a mail as `git format-patch` writes it.
    pub patch: PathBuf,
    /// Paths below `overlay/`, which are the paths in the tree.
    pub overlay: Vec<String>,
}

/// Parts of the tree of which no kernel is made: people and other programs read them.
const NOT_BUILT: [&str; 3] = ["Documentation/", "MAINTAINERS", "tools/testing/"];

/// Whether a kernel may differ by what this path of the tree has.
pub(crate) fn is_built(path: &str) -> bool {
    !NOT_BUILT.iter().any(|part| path.starts_with(part))
}

/// What a patch does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Adds,
    Changes,
    Removes,
}

impl Step {
    /// Reads a line of `series`; `patches` holds the base's patches.
    pub(crate) fn parse(line: &str, files: &SeriesDir, patches: &Path) -> Result<Self> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let patch = patches.join(name);
        if !patch.is_file() {
            bail!("{}: no such patch", patch.display());
        }
        match words.next() {
            None | Some("+") => {}
            Some(word) => bail!("'{word}': after the patch comes '+', then overlay files"),
        }
        let overlay: Vec<String> = words.map(str::to_string).collect();
        for file in &overlay {
            let plain = Path::new(file)
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            let path = files.overlay(file);
            if !plain || !path.is_file() {
                bail!("'{file}': no such file: {}", path.display());
            }
        }
        Ok(Self { patch, overlay })
    }

    /// The patch's file name.
    pub(crate) fn name(&self) -> String {
        let name = self.patch.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The patch's text.
    pub(crate) fn text(&self) -> Result<String> {
        let path = &self.patch;
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The patch, file by file, for the paths that `counts` takes.
    pub(crate) fn diffs(&self, counts: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        Ok(diffs(&self.text()?, counts))
    }

    /// What the patch does to which files; those of the overlay that the step adds are not in it.
    pub(crate) fn touches(&self) -> Result<BTreeMap<String, Touch>> {
        Ok(touches(&self.text()?))
    }
}

/// What begins the changes of a file.
const DIFF: &str = "\ndiff --git a/";

fn diffs(patch: &str, counts: impl Fn(&str) -> bool) -> Vec<String> {
    // As other programs than git write it.
    if !patch.contains(DIFF) {
        return vec![patch.to_string()];
    }
    let diffs = patch.split(DIFF).skip(1);
    let diffs = diffs.filter(|diff| diff.split(' ').next().is_some_and(&counts));
    diffs.map(str::to_string).collect()
}

/// The files that a patch adds, changes or removes.
pub(crate) fn touches(patch: &str) -> BTreeMap<String, Touch> {
    let mut touched = BTreeMap::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(old) = line.strip_prefix("--- ") else {
            continue;
        };
        // A removed line may begin like this too, but then no "+++ " follows
        // with a path.
        let Some(new) = lines.peek().and_then(|next| next.strip_prefix("+++ ")) else {
            continue;
        };
        let old = old.strip_prefix("a/").map(str::trim_end);
        let new = new.strip_prefix("b/").map(str::trim_end);
        if old == new {
            touched.extend(new.map(|path| (path.to_string(), Touch::Changes)));
            continue;
        }
        touched.extend(old.map(|path| (path.to_string(), Touch::Removes)));
        touched.extend(new.map(|path| (path.to_string(), Touch::Adds)));
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_by_which_no_kernel_differs_are_left_out() {
        let patch = "a subject\n\ndiff --git a/MAINTAINERS b/MAINTAINERS\n@@ -1 +1 @@\n+F:\tmm/x.c\n\
                     diff --git a/mm/x.c b/mm/x.c\n@@ -1 +1 @@\n+here\n\
                     diff --git a/Documentation/mm/x.rst b/Documentation/mm/x.rst\n+there\n\
                     diff --git a/tools/objtool/x.c b/tools/objtool/x.c\n+too\n";
        assert_eq!(
            diffs(patch, is_built),
            [
                "mm/x.c b/mm/x.c\n@@ -1 +1 @@\n+here",
                "tools/objtool/x.c b/tools/objtool/x.c\n+too\n"
            ]
        );
    }

    #[test]
    fn touched_files_are_found_and_message_text_is_not() {
        let patch = "a subject\n\n--- not a file\n---\n--- a/mm/x.c\n+++ b/mm/x.c\n@@ -1 +1 @@\n\
                     --- gone\n+here\n--- /dev/null\n+++ b/mm/new.c\n--- a/mm/old.c\n+++ /dev/null\n";
        let touched: Vec<_> = touches(patch).into_iter().collect();
        let expected = [
            ("mm/new.c", Touch::Adds),
            ("mm/old.c", Touch::Removes),
            ("mm/x.c", Touch::Changes),
        ];
        assert_eq!(
            touched,
            expected.map(|(path, touch)| (path.to_string(), touch))
        );
    }
}
