// SPDX-License-Identifier: GPL-2.0-only
//! What a series file says besides its steps.

use crate::step::Step;
use crate::{Base, SeriesDir, Variant, mail};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The comments of a series file, and the overlay files that it names.
pub(super) struct Marks {
    path: PathBuf,
    /// The lines before the first step and the first mark.
    head: Vec<String>,
    /// Each later comment with the subject of the step before it; `None` is before all steps.
    comments: Vec<(Option<String>, String)>,
    /// The overlay files.
    pub overlay: BTreeSet<String>,
}

impl Marks {
    /// Reads what is there; of a base without a series, what a new one begins with.
    pub(super) fn read(base: Base, files: &SeriesDir) -> Result<Self> {
        let folder = files.of(base);
        let path = folder.join("series");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => format!(
                "# SPDX-License-Identifier: GPL-2.0-only\n\
                 # Steps of the series for Linux {base}, see ../../README.md\n"
            ),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let mut this = Self {
            path,
            head: Vec::new(),
            comments: Vec::new(),
            overlay: BTreeSet::new(),
        };
        let (mut in_head, mut before) = (true, None);
        for line in text.lines() {
            let step = line.split('#').next().unwrap_or_default().trim();
            if !step.is_empty() {
                in_head = false;
                let mut words = step.split_whitespace();
                let patch = folder.join(words.next().unwrap_or_default());
                // Of a patch that is not there no commit has the subject.
                let text = fs::read_to_string(patch).unwrap_or_default();
                before = Some(mail::subject(&text).unwrap_or_default());
                this.overlay.extend(words.skip(1).map(str::to_string));
                continue;
            }
            in_head &= variant(line).is_none();
            if in_head {
                this.head.push(line.to_string());
            } else if !line.trim().is_empty() {
                this.comments.push((before.clone(), line.to_string()));
            }
        }
        Ok(this)
    }

    /// The text of a series file for `steps`. `given` are marks behind the step of this number,
    /// instead of those of the same name that were there.
    ///
    /// # Errors
    ///
    /// If a mark's step is not among `steps`, or it is not the only one of its subject.
    pub(super) fn series(
        &self,
        steps: &[Step],
        given: &BTreeMap<Variant, usize>,
    ) -> Result<String> {
        let subjects = steps
            .iter()
            .map(|step| Ok(mail::subject(&step.text()?).unwrap_or_default()))
            .collect::<Result<Vec<_>>>()?;
        let replaced = |line: &str| {
            let mut given = given.keys();
            variant(line).is_some_and(|name| given.any(|given| given.name() == name))
        };
        let mut lines = self.head.clone();
        let mut behind: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (subject, line) in self.comments.iter().filter(|(_, line)| !replaced(line)) {
            let Some(subject) = subject else {
                lines.push(line.clone());
                continue;
            };
            let mut at = (0..subjects.len()).filter(|&at| subjects[at] == *subject);
            match (variant(line), at.next(), at.next()) {
                (_, Some(at), None) => behind.entry(at).or_default().push(line.clone()),
                // Other comments go with their step.
                (None, _, _) => {}
                (Some(name), None, _) => bail!(
                    "{}: the step before '{line}' is gone ('{subject}'): name the commit that \
                     '{name}' ends with by --mark {name}=COMMIT, or take the line out",
                    self.path.display()
                ),
                (Some(name), Some(_), Some(_)) => bail!(
                    "{}: several commits have the subject of the step before '{line}' \
                     ('{subject}'): name the one that '{name}' ends with by --mark {name}=COMMIT",
                    self.path.display()
                ),
            }
        }
        for (variant, &at) in given {
            behind.entry(at).or_default().push(mark(*variant));
        }
        for (at, step) in steps.iter().enumerate() {
            let mut line = step.name();
            if !step.overlay.is_empty() {
                line += &format!(" + {}", step.overlay.join(" "));
            }
            lines.push(line);
            lines.extend(behind.remove(&at).unwrap_or_default());
        }
        Ok(lines.join("\n") + "\n")
    }
}

/// The line that ends the part of the series that makes `variant`.
fn mark(variant: Variant) -> String {
    format!("# variant {variant}: the steps up to here")
}

/// The variant that a line names.
fn variant(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("# variant ")?;
    name.strip_suffix(": the steps up to here")
}
