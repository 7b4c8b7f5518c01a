// SPDX-License-Identifier: GPL-2.0-only
//! A line for each change since the last pass: a log that is quiet while all is well.

use crate::Pass;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wideleaf_kit::size::bytes;

/// The state that was told last.
#[derive(Debug, Default)]
pub struct Changes {
    wide: BTreeMap<PathBuf, (u64, Option<String>)>,
    notes: BTreeSet<String>,
}

impl Changes {
    /// Lines for what is new; the pass is what was told last from now on.
    pub fn since(&mut self, pass: &Pass) -> Vec<String> {
        let mut lines = Vec::new();
        let mut wide = BTreeMap::new();
        for file in &pass.files {
            let why = file.why.map(|why| why.name());
            let now = (file.wide, why.clone());
            let before = self.wide.get(&file.name);
            if before != Some(&now) || file.read > 0 {
                let size = |n| bytes(n, false);
                let reason = why.map_or(String::new(), |why| format!("; others: {why}"));
                lines.push(format!(
                    "{}: {} of {} wide, before {}; {} read{reason}",
                    file.name.display(),
                    size(file.wide),
                    size(file.blocks),
                    before.map_or("unknown".into(), |before| size(before.0)),
                    size(file.read),
                ));
            }
            wide.insert(file.name.clone(), now);
        }
        let gone = self.wide.keys().filter(|name| !wide.contains_key(*name));
        lines.extend(gone.map(|name| format!("{}: not kept any more", name.display())));
        lines.extend(pass.done.iter().cloned());
        let notes: BTreeSet<String> = pass.notes.iter().cloned().collect();
        lines.extend(notes.difference(&self.notes).cloned());
        (self.wide, self.notes) = (wide, notes);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kept;
    use wideleaf_fill::Why;

    fn pass(wide: u64, read: u64, why: Option<Why>, notes: &[&str]) -> Pass {
        Pass {
            files: vec![Kept {
                name: "/a".into(),
                blocks: 4 << 20,
                wide,
                read,
                why,
            }],
            done: Vec::new(),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }

    #[test]
    fn only_changes_are_told() {
        let mut changes = Changes::default();
        let first = changes.since(&pass(4 << 20, 4 << 20, None, &["x: no such file"]));
        assert_eq!(
            first,
            [
                "/a: 4M of 4M wide, before unknown; 4M read",
                "x: no such file"
            ]
        );
        assert!(
            changes
                .since(&pass(4 << 20, 0, None, &["x: no such file"]))
                .is_empty()
        );
        let narrow = changes.since(&pass(2 << 20, 0, Some(Why::InUse), &[]));
        assert_eq!(
            narrow,
            ["/a: 2M of 4M wide, before 4M; 0 read; others: in-use"]
        );
        let again = changes.since(&pass(2 << 20, 2 << 20, None, &[]));
        assert_eq!(again.len(), 1, "what was read is told: {again:?}");
        assert_eq!(changes.since(&Pass::default()), ["/a: not kept any more"]);
    }
}
