// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of a run that can be compared, each under one name.
//!
//! The names are those of the table, of `--expect` and of the JSON's
//! `figures`. Only counts are here: what repeats from run to run.

use crate::results::{PhaseCounts, Run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wideleaf_bench::report::{ExecReport, PhaseReport};
use wideleaf_guest::protocol::{COVERAGE_TEXT, KunitReport, KunitStatus, Outcome};
use wideleaf_kernel::Variant;

/// Names with their values, in their unit.
pub type Figures = BTreeMap<String, u64>;

/// The figures of the table, by which `spread` is judged. Others can be next
/// to nothing: one timer interrupt more is all there is of the kernel's
/// instructions during the random calls.
pub const HEADLINE: &[&str] = &[
    "cold.minor_faults",
    "cold.major_faults",
    "cold.instructions",
    "cold.read_bytes",
    "random.itlb_l1_misses",
    "random.walks",
    "kunit.passed",
    "kunit.failed",
];

/// The unit of the figure `name`.
pub fn unit(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or(name) {
        _ if name.starts_with("text.") => "bytes",
        "read_bytes" => "bytes",
        "faults" | "minor_faults" | "major_faults" => "faults",
        "instructions" | "user_instructions" | "kernel_instructions" => "instructions",
        "itlb_accesses" | "dtlb_accesses" => "accesses",
        "itlb_l1_misses" | "itlb_l2_misses" | "dtlb_l1_misses" | "dtlb_l2_misses" => "misses",
        "walks" | "text_walks" => "walks",
        "walk_reads" => "reads",
        "calls" => "calls",
        _ => "tests",
    }
}

/// The figures of one run.
pub fn of(run: &Run) -> Figures {
    let mut figures = Figures::new();
    match &run.outcome {
        Outcome::Exec { report, .. } => exec(&mut figures, report),
        Outcome::Kunit(report) => kunit(&mut figures, report),
        _ => {}
    }
    for phase in &run.phases {
        counts(&mut figures, phase);
    }
    for coverage in run.coverage.iter().filter(|c| c.id == COVERAGE_TEXT) {
        for (leaf, bytes) in &coverage.leaves {
            figures.insert(format!("text.{leaf}"), *bytes);
        }
    }
    figures
}

fn exec(figures: &mut Figures, report: &ExecReport) {
    let phases = [
        ("cold", report.cold.as_ref().map(|cold| &cold.phase)),
        ("random", report.random.as_ref()),
    ];
    for (name, phase) in phases {
        if let Some(phase) = phase {
            guest_phase(figures, name, phase);
        }
    }
}

fn guest_phase(figures: &mut Figures, name: &str, phase: &PhaseReport) {
    let mut put = |what: &str, value| figures.insert(format!("{name}.{what}"), value);
    put("calls", phase.calls);
    put("minor_faults", phase.faults.minor);
    put("major_faults", phase.faults.major);
    put("faults", phase.faults.minor + phase.faults.major);
    if let Some(bytes) = phase.read_bytes.value() {
        put("read_bytes", bytes);
    }
}

fn counts(figures: &mut Figures, phase: &PhaseCounts) {
    let (user, kernel) = (&phase.user, &phase.kernel);
    let mut put = |what: &str, value| figures.insert(format!("{}.{what}", phase.name), value);
    put("instructions", user.instructions + kernel.instructions);
    put("user_instructions", user.instructions);
    put("kernel_instructions", kernel.instructions);
    for (side, user, kernel) in [
        ("itlb", &user.itlb, &kernel.itlb),
        ("dtlb", &user.dtlb, &kernel.dtlb),
    ] {
        put(&format!("{side}_accesses"), user.accesses + kernel.accesses);
        put(
            &format!("{side}_l1_misses"),
            user.l1_misses + kernel.l1_misses,
        );
        put(
            &format!("{side}_l2_misses"),
            user.l2_misses + kernel.l2_misses,
        );
    }
    put("text_walks", user.itlb.l2_misses);
    put("walks", user.walks + kernel.walks);
    put("walk_reads", user.walk_reads + kernel.walk_reads);
}

fn kunit(figures: &mut Figures, report: &KunitReport) {
    for (name, status) in [
        ("passed", KunitStatus::Pass),
        ("failed", KunitStatus::Fail),
        ("skipped", KunitStatus::Skip),
    ] {
        figures.insert(format!("kunit.{name}"), report.count(status) as u64);
    }
}

/// One figure of both kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Unit of the values.
    pub unit: String,
    /// Of the first pristine run.
    pub pristine: Option<u64>,
    /// Of the first patched run.
    pub patched: Option<u64>,
    /// `patched / pristine`; absent where either is, or pristine is 0.
    pub ratio: Option<f64>,
    /// The largest difference between runs of one variant, as a fraction of
    /// the smallest of them; absent without repetition.
    pub spread: Option<f64>,
}

