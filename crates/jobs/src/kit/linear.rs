// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's linear map at one moment after the other: what all jobs on it share.

use std::collections::{BTreeMap, BTreeSet};
use wideleaf_guest::kit::linear::{LinearReport, narrower};
use wideleaf_kbuild::Variant;
use wideleaf_kit::size::short;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::Row;
use wideleaf_lab::results::{BootResult, Comparison, Verdict};
use wideleaf_tlb::leaf;

/// Guest memory unless told.
pub const USUAL_MEMORY: u64 = 2 << 30;

/// Memory that processes use at most which change permissions and see whether a byte is lost,
/// whatever the guest has.
const USED: u64 = 3 << 30;

/// Share of the bytes that must be mapped as widely as at boot after all changes.
pub const KEPT: f64 = 0.999;

/// What all of these jobs compare, and what their guests are.
pub const fn facts(name: &'static str, about: &'static str) -> Facts {
    Facts {
        variants: &[Variant::Pristine, Variant::LinearMap],
        defaults: &[("cpu_model", "bbm")],
        ..Facts::new(name, about)
    }
}

/// The same with several CPUs.
pub const fn crowded(name: &'static str, about: &'static str) -> Facts {
    Facts {
        defaults: &[("cpu_model", "bbm"), ("cpus", "4")],
        ..facts(name, about)
    }
}

/// What a guest of so much memory needs of the host if nobody uses it: what the kernel says of
/// each page, and room for the kernel.
pub fn idle(memory: u64) -> u64 {
    memory.min(memory / 32 + (1 << 30))
}

/// What it needs if processes change permissions and see whether a byte is lost.
pub fn busy(memory: u64) -> u64 {
    memory.min(idle(memory) + USED)
}

/// Memory of the guests, for titles.
pub fn memory(comparison: &Comparison) -> String {
    short(comparison.memory_bytes)
}

/// Bytes by leaf at the moment of this number, from 0: as the plugin walked the tables, else as
/// the kernel tells.
pub fn leaves(run: &BootResult, report: &LinearReport, moment: usize) -> BTreeMap<String, u64> {
    let id = moment as u64 + 1;
    let mut walked = BTreeMap::new();
    if let Some(coverage) = run.coverage.iter().find(|coverage| coverage.id == id) {
        walked = coverage.leaves.clone();
        walked.remove("unmapped");
    }
    if !walked.is_empty() {
        return walked;
    }
    let moment = report.moments.get(moment);
    moment.map_or(BTreeMap::new(), |moment| moment.leaves.clone())
}

/// Share of the bytes that are mapped at least as widely at this moment as at the first.
pub fn kept(run: &BootResult, report: &LinearReport, moment: usize) -> Option<f64> {
    let (boot, then) = (leaves(run, report, 0), leaves(run, report, moment));
    let all: u64 = boot.values().sum();
    let lost = narrower(&boot, &then);
    (all > 0).then(|| 1.0 - lost as f64 / all as f64)
}

/// The runs of kernels that collapse.
pub fn collapsing<'a, J: Job>(
    measured: &'a Measured<'_, J>,
) -> impl Iterator<Item = &'a Run<'a, J>> {
    let collapses = |variant| matches!(variant, Variant::LinearMap | Variant::Both);
    let runs = measured.runs.iter();
    runs.filter(move |run| collapses(run.variant))
}

/// That `measured`, which `what` says in words, is `least` or more.
pub fn verdict(
    comparison: &Comparison,
    run: &BootResult,
    what: &str,
    measured: Option<f64>,
    least: f64,
) -> Verdict {
    Verdict {
        expectation: format!("{}: {what}", run.variant),
        comparison: comparison.machine(),
        measured,
        passed: measured.is_some_and(|measured| measured >= least),
    }
}

/// How often the kernel did what it calls `event` from the first moment to the one of this number;
/// at the first one, since it began.
pub fn happened(report: &LinearReport, moment: usize, event: &str) -> u64 {
    let count = |nth: usize| report.moments[nth].events.get(event).copied().unwrap_or(0);
    match moment {
        0 => count(0),
        later => count(later).saturating_sub(count(0)),
    }
}

