// SPDX-License-Identifier: GPL-2.0-only
//! The figures of all kernels, held against each other.

use crate::job::AnyJob;
use crate::results::figures::Figures;
use crate::results::{BootResult, Compared, Comparison};
use crate::sweep::sweep;
use anyhow::Result;
use std::collections::BTreeMap;
use wideleaf_kbuild::Variant;

/// The figures of one run of `job`.
///
/// # Errors
///
/// If its outcome is nothing that this job finds.
pub fn figures(job: &dyn AnyJob, run: &BootResult) -> Result<Figures> {
    let mut figures = job.measure(run)?;
    for phase in &run.phases {
        figures.put_phase("", phase);
    }
    for cpu in &run.cpus {
        for phase in &cpu.phases {
            figures.put_phase(&format!("cpu{}.", cpu.cpu), phase);
        }
    }
    Ok(figures)
}

/// Fills in what follows from the runs.
///
/// # Errors
///
/// If an outcome is nothing that this job finds.
pub fn conclude(job: &dyn AnyJob, mut comparison: Comparison) -> Result<Comparison> {
    comparison.figures = compare(job, &comparison.runs)?;
    let again = |runs: &[BootResult]| compare(job, runs);
    comparison.sweep = sweep(&comparison.runs, &comparison.figures, again)?;
    Ok(comparison)
}

/// What all runs have of one figure.
struct Values {
    unit: &'static str,
    of: BTreeMap<Variant, Vec<u64>>,
}

/// Compares the first runs of each variant, and all runs of a variant with
/// each other.
fn compare(job: &dyn AnyJob, runs: &[BootResult]) -> Result<BTreeMap<String, Compared>> {
    let mut all: BTreeMap<String, Values> = BTreeMap::new();
    let last = runs.iter().map(|run| run.variant).max();
    for run in runs {
        for (name, figure) in figures(job, run)?.iter() {
            let values = all.entry(name.clone()).or_insert_with(|| Values {
                unit: figure.unit,
                of: BTreeMap::new(),
            });
            values.of.entry(run.variant).or_default().push(figure.value);
        }
    }
    let all = all.into_iter();
    Ok(all
        .map(|(name, values)| (name, values.compared(last)))
        .collect())
}

impl Values {
    /// `last` is the variant that is held against pristine.
    fn compared(&self, last: Option<Variant>) -> Compared {
        let first = |(variant, values): (&Variant, &Vec<u64>)| Some((*variant, *values.first()?));
        let values: BTreeMap<_, _> = self.of.iter().filter_map(first).collect();
        let last = last.filter(|&last| last != Variant::Pristine);
        let ratio = match (
            values.get(&Variant::Pristine),
            last.and_then(|last| values.get(&last)),
        ) {
            (Some(&pristine), Some(&last)) if pristine > 0 => Some(last as f64 / pristine as f64),
            _ => None,
        };
        Compared {
            unit: self.unit.to_string(),
            ratio,
            spread: self.of.values().filter_map(|v| spread(v)).reduce(f64::max),
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
pub fn widest_spread<'a>(job: &dyn AnyJob, comparison: &'a Comparison) -> Option<(&'a str, f64)> {
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
    use crate::results::CpuCounts;
    use crate::sample::{Calls, comparison, run};

    #[test]
    fn user_and_kernel_add_up_and_phases_are_named() {
        let figures = figures(&Calls, &run(Variant::Pristine, 1000)).unwrap();
        let value = |name| figures.get(name).map(|figure| (figure.value, figure.unit));
        assert_eq!(
            value("cold.instructions"),
            Some((1000 + 500, "instructions"))
        );
        assert_eq!(value("cold.walks"), Some((7 + 2, "walks")));
        assert_eq!(value("cold.text_walks"), Some((5, "walks")));
        assert_eq!(value("cold.faults"), Some((3 + 4, "faults")));
        assert_eq!(value("text.64K"), Some((1 << 20, "bytes")));
    }

    #[test]
    fn each_cpu_has_figures_of_its_own_beside_the_sum() {
        let mut run = run(Variant::Pristine, 1000);
        let mut phase = run.phases[0].clone();
        phase.user.instructions = 400;
        run.cpus = vec![CpuCounts {
            cpu: 1,
            phases: vec![phase],
        }];
        let figures = figures(&Calls, &run).unwrap();
        let value = |name| figures.get(name).map(|figure| figure.value);
        assert_eq!(value("cold.instructions"), Some(1500));
        assert_eq!(value("cpu1.cold.instructions"), Some(900));
        assert_eq!(value("cpu0.cold.instructions"), None);
    }

    #[test]
    fn ratio_and_spread() {
        let mut comparison = comparison(1000, 250);
        comparison.runs.push(run(Variant::Pristine, 1003));
        let comparison = conclude(&Calls, comparison).unwrap();
        let user = &comparison.figures["cold.user_instructions"];
        let of = |variant| user.of(variant);
        assert_eq!(of(Variant::Pristine), Some(1000));
        assert_eq!(of(Variant::Patched), Some(250));
        assert_eq!(user.ratio, Some(0.25));
        assert_eq!(user.spread, Some(0.003));
        // Of 1500 with the kernel's.
        assert_eq!(
            widest_spread(&Calls, &comparison),
            Some(("cold.instructions", 0.002))
        );
    }

    #[test]
    fn one_run_has_neither() {
        let mut comparison = comparison(1000, 10);
        comparison.runs.remove(0);
        let comparison = conclude(&Calls, comparison).unwrap();
        let user = &comparison.figures["cold.user_instructions"];
        assert_eq!(
            (user.of(Variant::Pristine), user.ratio, user.spread),
            (None, None, None)
        );
        assert_eq!(widest_spread(&Calls, &comparison), None);
    }
}
