// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark at several sizes in one boot: what a mapping of each size
//! gains. Each size is a file of its own, because the policy looks at the
//! file's size too.

use crate::disk::Contents;
use crate::job::Job;
use crate::jobs::exec::{self, exec_options};
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison};
use wideleaf_bench::report::ExecReport;
use wideleaf_guest::protocol::{Outcome, Task};
use wideleaf_kbuild::PageSize;
use wideleaf_kit::size::short;

/// 64K to 512M, each twice the one before.
pub const SIZES: [u64; 14] = {
    let mut sizes = [64 << 10; 14];
    let mut n = 1;
    while n < sizes.len() {
        sizes[n] = sizes[n - 1] * 2;
        n += 1;
    }
    sizes
};

/// Phase numbers end at 127, and each size has two.
const MOST: usize = 63;

/// The table's sections, each a row per size: heading, figures.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "cold faults (minor/major)",
        &["cold.minor_faults", "cold.major_faults"],
    ),
    ("cold instructions", &["cold.instructions"]),
    ("cold bytes read", &["cold.read_bytes"]),
    ("random L1 iTLB misses", &["random.itlb_l1_misses"]),
    ("random page walks", &["random.walks"]),
];

/// The job.
#[derive(Debug)]
pub struct ExecSizes;

impl Job for ExecSizes {
    fn name(&self) -> String {
        "exec-sizes".into()
    }

    fn about(&self) -> &'static str {
        "the exec job at mapping sizes from 64K to 512M, each with a file of its own"
    }

    fn counts(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static [Setting] {
        &const { exec::settings(Setting::Sizes) }
    }

    fn defaults(&self, options: &mut Options) {
        options.sizes = SIZES.to_vec();
    }

    fn time_limit_s(&self) -> u32 {
        1200
    }

    /// As for the exec job: one size is in the page cache at a time.
    fn memory(&self, options: &Options) -> u64 {
        options.memory(options.sizes.iter().max().copied().unwrap_or(0))
    }

    fn check(&self, options: &Options, page_size: PageSize) -> Result<(), String> {
        let sizes = &options.sizes;
        if sizes.is_empty() || sizes.len() > MOST {
            return Err(format!("--sizes: give 1 to {MOST} of them"));
        }
        for size in sizes {
            if sizes.iter().filter(|other| *other == size).count() > 1 {
                return Err(format!("--sizes: {} is there twice", short(*size)));
            }
            let plan = exec_options(options, *size).plan(*size, page_size.bytes());
            plan.map_err(|error| error.to_string())?;
        }
        options.check_window(page_size)
    }

    fn contents(&self, options: &Options) -> Option<Contents> {
        Some(Contents::Stubs(options.sizes.clone()))
    }

    fn task(&self, options: &Options) -> Task {
        let sizes = options.sizes.iter();
        Task::ExecSizes {
            runs: sizes.map(|size| exec_options(options, *size)).collect(),
        }
    }

    fn warnings(&self, outcome: &Outcome) -> Vec<String> {
        let warnings = reports(outcome).iter().flat_map(|report| {
            let size = short(report.size);
            report
                .warnings
                .iter()
                .map(move |text| format!("{size}: {text}"))
        });
        warnings.collect()
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        for (report, id) in reports(&run.outcome).iter().zip(1..) {
            let size = short(report.size);
            exec::phases(figures, &format!("{size}."), report);
            figures.put_text(&format!("{size}."), run, id);
        }
    }

    fn is_headline(&self, figure: &str) -> bool {
        let figure = figure.split_once('.').map_or("", |(_, figure)| figure);
        SECTIONS.iter().any(|(_, names)| names.contains(&figure))
    }

    fn title(&self, comparison: &Comparison) -> String {
        let filesystem = comparison.options.filesystem.title();
        format!("exec text by mapping size, {filesystem},")
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let sizes: Vec<String> = comparison.options.sizes.iter().map(|s| short(*s)).collect();
        let mut rows = Vec::new();
        for (section, figures) in SECTIONS {
            rows.extend(sizes.iter().map(|size| {
                let names: Vec<_> = figures
                    .iter()
                    .map(|name| format!("{size}.{name}"))
                    .collect();
                Row::figures(comparison, section, size, &names)
            }));
        }
        rows.extend(
            sizes
                .iter()
                .zip(1..)
                .map(|(size, id)| Row::leaves(comparison, "text mapped by leaf", size, id)),
        );
        rows
    }

    fn notes(&self, comparison: &Comparison) -> Vec<String> {
        let mut notes = vec![format!(
            "  seed {}, readahead window {}",
            comparison.options.seed,
            short(comparison.options.window())
        )];
        notes.extend(exec::no_large_folios(comparison));
        notes
    }
}

fn reports(outcome: &Outcome) -> &[ExecReport] {
    match outcome {
        Outcome::ExecSizes { reports, .. } => reports,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::usual;
    use wideleaf_kbuild::Arch;

    #[test]
    fn the_issues_sizes() {
        assert_eq!((SIZES[0], SIZES[13]), (64 << 10, 512 << 20));
        let options = usual(&ExecSizes, Arch::Arm64);
        assert_eq!(options.sizes, SIZES);
        for &page_size in PageSize::ALL {
            ExecSizes.check(&options, page_size).unwrap();
        }
        assert_eq!(ExecSizes.memory(&options), 2 << 30);
    }

    #[test]
    fn impossible_sizes_are_named() {
        let mut options = usual(&ExecSizes, Arch::Arm64);
        for (sizes, word) in [
            (vec![], "1 to 63"),
            (vec![1 << 20, 1 << 20], "1M is there twice"),
            (vec![100 << 10], "102400"),
        ] {
            options.sizes = sizes;
            let error = ExecSizes.check(&options, PageSize::K64).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn headlines_are_those_of_every_size() {
        assert!(ExecSizes.is_headline("64K.cold.major_faults"));
        assert!(!ExecSizes.is_headline("64K.cold.calls"));
    }
}