/// The figures of all moments.
#[rustfmt::skip]
pub const MOMENTS: [Figure; 4] = [
    figure("<moment>.<leaf>", "bytes", "of the linear map that leaves of this size map at that moment (`boot`, `settled` and so on): as the plugin walks the tables, else as the kernel tells"),
    figure("<moment>.tables", "bytes", "of page tables that translate the linear map, the first one as large as the others; with the plugin, else as the kernel tells"),
    figure("<moment>.<event>", "events", "the kernel's `direct_map_*` of /proc/vmstat; at later moments since the first"),
    figure("longest_hold_ns", "ns", "for which the kernel's worker kept changes out at most, of the guest's clock, which counts instructions; on kernels that tell"),
];

/// What the processes did that change permissions and see whether a byte is lost.
#[rustfmt::skip]
pub const CREW: [Figure; 5] = [
    figure("secrets", "events", "areas of secret memory made"),
    figure("filters", "events", "filters (BPF programs) made"),
    figure("refused", "events", "areas and filters for which there was no memory"),
    figure("checked_bytes", "bytes", "of the pages that their owners had the kernel read"),
    figure("written_bytes", "bytes", "of the pages that their owners had the kernel write"),
];

/// The values of these figures.
pub fn put(run: &BootResult, report: &LinearReport, figures: &mut Figures) {
    for (nth, moment) in report.moments.iter().enumerate() {
        let name = &moment.name;
        for (leaf, bytes) in leaves(run, report, nth) {
            figures.put(format!("{name}.{leaf}"), bytes);
        }
        let mut walked = run.coverage.iter().filter(|c| c.id == nth as u64 + 1);
        let walked = walked.find(|walked| walked.table_bytes > 0);
        let tables = walked.map_or(moment.table_bytes, |walked| Some(walked.table_bytes));
        if let Some(bytes) = tables {
            figures.put(format!("{name}.tables"), bytes);
        }
        for event in moment.events.keys() {
            let count = happened(report, nth, event);
            figures.put(format!("{name}.{event}"), count);
        }
    }
    for (name, count) in &report.counts {
        figures.put(name.clone(), *count);
    }
}

/// Rows of all figures that [`put`] makes, moment by moment, narrow leaves first.
pub fn rows<'a>(
    comparison: &Comparison,
    reports: impl Iterator<Item = &'a LinearReport> + Clone,
) -> Vec<Row> {
    let Some(report) = reports.clone().next() else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for moment in &report.moments {
        let prefix = format!("{}.", moment.name);
        let of_moment = |name: &&String| name.starts_with(&prefix);
        let mut names: Vec<_> = comparison.figures.keys().filter(of_moment).collect();
        names.sort_by_key(|name| order(&name[prefix.len()..]));
        for name in names {
            let what = &name[prefix.len()..];
            let label = match leaf::LEAVES.iter().any(|(_, known)| known == &what) {
                true => format!("bytes mapped by {what}"),
                false if what == "tables" => "bytes of page tables".into(),
                false => what.replace('_', " "),
            };
            rows.push(Row::figures(comparison, &moment.name, &label, &[name]));
        }
    }
    // Some kernels tell what others do not.
    let names: BTreeSet<_> = reports.flat_map(|report| report.counts.keys()).collect();
    for name in names {
        let label = name.replace('_', " ");
        rows.push(Row::figures(comparison, "all", &label, &[name]));
    }
    rows
}

