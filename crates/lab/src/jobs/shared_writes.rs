// SPDX-License-Identifier: GPL-2.0-only
//! Write faults on shared mappings of files: will-it-scale's `page_fault3`, with folios of one
//! page and large ones, with edges that cut folios, on a disk's file system and on tmpfs.

use crate::disk::Contents;
use crate::job::{Job, MOUNT_POINT};
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use wideleaf_guest::protocol::{Outcome, SharedCase, SharedWritesOptions, Task};
use wideleaf_kbuild::{PageSize, Variant};
use wideleaf_kit::size::short;

/// Bytes of a mapping unless told. With 4M two cut folios are half of it.
const SIZE: u64 = 8 << 20;

/// Bytes for the files that the processes write to.
const ROOM: u64 = 256 << 20;

/// The largest mapping: four files must fit the disk and the guest's memory.
const MOST: u64 = 48 << 20;

/// What must hold of a kernel whose faults map what fits of a folio: a figure of one case, in
/// hundredths of another's. Where tmpfs has no large folio its ways are the same work, and their
/// counts differ by less than one.
const LIMITS: [(&str, &str, u64); 6] = [
    ("disk.large", "disk.small", 100),
    ("disk.cut", "disk.large", 120),
    ("disk.askew", "disk.large", 120),
    ("tmpfs.large", "tmpfs.small", 101),
    ("tmpfs.cut", "tmpfs.small", 101),
    ("tmpfs.askew", "tmpfs.small", 101),
];

/// The job.
#[derive(Debug)]
pub struct SharedWrites;

impl Job for SharedWrites {
    fn name(&self) -> String {
        "shared-writes".into()
    }

    fn about(&self) -> &'static str {
        "write faults on shared file mappings: instructions, faults, invalidations for each page"
    }

    fn counts(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Filesystem, Setting::Size]
    }

    fn defaults(&self, options: &mut Options) {
        options.size = SIZE;
    }

    fn time_limit_s(&self) -> u32 {
        600
    }

    fn check(&self, options: &Options, _: PageSize) -> Result<(), String> {
        let size = options.size;
        if size == 0 || !size.is_multiple_of(2 << 20) || size > MOST {
            return Err(format!(
                "--size {}: want a multiple of 2M up to {}",
                short(size),
                short(MOST)
            ));
        }
        Ok(())
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Room(ROOM))
    }

    fn task(&self, options: &Options) -> Task {
        Task::SharedWrites(SharedWritesOptions {
            folder: MOUNT_POINT.into(),
            size: options.size,
        })
    }

    fn verdicts(&self, comparison: &Comparison) -> Vec<Verdict> {
        let ours = |run: &&BootResult| maps_pieces(run.variant);
        let Some(run) = comparison.runs.iter().rev().find(ours) else {
            return Vec::new();
        };
        let limits = LIMITS.iter();
        limits
            .map(|(figure, of, limit)| {
                let measured = ratio(run, figure, of);
                Verdict {
                    expectation: format!(
                        "{figure}.instructions<={limit}% of {of}'s, {}",
                        run.variant
                    ),
                    comparison: comparison.machine(),
                    measured,
                    passed: measured.is_some_and(|found| found <= *limit as f64 / 100.0),
                }
            })
            .collect()
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        for case in cases(&run.outcome) {
            figures.put(format!("{}.pages", case.name), "pages", case.pages);
            figures.put(format!("{}.faults", case.name), "faults", case.faults);
            figures.put_text(&format!("{}.", case.name), run, case.id);
        }
        if let Outcome::SharedWrites(report) = &run.outcome {
            figures.put("dirty_pages", "pages", report.dirty);
            figures.put("watched_entries", "pages", report.watched_entries);
        }
    }

    fn is_headline(&self, figure: &str) -> bool {
        [".instructions", ".faults", ".tlb_invalidations"]
            .iter()
            .any(|end| figure.ends_with(end))
    }

    fn title(&self, comparison: &Comparison) -> String {
        let options = &comparison.options;
        format!(
            "shared mappings of {} written by 4 processes, {},",
            short(options.size),
            options.filesystem.title()
        )
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let Some(run) = comparison.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for case in cases(&run.outcome) {
            for (label, figure) in [
                ("instructions/page", "instructions"),
                ("faults", "faults"),
                ("TLB invalidations", "tlb_invalidations"),
            ] {
                let mut row = Row::figures(
                    comparison,
                    &case.name,
                    label,
                    &[format!("{}.{figure}", case.name)],
                );
                if figure == "instructions" {
                    row.cells = Row::text(comparison, "", "", |run| per_page(run, case)).cells;
                }
                rows.push(row);
            }
            rows.push(Row::leaves(
                comparison,
                &case.name,
                "mapped by leaf",
                case.id,
            ));
        }
        rows
    }

    fn notes(&self, comparison: &Comparison) -> Vec<String> {
        let large = match comparison.page_size {
            PageSize::K4 => "256K",
            _ => "2M",
        };
        vec![
            format!(
                "  small: folios of one page; large: of {large}, on tmpfs as huge=always gives them; \
                 cut: both ends lie inside of a folio;"
            ),
            "  askew: addresses and offsets differ by a page modulo the leaf; stated: \
             fault_around_bytes says one page"
                .into(),
        ]
    }
}

