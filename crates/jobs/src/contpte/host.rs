// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{MemoryReport, NAME, Report, Task};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::Fs;
use wideleaf_lab::plan::{Asked, MOUNT_POINT, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::{Row, shares};
use wideleaf_tlb::report::Coverage;

/// Bytes for the files that are mapped.
const ROOM: u64 = 256 << 20;

/// The job.
#[derive(Debug)]
pub struct Contpte;

/// The registry's entry.
pub const JOB: Contpte = Contpte;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
}

/// What one step did to the groups of one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Change {
    /// Groups that one leaf maps now and did not before, and the reverse.
    folds: u64,
    unfolds: u64,
    /// What maps all of them now.
    leaves: BTreeMap<String, u64>,
}

impl Job for Contpte {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &["contpte --referee --page-size 4K"],
            ..Facts::new(
                NAME,
                "contiguous groups through mprotect, fork, munmap, reclaim",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let task = Task {
            folder: MOUNT_POINT.into(),
        };
        let disk = asked.own.fs.disk(Contents::Room(ROOM));
        Ok(Plan::new(&task, 300).with_disk(disk))
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("<memory>.<step>.folds", "groups", "contiguous groups that one leaf maps after the step and not before"),
            figure("<memory>.<step>.unfolds", "groups", "the reverse"),
            figure("<memory>.<step>.<leaf>", "bytes", "of all groups that leaves of this size map after the step"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for memory in &run.report.memories {
            let changes = changes(&run.report, memory, &run.coverage);
            for (step, change) in memory.steps.iter().zip(changes) {
                let name = format!("{}.{step}", memory.name);
                figures.put(format!("{name}.folds"), change.folds);
                figures.put(format!("{name}.unfolds"), change.unfolds);
                figures.put_leaves(&name, &change.leaves);
            }
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let filesystem = measured.own.fs.fs.title();
        format!("contiguous groups made and broken, {filesystem},")
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let Some(first) = measured.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for memory in &first.report.memories {
            for (nth, step) in memory.steps.iter().enumerate() {
                let cell = |run: &Run<'_, Self>| cell(run, &memory.name, nth);
                rows.push(measured.row(&memory.name, step, cell));
            }
        }
        rows
    }

    fn notes(&self, _: &Measured<'_, Self>) -> Vec<String> {
        vec![
            "  +: groups folded by the step, -: unfolded; and what maps all groups after it".into(),
        ]
    }
}

/// What each step did, by the records of before and after it.
fn changes(report: &Report, memory: &MemoryReport, records: &[Coverage]) -> Vec<Change> {
    let leaf = wideleaf_kit::size::short(report.group);
    let mut folded = vec![false; report.groups as usize];
    let step = |nth: u64| {
        let mut change = Change::default();
        for (group, folded) in folded.iter_mut().enumerate() {
            let id = memory.first_id + nth * memory.ids_per_step + group as u64;
            let Some(record) = records.iter().find(|record| record.id == id) else {
                continue;
            };
            let now = record.leaves.get(&leaf) == Some(&report.group);
            change.folds += u64::from(now && !*folded);
            change.unfolds += u64::from(*folded && !now);
            *folded = now;
            for (name, bytes) in &record.leaves {
                *change.leaves.entry(name.clone()).or_default() += bytes;
            }
        }
        change
    };
    (0..memory.steps.len() as u64).map(step).collect()
}

/// `+1 -0, 64K 90%, 4K 10%`.
fn cell(run: &Run<'_, Contpte>, memory: &str, nth: usize) -> String {
    let report = &run.report;
    let memories = &mut report.memories.iter();
    let found = memories
        .find(|known| known.name == memory)
        .and_then(|memory| {
            let change = changes(report, memory, &run.coverage)
                .into_iter()
                .nth(nth)?;
            let len = report.groups * report.group;
            let shares = shares(&change.leaves, len);
            Some(format!("+{} -{}, {shares}", change.folds, change.unfolds))
        });
    found.unwrap_or_else(|| "-".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_kbuild::Variant;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::results::BootResult;
    use wideleaf_lab::sample::run;

    /// Two groups of 64K; after each step, how much of each is one leaf.
    fn lived(steps: &[[u64; 2]]) -> BootResult {
        let record = |(nth, groups): (usize, &[u64; 2])| {
            [0, 1].map(|group| Coverage {
                id: 1000 + nth as u64 * 10 + group as u64,
                len: 65536,
                leaves: [("64K", groups[group]), ("4K", 65536 - groups[group])]
                    .map(|(name, bytes)| (name.to_string(), bytes))
                    .into(),
                ..Coverage::default()
            })
        };
        BootResult {
            coverage: steps.iter().enumerate().flat_map(record).collect(),
            outcome: serde_json::to_value(Report {
                group: 65536,
                groups: 2,
                memories: vec![MemoryReport {
                    name: "anon".into(),
                    steps: vec!["step".into(); steps.len()],
                    first_id: 1000,
                    ids_per_step: 10,
                }],
            })
            .unwrap(),
            ..run(Variant::Patched, 1)
        }
    }

    #[test]
    fn what_one_step_folds_another_may_unfold() {
        let run = lived(&[[65536, 65536], [65536, 0], [0, 65536]]);
        let run = Run::of(&run).unwrap();
        assert_eq!(cell(&run, "anon", 0), "+2 -0, 64K 100%");
        assert_eq!(cell(&run, "anon", 1), "+0 -1, 4K 50%, 64K 50%");
        // As much is folded as before, but not the same.
        assert_eq!(cell(&run, "anon", 2), "+1 -1, 4K 50%, 64K 50%");
        assert_eq!(cell(&run, "file", 0), "-");
    }

    #[test]
    fn figures_are_by_memory_and_step() {
        let figures = AnyJob::measure(&Contpte, &lived(&[[65536, 0]])).unwrap();
        assert_eq!(figures.get("anon.step.folds").map(|f| f.value), Some(1));
        assert_eq!(figures.get("anon.step.4K").map(|f| f.value), Some(65536));
    }
}