/// Leaves by size, tables, then the rest by name.
fn order(what: &str) -> (usize, String) {
    let leaf = leaf::LEAVES.iter().position(|(_, known)| *known == what);
    let place = match what {
        "tables" => leaf::NONE,
        _ => leaf.unwrap_or(leaf::NONE + 1),
    };
    (place, what.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::linear::LinearMoment;
    use wideleaf_lab::results::Compared;
    use wideleaf_lab::sample::{self, comparison_of};
    use wideleaf_tlb::report::Coverage;

    fn moment(name: &str, splits: u64) -> LinearMoment {
        LinearMoment {
            name: name.into(),
            leaves: [("2M".to_string(), 100)].into(),
            table_bytes: Some(8192),
            events: [("splits".to_string(), splits)].into(),
        }
    }

    fn run(variant: Variant) -> BootResult {
        let walked = Coverage {
            id: 1,
            leaves: [
                ("4K".to_string(), 10),
                ("1G".into(), 70),
                ("unmapped".into(), 5),
            ]
            .into(),
            table_bytes: 4096,
            ..Coverage::default()
        };
        let report = LinearReport {
            moments: vec![moment("boot", 3), moment("settled", 7)],
            counts: [("checked_bytes".to_string(), 9)].into(),
        };
        BootResult {
            outcome: serde_json::to_value(report).unwrap(),
            coverage: vec![walked],
            ..sample::run(variant, 1)
        }
    }

    /// Figures of all kinds that jobs on the linear map have.
    fn figures(run: &BootResult) -> Figures {
        let mut figures = Figures::of(MOMENTS.into_iter().chain(CREW).collect());
        let report: LinearReport = serde_json::from_value(run.outcome.clone()).unwrap();
        put(run, &report, &mut figures);
        figures
    }

    /// Labels of the rows of these runs.
    fn labels(runs: Vec<BootResult>) -> Vec<String> {
        let mut comparison = comparison_of(&sample::Calls, runs);
        let reports = comparison.runs.clone().into_iter().map(|run| {
            for (name, count) in figures(&run).iter() {
                let compared = Compared {
                    unit: count.unit.into(),
                    ratio: None,
                    spread: None,
                    values: BTreeMap::new(),
                };
                comparison.figures.insert(name.clone(), compared);
            }
            serde_json::from_value(run.outcome.clone()).unwrap()
        });
        let reports: Vec<LinearReport> = reports.collect();
        let rows = rows(&comparison, reports.iter());
        rows.into_iter().map(|row| row.label).collect()
    }

    #[test]
    fn walked_tables_count_before_the_kernels_word() {
        let figures = figures(&run(Variant::Pristine));
        let value = |name| figures.get(name).map(|figure| figure.value);
        assert_eq!(value("boot.4K"), Some(10));
        assert_eq!(value("boot.2M"), None);
        assert_eq!(value("boot.unmapped"), None);
        assert_eq!(value("boot.tables"), Some(4096));
        assert_eq!(value("settled.2M"), Some(100));
        assert_eq!(value("settled.tables"), Some(8192));
        assert_eq!(value("settled.splits"), Some(4), "since boot");
        assert_eq!(value("boot.splits"), Some(3));
        assert_eq!(value("checked_bytes"), Some(9));
    }

    #[test]
    fn the_table_goes_from_narrow_to_wide() {
        let labels = labels(vec![run(Variant::Pristine), run(Variant::LinearMap)]);
        let start = [
            "bytes mapped by 4K",
            "bytes mapped by 1G",
            "bytes of page tables",
        ];
        assert_eq!(labels[..3], start);
        assert!(labels.contains(&"checked bytes".to_string()), "{labels:?}");
    }

    #[test]
    fn what_one_kernel_alone_tells_has_a_row() {
        let mut telling = run(Variant::LinearMap);
        telling.outcome["counts"]["longest_hold_ns"] = 7000.into();
        let labels = labels(vec![run(Variant::Pristine), telling]);
        let counts = ["checked bytes".to_string(), "longest hold ns".into()];
        assert!(labels.ends_with(&counts), "{labels:?}");
    }

    #[test]
    fn a_large_idle_guest_needs_little() {
        assert_eq!(idle(1 << 30), 1 << 30);
        assert_eq!(idle(64 << 30), 3 << 30);
    }
}
