// SPDX-License-Identifier: GPL-2.0-only
//! The life of contiguous groups of page-table entries: which steps fold them, which unfold them.

use crate::disk::Contents;
use crate::job::{Job, MOUNT_POINT};
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::{Row, shares};
use crate::results::{BootResult, Comparison};
use std::collections::BTreeMap;
use wideleaf_guest::protocol::{ContpteMemory, ContpteReport, Outcome, Task};
use wideleaf_tlb::report::Coverage;

/// Bytes for the files that are mapped.
const ROOM: u64 = 256 << 20;

/// The job.
#[derive(Debug)]
pub struct Contpte;

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
    fn name(&self) -> String {
        "contpte".into()
    }

    fn about(&self) -> &'static str {
        "contiguous groups through mprotect, fork, copy on write, mremap, munmap, reclaim; arm64"
    }

    fn counts(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Filesystem]
    }

    fn time_limit_s(&self) -> u32 {
        300
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Room(ROOM))
    }

    fn task(&self, _: &Options) -> Task {
        Task::Contpte {
            folder: MOUNT_POINT.into(),
        }
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        let Some(report) = report(&run.outcome) else {
            return;
        };
        for memory in &report.memories {
            let changes = changes(report, memory, &run.coverage);
            for (step, change) in memory.steps.iter().zip(changes) {
                let name = format!("{}.{step}", memory.name);
                figures.put(format!("{name}.folds"), "groups", change.folds);
                figures.put(format!("{name}.unfolds"), "groups", change.unfolds);
                figures.put_leaves(&name, &change.leaves);
            }
        }
    }

    fn title(&self, comparison: &Comparison) -> String {
        let filesystem = comparison.options.filesystem.title();
        format!("contiguous groups made and broken, {filesystem},")
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let first = comparison.runs.first().map(|run| &run.outcome);
        let Some(first) = first.and_then(report) else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for memory in &first.memories {
            for (nth, step) in memory.steps.iter().enumerate() {
                let cell = |run: &BootResult| cell(run, &memory.name, nth);
                rows.push(Row::text(comparison, &memory.name, step, cell));
            }
        }
        rows
    }

    fn notes(&self, _: &Comparison) -> Vec<String> {
        vec![
            "  +: groups folded by the step, -: unfolded; and what maps all groups after it".into(),
        ]
    }
}

fn report(outcome: &Outcome) -> Option<&ContpteReport> {
    match outcome {
        Outcome::Contpte(report) => Some(report),
        _ => None,
    }
}

/// What each step did, by the records of before and after it.
fn changes(report: &ContpteReport, memory: &ContpteMemory, records: &[Coverage]) -> Vec<Change> {
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
fn cell(run: &BootResult, memory: &str, nth: usize) -> String {
    let found = report(&run.outcome).and_then(|report| {
        let memory = report.memories.iter().find(|known| known.name == memory)?;
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
    use crate::sample::run;
    use wideleaf_kbuild::Variant;

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
            outcome: Outcome::Contpte(ContpteReport {
                group: 65536,
                groups: 2,
                memories: vec![ContpteMemory {
                    name: "anon".into(),
                    steps: vec!["step".into(); steps.len()],
                    first_id: 1000,
                    ids_per_step: 10,
                }],
            }),
            ..run(Variant::Patched, 1)
        }
    }

    #[test]
    fn what_one_step_folds_another_may_unfold() {
        let run = lived(&[[65536, 65536], [65536, 0], [0, 65536]]);
        assert_eq!(cell(&run, "anon", 0), "+2 -0, 64K 100%");
        assert_eq!(cell(&run, "anon", 1), "+0 -1, 4K 50%, 64K 50%");
        // As much is folded as before, but not the same.
        assert_eq!(cell(&run, "anon", 2), "+1 -1, 4K 50%, 64K 50%");
        assert_eq!(cell(&run, "file", 0), "-");
    }

    #[test]
    fn figures_are_by_memory_and_step() {
        let mut figures = Figures::default();
        Contpte.figures(&lived(&[[65536, 0]]), &mut figures);
        assert_eq!(figures.get("anon.step.folds").map(|f| f.value), Some(1));
        assert_eq!(figures.get("anon.step.4K").map(|f| f.value), Some(65536));
    }
}
