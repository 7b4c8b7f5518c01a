// SPDX-License-Identifier: GPL-2.0-only
//! All that can be said of the text that a process has made.

use crate::advice::Asked;
use crate::made::{is_made, is_shared};
use crate::settings::Settings;
use crate::why::State;
use crate::{Runtime, Why};
use serde::Serialize;
use std::path::Path;
use wideleaf_procmap::{Coverage, Extent, Leaf, Mapping, Process, Sight, Vma};

/// The text that a process has made.
#[derive(Debug, Serialize)]
pub struct Account {
    /// The process.
    pub pid: u32,
    /// Its command name.
    pub name: String,
    /// Its bytes in hexadecimal if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<String>,
    /// The runtime that makes the text, if it is known.
    pub runtime: Option<&'static Runtime>,
    /// Its mappings, in order of address.
    pub made: Vec<Made>,
}

/// A mapping that holds such text.
#[derive(Debug, Serialize)]
pub struct Made {
    /// The mapping.
    #[serde(flatten)]
    pub vma: Vma,
    /// Bytes by leaf.
    #[serde(flatten)]
    pub coverage: Coverage,
    /// Whole blocks of a PMD's size.
    pub blocks: u64,
    /// Those of which something is in memory; none if that cannot be seen.
    pub populated: Option<u64>,
    /// Those that a PMD maps.
    pub wide: u64,
    /// Why it is not wide, or that it is.
    pub why: Why,
}

/// Explains the text that `process` has made, which `runs` map; none if it has made none. `proc`
/// and `sys` are where these file systems are mounted, `pmd` is in bytes.
pub fn account(
    proc: &Path,
    sys: &Path,
    process: &Process,
    runs: &[Extent],
    pmd: u64,
) -> Option<Account> {
    let mappings: Vec<&Mapping> = process
        .mappings
        .iter()
        .filter(|m| is_made(&m.vma))
        .collect();
    if mappings.is_empty() {
        return None;
    }
    let asked = Asked::read(proc, process.pid);
    let settings = Settings::read(sys, pmd);
    let seen = process.sight != Sight::Maps;
    let explain = |mapping: &&Mapping| {
        let vma = &mapping.vma;
        let (blocks, populated, wide) = count(vma, runs, pmd);
        let populated = seen.then_some(populated);
        let state = State {
            blocks,
            populated,
            wide,
            disabled: asked.disabled,
            advice: asked.of(vma.start),
            setting: match is_shared(vma) {
                true => settings.shared,
                false => settings.private,
            },
        };
        Made {
            vma: vma.clone(),
            coverage: mapping.coverage.clone(),
            blocks,
            populated,
            wide,
            why: state.why(),
        }
    };
    Some(Account {
        pid: process.pid,
        name: process.name.clone(),
        name_bytes: process.name_bytes.clone(),
        runtime: runtime(proc, process),
        made: mappings.iter().map(explain).collect(),
    })
}

fn runtime(proc: &Path, process: &Process) -> Option<&'static Runtime> {
    let exe = std::fs::read_link(proc.join(format!("{}/exe", process.pid)));
    let exe = exe
        .ok()
        .and_then(|exe| Some(exe.file_name()?.to_string_lossy().into_owned()));
    let of_files = process.mappings.iter().filter(|m| m.vma.inode != 0);
    let names = of_files.filter_map(|m| m.vma.name.rsplit('/').next());
    Runtime::of(exe.as_deref().unwrap_or(&process.name), names)
}

/// Whole blocks of a mapping, those of which something is mapped, those that one leaf maps.
fn count(vma: &Vma, runs: &[Extent], pmd: u64) -> (u64, u64, u64) {
    let (Some(first), last) = (vma.start.checked_next_multiple_of(pmd), vma.end / pmd * pmd) else {
        return (0, 0, 0);
    };
    let (mut blocks, mut populated, mut wide) = (0, 0, 0);
    for start in (first..last).step_by(pmd as usize) {
        let at = runs.partition_point(|run| run.start + run.len <= start);
        let within = runs[at..].iter().take_while(|run| run.start < start + pmd);
        let (some, one) = within.fold((false, false), |(_, one), run| {
            (
                true,
                one || matches!(run.leaf, Leaf::Size(size) if size >= pmd),
            )
        });
        blocks += 1;
        populated += u64::from(some);
        wide += u64::from(one);
    }
    (blocks, populated, wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_procmap::Folios;

    const M2: u64 = 2 << 20;

    fn process(lines: &str) -> Process {
        let mapping = |vma: Vma| Mapping {
            vma,
            coverage: Coverage::default(),
            folios: Folios::default(),
        };
        Process {
            pid: 7,
            name: "java".into(),
            name_bytes: None,
            cgroup: "/".into(),
            cgroup_bytes: None,
            sight: Sight::Full,
            total: Coverage::default(),
            folios: Folios::default(),
            mappings: wideleaf_procmap::mappings(lines.as_bytes())
                .map(mapping)
                .collect(),
        }
    }

    /// Below a `proc` and a `sys` that hold nothing but this setting.
    fn accounted(process: &Process, runs: &[Extent], enabled: &str) -> Option<Account> {
        let root = tempfile::tempdir().unwrap();
        let thp = root.path().join("kernel/mm/transparent_hugepage");
        std::fs::create_dir_all(&thp).unwrap();
        std::fs::write(thp.join("enabled"), enabled).unwrap();
        account(root.path(), root.path(), process, runs, M2)
    }

    #[test]
    fn each_mapping_of_made_text_has_a_reason_and_files_have_none() {
        let process = process(
            "200000-a00000 r-xp 0 08:01 9 /usr/lib/jvm/libjvm.so\n\
             40200000-40800000 rwxp 0 00:00 0\n\
             50201000-50400000 rwxp 0 00:00 0\n\
             60200000-60600000 rwxp 0 00:00 0\n",
        );
        let run = |start, len, size| Extent {
            start,
            len,
            leaf: Leaf::Size(size),
        };
        let runs = [
            run(0x4020_0000, M2, M2),
            run(0x4040_0000, 8192, 4096),
            run(0x5020_1000, 4096, 4096),
        ];
        let account = accounted(&process, &runs, "always [madvise] never").unwrap();
        assert_eq!(account.runtime.unwrap().name, "OpenJDK (HotSpot)");
        let found: Vec<_> = account
            .made
            .iter()
            .map(|m| (m.blocks, m.populated, m.wide, m.why))
            .collect();
        let expected = [
            (3, Some(2), 1, Why::NotAsked),
            (0, Some(0), 0, Why::NoBlock),
            (2, Some(0), 0, Why::Unpopulated),
        ];
        assert_eq!(found, expected);
        let off = accounted(&process, &runs, "always madvise [never]").unwrap();
        assert_eq!(off.made[0].why, Why::Off);
    }

    #[test]
    fn blocks_that_cannot_be_seen_are_not_said_to_be_empty() {
        let mut blind = process("40200000-40800000 rwxp 0 00:00 0\n");
        blind.sight = Sight::Maps;
        let made = &accounted(&blind, &[], "[always] madvise never")
            .unwrap()
            .made[0];
        assert_eq!((made.populated, made.why), (None, Why::Unseen));
        let files = process("200000-a00000 r-xp 0 08:01 9 /usr/bin/a\n");
        assert!(accounted(&files, &[], "[always]").is_none());
    }
}
