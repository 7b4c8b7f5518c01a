// SPDX-License-Identifier: GPL-2.0-only
//! By which leaves the kernel maps its linear map after boot; and what all jobs on it share.

use crate::job::Job;
use crate::options::{CpuModel, Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use wideleaf_guest::linear_narrower;
use wideleaf_guest::protocol::{LinearReport, Outcome, Task};
use wideleaf_kbuild::Variant;
use wideleaf_tlb::leaf;

/// Guest memory unless told.
pub(super) const USUAL_MEMORY: u64 = 2 << 30;

/// Memory that processes use at most which change permissions and see whether a byte is lost,
/// whatever the guest has.
const USED: u64 = 3 << 30;

/// Share of the bytes that must be mapped as widely as at boot after all changes.
pub(super) const KEPT: f64 = 0.999;

/// What jobs on the linear map compare.
pub(super) const VARIANTS: &[Variant] = &[Variant::Pristine, Variant::LinearMap];

/// The job.
#[derive(Debug)]
pub struct LinearMap;

impl Job for LinearMap {
    fn name(&self) -> String {
        "linear-map".into()
    }

    fn about(&self) -> &'static str {
        "the kernel's linear map after boot: bytes by leaf, bytes of page tables"
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Memory]
    }

    fn defaults(&self, options: &mut Options) {
        options.cpu_model = CpuModel::Bbm;
    }

    fn counts(&self) -> bool {
        true
    }

    fn time_limit_s(&self) -> u32 {
        300
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory.unwrap_or(USUAL_MEMORY)
    }

    fn memory_used(&self, options: &Options) -> u64 {
        idle(self.memory(options))
    }

    fn task(&self, _: &Options) -> Task {
        Task::LinearMap
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        put(run, figures);
    }

    fn is_headline(&self, figure: &str) -> bool {
        figure.starts_with("boot.")
    }

    fn title(&self, comparison: &Comparison) -> String {
        format!("linear map of {},", memory(comparison))
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        rows(comparison)
    }
}

/// What a guest of so much memory needs of the host if nobody uses it: what the kernel says of
/// each page, and room for the kernel.
fn idle(memory: u64) -> u64 {
    memory.min(memory / 32 + (1 << 30))
}

/// What it needs if processes change permissions and see whether a byte is lost.
pub(super) fn busy(memory: u64) -> u64 {
    memory.min(idle(memory) + USED)
}

pub(super) fn memory(comparison: &Comparison) -> String {
    wideleaf_kit::size::short(comparison.memory_bytes)
}

pub(super) fn report(run: &BootResult) -> Option<&LinearReport> {
    match &run.outcome {
        Outcome::Linear(report) => Some(report),
        _ => None,
    }
}

/// Bytes by leaf at the moment of this number, from 0: as the plugin walked the tables, else as
/// the kernel tells.
pub(super) fn leaves(run: &BootResult, moment: usize) -> BTreeMap<String, u64> {
    let id = moment as u64 + 1;
    let mut walked = BTreeMap::new();
    if let Some(coverage) = run.coverage.iter().find(|coverage| coverage.id == id) {
        walked = coverage.leaves.clone();
        walked.remove("unmapped");
    }
    if !walked.is_empty() {
        return walked;
    }
    let moment = report(run).and_then(|report| report.moments.get(moment));
    moment.map_or(BTreeMap::new(), |moment| moment.leaves.clone())
}

/// Share of the bytes that are mapped at least as widely at this moment as at the first.
pub(super) fn kept(run: &BootResult, moment: usize) -> Option<f64> {
    let (boot, then) = (leaves(run, 0), leaves(run, moment));
    let all: u64 = boot.values().sum();
    let lost = linear_narrower(&boot, &then);
    (all > 0).then(|| 1.0 - lost as f64 / all as f64)
}