/// Whether its write faults map what fits of a folio.
fn maps_pieces(variant: Variant) -> bool {
    use Variant::{Both, Evidence, Patched, Writes};
    matches!(variant, Writes | Evidence | Patched | Both)
}

fn cases(outcome: &Outcome) -> &[SharedCase] {
    match outcome {
        Outcome::SharedWrites(report) => &report.cases,
        _ => &[],
    }
}

/// Instructions of a case in a run.
fn instructions(run: &BootResult, name: &str) -> Option<u64> {
    let phase = run.phases.iter().find(|phase| phase.name == name)?;
    Some(phase.user.instructions + phase.kernel.instructions)
}

fn per_page(run: &BootResult, case: &SharedCase) -> String {
    instructions(run, &case.name).map_or("-".into(), |count| {
        format!("{:.0}", count as f64 / case.pages.max(1) as f64)
    })
}

fn ratio(run: &BootResult, figure: &str, of: &str) -> Option<f64> {
    let (count, whole) = (instructions(run, figure)?, instructions(run, of)?);
    (whole > 0).then(|| count as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::usual;
    use crate::sample::{comparison, run};
    use wideleaf_guest::protocol::SharedWritesReport;
    use wideleaf_kbuild::Arch;

    /// A run whose cases took so many instructions each, of 100 pages.
    fn counted(variant: Variant, counts: &[(&str, u64)]) -> BootResult {
        let case = |(name, _): &(&str, u64)| SharedCase {
            name: (*name).into(),
            pages: 100,
            ..SharedCase::default()
        };
        let mut run = run(variant, 0);
        run.outcome = Outcome::SharedWrites(SharedWritesReport {
            cases: counts.iter().map(case).collect(),
            ..SharedWritesReport::default()
        });
        let phase = run.phases[0].clone();
        run.phases = counts
            .iter()
            .map(|(name, count)| {
                let mut phase = phase.clone();
                phase.name = (*name).into();
                phase.user.instructions = *count;
                phase.kernel.instructions = 0;
                phase
            })
            .collect();
        run
    }

    fn failed(variant: Variant, counts: &[(&str, u64)]) -> Vec<String> {
        let comparison = Comparison {
            runs: vec![counted(variant, counts)],
            ..comparison(1, 1)
        };
        let verdicts = SharedWrites.verdicts(&comparison);
        let failed = verdicts.into_iter().filter(|verdict| !verdict.passed);
        failed.map(|verdict| verdict.expectation).collect()
    }

    #[test]
    fn what_the_series_promises_is_judged_where_the_series_is() {
        let good = [
            ("disk.small", 1000),
            ("disk.large", 100),
            ("disk.cut", 120),
            ("disk.askew", 119),
            ("tmpfs.small", 1000),
            ("tmpfs.large", 1000),
            ("tmpfs.cut", 1000),
            ("tmpfs.askew", 10),
        ];
        assert_eq!(failed(Variant::Patched, &good), Vec::<String>::new());
        let mut bad = good;
        bad[2].1 = 121;
        assert!(failed(Variant::Patched, &bad)[0].starts_with("disk.cut.instructions<=120%"));
        // What is not there was not shown.
        assert_eq!(failed(Variant::Patched, &bad[..2]).len(), LIMITS.len() - 1);
        assert!(failed(Variant::Pristine, &bad).is_empty());
    }

    #[test]
    fn a_cell_is_by_page() {
        let run = counted(Variant::Patched, &[("disk.large", 1234)]);
        assert_eq!(per_page(&run, &cases(&run.outcome)[0]), "12");
    }

    #[test]
    fn sizes_are_whole_folios_and_fit() {
        let mut options = usual(&SharedWrites, Arch::Arm64);
        SharedWrites.check(&options, PageSize::K64).unwrap();
        for size in [0, 1 << 20, 50 << 20] {
            options.size = size;
            assert!(
                SharedWrites.check(&options, PageSize::K64).is_err(),
                "{size}"
            );
        }
    }
}