/// Compares the first runs of each variant, and all runs of a variant with
/// each other.
pub fn compare(runs: &[Run]) -> BTreeMap<String, Compared> {
    let all: Vec<(Variant, Figures)> = runs.iter().map(|run| (run.variant, of(run))).collect();
    let values = |name: &str, variant| {
        let of_variant = all.iter().filter(move |(of, _)| *of == variant);
        let name = name.to_string();
        of_variant.filter_map(move |(_, figures)| figures.get(&name).copied())
    };
    let names: std::collections::BTreeSet<&String> =
        all.iter().flat_map(|(_, figures)| figures.keys()).collect();
    let mut compared = BTreeMap::new();
    for name in names {
        let of_each = Variant::ALL
            .iter()
            .map(|&v| values(name, v).collect::<Vec<_>>());
        let spread = of_each
            .filter_map(|values| spread(&values))
            .reduce(f64::max);
        let pristine = values(name, Variant::Pristine).next();
        let patched = values(name, Variant::Patched).next();
        let ratio = match (pristine, patched) {
            (Some(pristine), Some(patched)) if pristine > 0 => {
                Some(patched as f64 / pristine as f64)
            }
            _ => None,
        };
        let unit = unit(name).to_string();
        let entry = Compared {
            unit,
            pristine,
            patched,
            ratio,
            spread,
        };
        compared.insert(name.clone(), entry);
    }
    compared
}

/// Largest difference as a fraction of the smallest value. Where that is 0,
/// of 1: a count that is 0 in one run and 3 in another is 3 apart.
fn spread(values: &[u64]) -> Option<f64> {
    let (min, max) = (values.iter().min()?, values.iter().max()?);
    (values.len() > 1).then(|| (max - min) as f64 / (*min).max(1) as f64)
}

/// The figure of [`HEADLINE`] that differs most between runs of one variant,
/// with its spread.
pub fn widest_spread(figures: &BTreeMap<String, Compared>) -> Option<(&str, f64)> {
    figures
        .iter()
        .filter(|(name, _)| HEADLINE.contains(&name.as_str()))
        .filter_map(|(name, compared)| Some((name.as_str(), compared.spread?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;

    #[test]
    fn user_and_kernel_add_up_and_phases_are_named() {
        let figures = of(&run(Variant::Pristine, 1000));
        assert_eq!(figures["cold.instructions"], 1000 + 500);
        assert_eq!(figures["cold.walks"], 7 + 2);
        assert_eq!(figures["cold.text_walks"], 5);
        assert_eq!(figures["cold.faults"], 3 + 4);
        assert_eq!(figures["text.64K"], 1 << 20);
    }

    #[test]
    fn ratio_and_spread() {
        let runs = [
            run(Variant::Pristine, 1000),
            run(Variant::Patched, 250),
            run(Variant::Pristine, 1003),
        ];
        let figures = compare(&runs);
        let user = &figures["cold.user_instructions"];
        assert_eq!((user.pristine, user.patched), (Some(1000), Some(250)));
        assert_eq!(user.ratio, Some(0.25));
        assert_eq!(user.spread, Some(0.003));
        // Of 1500 with the kernel's.
        assert_eq!(widest_spread(&figures), Some(("cold.instructions", 0.002)));
    }

    #[test]
    fn one_run_has_neither() {
        let figures = compare(&[run(Variant::Patched, 10)]);
        let user = &figures["cold.user_instructions"];
        assert_eq!((user.pristine, user.ratio, user.spread), (None, None, None));
        assert_eq!(widest_spread(&figures), None);
    }

    #[test]
    fn every_figure_has_its_unit() {
        for name in of(&run(Variant::Pristine, 1)).keys() {
            assert_ne!(unit(name), "tests", "{name}");
        }
    }
}