/// The runs of kernels that collapse.
pub(super) fn collapsing(comparison: &Comparison) -> impl Iterator<Item = &BootResult> {
    let collapses = |variant| matches!(variant, Variant::LinearMap | Variant::Both);
    let runs = comparison.runs.iter();
    runs.filter(move |run| collapses(run.variant))
}

/// That `measured`, which `what` says in words, is `least` or more.
pub(super) fn verdict(
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
pub(super) fn happened(report: &LinearReport, moment: usize, event: &str) -> u64 {
    let count = |nth: usize| report.moments[nth].events.get(event).copied().unwrap_or(0);
    match moment {
        0 => count(0),
        later => count(later).saturating_sub(count(0)),
    }
}

/// The figures of all moments: `<moment>.<leaf>`, what the tables take, what happened since boot.
pub(super) fn put(run: &BootResult, figures: &mut Figures) {
    let Some(report) = report(run) else { return };
    for (nth, moment) in report.moments.iter().enumerate() {
        let name = &moment.name;
        for (leaf, bytes) in leaves(run, nth) {
            figures.put(format!("{name}.{leaf}"), "bytes", bytes);
        }
        let mut walked = run.coverage.iter().filter(|c| c.id == nth as u64 + 1);
        let walked = walked.find(|walked| walked.table_bytes > 0);
        let tables = walked.map_or(moment.table_bytes, |walked| Some(walked.table_bytes));
        if let Some(bytes) = tables {
            figures.put(format!("{name}.tables"), "bytes", bytes);
        }
        for event in moment.events.keys() {
            let count = happened(report, nth, event);
            figures.put(format!("{name}.{event}"), "events", count);
        }
    }
    for (name, count) in &report.counts {
        let unit = match name.rsplit('_').next() {
            Some("bytes") => "bytes",
            Some("ms") => "ms",
            Some("ns") => "ns",
            _ => "events",
        };
        figures.put(name.clone(), unit, *count);
    }
}

/// Rows of all figures that [`put`] makes, moment by moment, narrow leaves first.
pub(super) fn rows(comparison: &Comparison) -> Vec<Row> {
    let Some(report) = comparison.runs.iter().find_map(report) else {
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
    let reports = comparison.runs.iter().filter_map(self::report);
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
    use crate::compare::conclude;
    use crate::sample;
    use wideleaf_guest::protocol::LinearMoment;
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
        BootResult {
            outcome: Outcome::Linear(LinearReport {
                moments: vec![moment("boot", 3), moment("settled", 7)],
                counts: [("checked_bytes".to_string(), 9)].into(),
            }),
            coverage: vec![walked],
            ..sample::run(variant, 1)
        }
    }

    #[test]
    fn walked_tables_count_before_the_kernels_word() {
        let mut figures = Figures::default();
        put(&run(Variant::Pristine), &mut figures);
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
        let mut comparison = sample::comparison(1, 1);
        comparison.runs = vec![run(Variant::Pristine), run(Variant::LinearMap)];
        comparison.kernels[1].variant = Variant::LinearMap;
        let comparison = conclude(&LinearMap, comparison);
        let labels: Vec<_> = rows(&comparison).into_iter().map(|row| row.label).collect();
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
        let mut comparison = sample::comparison(1, 1);
        let mut telling = run(Variant::LinearMap);
        if let Outcome::Linear(report) = &mut telling.outcome {
            report.counts.insert("longest_hold_ns".into(), 7000);
        }
        comparison.runs = vec![run(Variant::Pristine), telling];
        comparison.kernels[1].variant = Variant::LinearMap;
        let comparison = conclude(&LinearMap, comparison);
        let labels: Vec<_> = rows(&comparison).into_iter().map(|row| row.label).collect();
        let counts = ["checked bytes".to_string(), "longest hold ns".into()];
        assert!(labels.ends_with(&counts), "{labels:?}");
    }

    #[test]
    fn a_large_idle_guest_needs_little() {
        assert_eq!(idle(1 << 30), 1 << 30);
        assert_eq!(idle(64 << 30), 3 << 30);
    }
}
