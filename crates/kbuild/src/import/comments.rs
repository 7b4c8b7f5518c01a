// SPDX-License-Identifier: GPL-2.0-only
//! What a series file says besides its steps.

use crate::step::Step;
use crate::{Base, SeriesDir, mail};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

/// The comments of a series file, and the overlay files that it names.
pub(super) struct Comments {
    /// The lines before the first step.
    head: Vec<String>,
    /// Later comments by the subject of the step before them.
    behind: BTreeMap<String, Vec<String>>,
    /// The overlay files.
    pub overlay: BTreeSet<String>,
}

impl Comments {
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
            head: Vec::new(),
            behind: BTreeMap::new(),
            overlay: BTreeSet::new(),
        };
        let mut before = None;
        for line in text.lines() {
            let step = line.split('#').next().unwrap_or_default().trim();
            if step.is_empty() {
                let lines = match &before {
                    None => &mut this.head,
                    Some(subject) => this.behind.entry(String::clone(subject)).or_default(),
                };
                lines.push(line.to_string());
                continue;
            }
            let mut words = step.split_whitespace();
            let patch = folder.join(words.next().unwrap_or_default());
            // Of a patch that is not there no commit has the subject.
            let text = fs::read_to_string(patch).unwrap_or_default();
            before = Some(mail::subject(&text).unwrap_or_default());
            this.overlay
                .extend(words.map(str::to_string).filter(|word| word != "+"));
        }
        Ok(this)
    }

    /// The text of a series file for `steps`. A comment goes with the step before it.
    ///
    /// # Errors
    ///
    /// If a step's patch cannot be read.
    pub(super) fn series(mut self, steps: &[Step]) -> Result<String> {
        let mut lines = self.head;
        for step in steps {
            let mut line = step.name();
            if !step.overlay.is_empty() {
                line += &format!(" + {}", step.overlay.join(" "));
            }
            lines.push(line);
            let subject = mail::subject(&step.text()?).unwrap_or_default();
            lines.extend(self.behind.remove(&subject).unwrap_or_default());
        }
        Ok(lines.join("\n") + "\n")
    }
}
