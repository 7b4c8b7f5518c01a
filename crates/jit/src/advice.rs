// SPDX-License-Identifier: GPL-2.0-only
//! The wishes of a process about its mappings, as the kernel knows them: `VmFlags` of smaps,
//! `THP_enabled` of status.

use std::collections::HashMap;
use std::path::Path;

/// The advice for a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Nothing, or it cannot be seen.
    #[default]
    None,
    /// MADV_HUGEPAGE.
    Wide,
    /// MADV_NOHUGEPAGE.
    Narrow,
}

/// All that a process has asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// PR_SET_THP_DISABLE: nothing of it becomes wide.
    pub(crate) disabled: bool,
    mappings: HashMap<u64, Advice>,
}

impl Asked {
    /// By a process below `proc`. A file that may not be read counts as not asked.
    pub(crate) fn read(proc: &Path, pid: u32) -> Self {
        let text = |name: &str| std::fs::read(proc.join(format!("{pid}/{name}")));
        let status = text("status").unwrap_or_default();
        let mut lines = status.split(|byte| *byte == b'\n');
        Self {
            disabled: lines.any(|line| line == b"THP_enabled:\t0"),
            mappings: advice(&text("smaps").unwrap_or_default()),
        }
    }

    /// For the mapping that starts there.
    pub(crate) fn of(&self, start: u64) -> Advice {
        self.mappings.get(&start).copied().unwrap_or_default()
    }
}

fn advice(smaps: &[u8]) -> HashMap<u64, Advice> {
    let (mut found, mut start) = (HashMap::new(), None);
    for line in smaps.split(|byte| *byte == b'\n') {
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            let has = |flag: &[u8]| flags.split(|byte| *byte == b' ').any(|word| word == flag);
            let advice = match (has(b"hg"), has(b"nh")) {
                (true, _) => Advice::Wide,
                (_, true) => Advice::Narrow,
                _ => Advice::None,
            };
            found.extend(start.map(|start| (start, advice)));
        } else if let Some(vma) = wideleaf_procmap::mappings(line).next() {
            start = Some(vma.start);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_belong_to_the_mapping_above_them() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("7")).unwrap();
        let file = |name: &str, text: &str| std::fs::write(proc.path().join("7").join(name), text);
        let smaps = "\
1000-9000 rwxp 0 00:00 0 \nRss:   4 kB\nVmFlags: rd wr ex hg \n\
9000-a000 rwxp 0 00:00 0 \nVmFlags: rd nh\nb000-c000 rwxp 0 00:00 0 \nVmFlags: rd ex\n";
        file("smaps", smaps).unwrap();
        file("status", "Name:\tx\nTHP_enabled:\t1\n").unwrap();
        let asked = Asked::read(proc.path(), 7);
        let of = [0x1000, 0x9000, 0xb000, 0xf000].map(|start| asked.of(start));
        assert_eq!(
            of,
            [Advice::Wide, Advice::Narrow, Advice::None, Advice::None]
        );
        assert!(!asked.disabled);
        file("status", "THP_enabled:\t0\n").unwrap();
        assert!(Asked::read(proc.path(), 7).disabled);
        assert!(!Asked::read(proc.path(), 8).disabled);
    }
}
