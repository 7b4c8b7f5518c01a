// SPDX-License-Identifier: GPL-2.0-only
//! Which leaves map the text of a command's processes, looked at while they run.

use serde::Serialize;
use std::path::Path;
use wideleaf_procmap::{Reader, Scope, Select, sizes};

/// The text of the process that had most of it, when it had most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The process's name.
    pub name: String,
    /// Bytes of text that were mapped.
    pub resident: u64,
    /// Of these, bytes that leaves of a PMD's size map.
    pub wide: u64,
}

impl Seen {
    /// The share that is wide, 0 to 1; none if nothing was seen.
    pub fn share(&self) -> Option<f64> {
        (self.resident > 0).then(|| self.wide as f64 / self.resident as f64)
    }
}

/// Looks at a process and all that it has started.
pub(crate) struct Watcher {
    reader: Reader,
    pmd: u64,
    /// The starter of programs, whose own text does not count.
    starter: Option<std::path::PathBuf>,
    pub(crate) seen: Seen,
}

impl Watcher {
    pub(crate) fn new(starter: &Path) -> Self {
        let (page, pmd) = sizes("/sys".as_ref());
        Self {
            reader: Reader::new("/proc".as_ref(), page, pmd, &[]),
            pmd,
            starter: starter.canonicalize().ok(),
            seen: Seen::default(),
        }
    }

    pub(crate) fn look(&mut self, pid: u32) {
        let mut pids = vec![pid];
        while let Some(pid) = pids.pop() {
            self.process(pid);
            let children = format!("/proc/{pid}/task/{pid}/children");
            let children = std::fs::read_to_string(children).unwrap_or_default();
            pids.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }

    fn process(&mut self, pid: u32) {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        if exe.is_none() || exe == self.starter {
            return;
        }
        self.reader.refresh();
        let process = self
            .reader
            .read(pid, Scope::Text, &Select::default(), &mut |_| {});
        let Ok(Some(process)) = process else { return };
        if process.total.resident >= self.seen.resident {
            self.seen = Seen {
                name: process.name,
                resident: process.total.resident,
                wide: process.total.leaves.get(&self.pmd).copied().unwrap_or(0),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_with_most_text_is_seen_and_the_starter_is_not() {
        let mut watcher = Watcher::new(Path::new("/nowhere"));
        watcher.look(std::process::id());
        assert!(watcher.seen.resident > 0, "{:?}", watcher.seen);
        let mut watcher = Watcher::new(&std::env::current_exe().unwrap());
        watcher.look(std::process::id());
        assert_eq!(watcher.seen.name, "");
    }
}
