// SPDX-License-Identifier: GPL-2.0-only
//! Text of which only a part is executed: bytes read for each byte executed,
//! and, where it is dense, the walks that wide leaves save.

use crate::disk::Contents;
use crate::disk::image::Image;
use crate::job::{Job, MOUNT_POINT};
use crate::jobs::exec::{guest_phase, no_large_folios};
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison};
use std::path::Path;
use wideleaf_guest::protocol::{Access, Outcome, SparseOptions, SparseReport, Task};
use wideleaf_guest::sparse::pattern;
use wideleaf_kbuild::PageSize;
use wideleaf_kit::size::{long, short};

/// 128M of text: that of a large program.
pub const SIZE: u64 = 128 << 20;

/// From sparse to dense: the issue's 1, 5 and 20 % of all pages at random, 5 %
/// in pieces, all pages at random, all in order.
pub const PATTERNS: [&str; 7] = [
    "pages:10",
    "pages:50",
    "pages:200",
    "clusters:64K:50",
    "clusters:256K:50",
    "pages:1000",
    "sweep",
];

/// Phase numbers end at 127, and each pattern has two.
const MOST: usize = 63;

/// The table's rows of figures for each pattern.
const ROWS: &[(&str, &[&str])] = &[
    ("bytes executed", &["executed_bytes"]),
    ("bytes read", &["cold.read_bytes"]),
    ("faults", &["cold.faults"]),
    ("random L1 iTLB misses", &["random.itlb_l1_misses"]),
    ("random walks for text", &["random.text_walks"]),
];

/// The job.
#[derive(Debug)]
pub struct Sparse;

impl Job for Sparse {
    fn name(&self) -> String {
        "sparse".into()
    }

    fn about(&self) -> &'static str {
        "text of which 1 to 100 % is executed: bytes read per byte executed, faults, walks, leaves"
    }

    fn counts(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static [Setting] {
        &[
            Setting::Filesystem,
            Setting::Size,
            Setting::Touch,
            Setting::Advice,
            Setting::Data,
            Setting::FaultAround,
            Setting::MemoryLimit,
            Setting::FreeMemory,
            Setting::Fragmented,
            Setting::Seed,
            Setting::ReadAhead,
        ]
    }

    fn defaults(&self, options: &mut Options) {
        options.size = SIZE;
        options.patterns = PATTERNS.map(String::from).to_vec();
    }

    fn time_limit_s(&self) -> u32 {
        1200
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory(options.size)
    }

    fn check(&self, options: &Options, page_size: PageSize) -> Result<(), String> {
        let Options { size, patterns, .. } = options;
        if *size == 0 || !size.is_multiple_of(2 << 20) {
            return Err(format!("--size {}: want a multiple of 2M", short(*size)));
        }
        if patterns.is_empty() || patterns.len() > MOST {
            return Err(format!("--touch: give 1 to {MOST} patterns"));
        }
        for text in patterns {
            pattern(text)?;
            if patterns.iter().filter(|other| *other == text).count() > 1 {
                return Err(format!("--touch: {text} is there twice"));
            }
        }
        if let Some(bytes) = options.fault_around
            && (bytes < page_size.bytes() || !bytes.is_power_of_two())
        {
            return Err(format!(
                "--fault-around {}: want a power of two, a page of {page_size} at least",
                short(bytes)
            ));
        }
        options.check_window(page_size)
    }

    fn contents(&self, options: &Options) -> Option<Contents> {
        Some(Contents::Stubs(vec![options.size]))
    }

    fn task(&self, options: &Options) -> Task {
        Task::Sparse(SparseOptions {
            file: Path::new(MOUNT_POINT).join(Image::file(options.size)),
            patterns: options.patterns.clone(),
            seed: options.seed,
            access: Access {
                advice: options.advice,
                is_data: options.is_data,
            },
            fault_around: options.fault_around,
        })
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        for (report, id) in reports(&run.outcome).iter().zip(1..) {
            let name = &report.pattern;
            figures.put(
                format!("{name}.executed_bytes"),
                "bytes",
                report.executed_bytes,
            );
            guest_phase(figures, &format!("{name}.cold"), &report.cold);
            guest_phase(figures, &format!("{name}.random"), &report.random);
            figures.put_text(&format!("{name}."), run, id);
        }
    }

    fn is_headline(&self, figure: &str) -> bool {
        let figure = figure.split_once('.').map_or("", |(_, figure)| figure);
        ROWS.iter().any(|(_, names)| names.contains(&figure))
    }

    fn title(&self, comparison: &Comparison) -> String {
        let options = &comparison.options;
        let filesystem = options.filesystem.title();
        let what = if options.is_data { "data" } else { "text" };
        let advice = options
            .advice
            .map(|advice| format!(" with advice '{advice}'"));
        format!(
            "parts of {} of {what}{}, {filesystem},",
            long(options.size),
            advice.unwrap_or_default()
        )
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let mut rows = Vec::new();
        for (pattern, nth) in comparison.options.patterns.iter().zip(0..) {
            rows.extend(ROWS.iter().map(|(label, figures)| {
                let names: Vec<_> = figures
                    .iter()
                    .map(|name| format!("{pattern}.{name}"))
                    .collect();
                Row::figures(comparison, pattern, label, &names)
            }));
            // After the bytes it is made of.
            let at = rows.len() - ROWS.len() + 2;
            let ratio = |run: &BootResult| {
                reports(&run.outcome)
                    .get(nth)
                    .map_or("-".into(), amplification)
            };
            rows.insert(
                at,
                Row::text(comparison, pattern, "read per byte executed", ratio),
            );
            rows.push(Row::leaves(
                comparison,
                pattern,
                "text mapped by leaf",
                nth as u64 + 1,
            ));
        }
        rows
    }

    fn notes(&self, comparison: &Comparison) -> Vec<String> {
        let options = &comparison.options;
        let window = short(options.window());
        let mut notes = vec![format!(
            "  executed: whole pages of which something was; seed {}, readahead window {window}",
            options.seed
        )];
        notes.extend(no_large_folios(comparison));
        notes
    }
}

fn reports(outcome: &Outcome) -> &[SparseReport] {
    match outcome {
        Outcome::Sparse { reports, .. } => reports,
        _ => &[],
    }
}

/// Bytes read for each byte executed.
fn amplification(report: &SparseReport) -> String {
    let read = report.cold.read_bytes.value();
    read.map_or("-".into(), |read| {
        format!("{:.2}", read as f64 / report.executed_bytes as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::usual;
    use wideleaf_kbuild::Arch;

    #[test]
    fn the_issues_touches() {
        let options = usual(&Sparse, Arch::Arm64);
        assert_eq!(options.size, 128 << 20);
        Sparse.check(&options, PageSize::K64).unwrap();
        for share in ["pages:10", "pages:50", "pages:200"] {
            assert!(options.patterns.iter().any(|pattern| pattern == share));
        }
    }

    #[test]
    fn impossible_touches_are_named() {
        let mut options = usual(&Sparse, Arch::Arm64);
        for (patterns, word) in [
            (vec![], "1 to 63"),
            (vec!["sweep", "sweep"], "sweep is there twice"),
            (vec!["page"], "no pattern"),
        ] {
            options.patterns = patterns.into_iter().map(String::from).collect();
            let error = Sparse.check(&options, PageSize::K64).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
