// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of a run that can be compared, each under one name.
//!
//! The names are those of the table, of `--expect` and of the JSON's
//! `figures`. Only counts are here: what repeats from run to run.

use crate::job::Job;
use crate::results::{Comparison, PhaseCounts, Run};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wideleaf_kernel::Variant;

/// Names with their values, in their unit.
pub type Figures = BTreeMap<String, u64>;

/// The unit of the figure `name`.
pub fn unit(name: &str) -> &'static str {
    let mut parts = name.rsplit('.');
    let last = parts.next().unwrap_or(name);
    if parts.next() == Some("text") {
        return "bytes";
    }
    match last {
        "read_bytes" | "executed_bytes" | "span" => "bytes",
        "direct_scans" | "kswapd_scans" => "pages",
        "direct_stalls" => "stalls",
        "limit_hits" => "hits",
        "oom_kills" => "kills",
        "varying_bits" | "lowest_bit" => "bits",
        "distinct" | "lowest_address" => "addresses",
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

/// The figures of one run of `job`.
pub fn of(job: Option<&dyn Job>, run: &Run) -> Figures {
    let mut figures = Figures::new();
    if let Some(job) = job {
        job.figures(run, &mut figures);
    }
    for phase in &run.phases {
        counts(&mut figures, phase);
    }
    figures
}

/// Bytes by leaf, as `<name>.<leaf>`.
pub fn leaves(figures: &mut Figures, name: &str, leaves: &BTreeMap<String, u64>) {
    for (leaf, bytes) in leaves {
        figures.insert(format!("{name}.{leaf}"), *bytes);
    }
}

/// What maps the text that the guest knows as `id`, as `text.<leaf>` after
/// `prefix`.
pub fn text(figures: &mut Figures, prefix: &str, run: &Run, id: u64) {
    for coverage in run.coverage.iter().filter(|coverage| coverage.id == id) {
        leaves(figures, &format!("{prefix}text"), &coverage.leaves);
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

/// One figure of all kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Unit of the values.
    pub unit: String,
    /// `patched / pristine`; absent where either is, or pristine is 0.
    pub ratio: Option<f64>,
    /// The largest difference between runs of one variant, as a fraction of
    /// the smallest of them; absent without repetition.
    pub spread: Option<f64>,
    /// Of the first run of each variant.
    #[serde(flatten)]
    pub values: BTreeMap<Variant, u64>,
}

impl Compared {
    /// The value with this variant's kernel.
    pub fn of(&self, variant: Variant) -> Option<u64> {
        self.values.get(&variant).copied()
    }
}

/// Compares the first runs of each variant, and all runs of a variant with
/// each other.
pub fn compare(job: Option<&dyn Job>, runs: &[Run]) -> BTreeMap<String, Compared> {
    let all: Vec<_> = runs.iter().map(|run| (run.variant, of(job, run))).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, figures)| figures.keys()).collect();
    let compared = |name: &String| {
        let mut by_variant: BTreeMap<Variant, Vec<u64>> = BTreeMap::new();
        for (variant, figures) in &all {
            by_variant
                .entry(*variant)
                .or_default()
                .extend(figures.get(name));
        }
        Compared::new(name, &by_variant)
    };
    names
        .into_iter()
        .map(|name| (name.clone(), compared(name)))
        .collect()
}

impl Compared {
    /// Of the figure `name`, with the values of all runs of each variant.
    fn new(name: &str, all: &BTreeMap<Variant, Vec<u64>>) -> Self {
        let first = |(variant, values): (&Variant, &Vec<u64>)| Some((*variant, *values.first()?));
        let values: BTreeMap<_, _> = all.iter().filter_map(first).collect();
        let ratio = match (
            values.get(&Variant::Pristine),
            values.get(&Variant::Patched),
        ) {
            (Some(&pristine), Some(&patched)) if pristine > 0 => {
                Some(patched as f64 / pristine as f64)
            }
            _ => None,
        };
        Self {
            unit: unit(name).to_string(),
            ratio,
            spread: all.values().filter_map(|v| spread(v)).reduce(f64::max),
            values,
        }
    }
}

/// Largest difference as a fraction of the smallest value. Where that is 0,
/// of 1: a count that is 0 in one run and 3 in another is 3 apart.
fn spread(values: &[u64]) -> Option<f64> {
    let (min, max) = (values.iter().min()?, values.iter().max()?);
    (values.len() > 1).then(|| (max - min) as f64 / (*min).max(1) as f64)
}

/// The figure of the table that differs most between runs of one variant, with
/// its spread.
pub fn widest_spread(comparison: &Comparison) -> Option<(&str, f64)> {
    let job = comparison.job()?;
    comparison
        .figures
        .iter()
        .filter(|(name, _)| job.is_headline(name))
        .filter_map(|(name, compared)| Some((name.as_str(), compared.spread?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_exec::Exec;
    use crate::results::tests::{comparison, run};

    #[test]
    fn user_and_kernel_add_up_and_phases_are_named() {
        let figures = of(Some(&Exec), &run(Variant::Pristine, 1000));
        assert_eq!(figures["cold.instructions"], 1000 + 500);
        assert_eq!(figures["cold.walks"], 7 + 2);
        assert_eq!(figures["cold.text_walks"], 5);
        assert_eq!(figures["cold.faults"], 3 + 4);
        assert_eq!(figures["text.64K"], 1 << 20);
    }

    #[test]
    fn ratio_and_spread() {
        let mut comparison = comparison(1000, 250);
        comparison.runs.push(run(Variant::Pristine, 1003));
        let comparison = comparison.conclude();
        let user = &comparison.figures["cold.user_instructions"];
        let of = |variant| user.of(variant);
        assert_eq!(of(Variant::Pristine), Some(1000));
        assert_eq!(of(Variant::Patched), Some(250));
        assert_eq!(user.ratio, Some(0.25));
        assert_eq!(user.spread, Some(0.003));
        // Of 1500 with the kernel's.
        assert_eq!(
            widest_spread(&comparison),
            Some(("cold.instructions", 0.002))
        );
    }

    #[test]
    fn one_run_has_neither() {
        let mut comparison = comparison(1000, 10);
        comparison.runs.remove(0);
        let comparison = comparison.conclude();
        let user = &comparison.figures["cold.user_instructions"];
        assert_eq!(
            (user.of(Variant::Pristine), user.ratio, user.spread),
            (None, None, None)
        );
        assert_eq!(widest_spread(&comparison), None);
    }

    #[test]
    fn every_figure_has_its_unit() {
        for name in of(Some(&Exec), &run(Variant::Pristine, 1)).keys() {
            assert_ne!(unit(name), "tests", "{name}");
        }
    }
}
