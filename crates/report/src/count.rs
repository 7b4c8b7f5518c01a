// SPDX-License-Identifier: GPL-2.0-only
//! The counts of a comparison that a reader is shown, each with its change. They follow from the
//! names of its figures: `cold.walks` has one value, `64K.cold.walks` one of several cases.

use std::collections::BTreeSet;
use wideleaf_kbuild::Variant;
use wideleaf_lab::job::AnyJob;
use wideleaf_lab::results::figures::Figure;
use wideleaf_lab::results::row::is_noise;
use wideleaf_lab::results::{Compared, Comparison};

/// One count of one case.
pub(crate) struct Count<'a> {
    /// The program, the pattern or the size; empty in a job without cases.
    pub(crate) case: String,
    /// The name of the count, for a reader.
    pub(crate) what: &'static str,
    /// Its values.
    pub(crate) compared: &'a Compared,
}

impl Count<'_> {
    /// In percent of the pristine kernel's; `None` where that is 0 or either is missing.
    pub(crate) fn percent(&self, variant: Variant) -> Option<f64> {
        let pristine = self.of(Variant::Pristine).filter(|value| *value > 0)?;
        Some(100.0 * self.of(variant)? as f64 / pristine as f64)
    }

    /// Of the first run with this variant's kernel.
    pub(crate) fn of(&self, variant: Variant) -> Option<u64> {
        self.compared.of(variant)
    }

    /// How far it is from the pristine kernel's: the same for half and for twice as many.
    pub(crate) fn distance(&self, variant: Variant) -> f64 {
        let value = |variant| self.of(variant).map(|value| value.max(1) as f64);
        match (value(Variant::Pristine), value(variant)) {
            (Some(pristine), Some(value)) => (value / pristine).ln().abs(),
            _ => 0.0,
        }
    }

    /// Whether it differs by more than repeated runs do.
    pub(crate) fn has_changed(&self, variant: Variant) -> bool {
        let spread = self.compared.spread.unwrap_or_default();
        let value = |variant| self.of(variant).map(|value| value as f64);
        matches!((value(Variant::Pristine), value(variant)),
            (Some(pristine), Some(value)) if !is_noise(pristine, value, spread))
    }
}

/// The variants that are held against the pristine one; the last is the one that a change is of.
pub(crate) fn changed(comparison: &Comparison) -> Vec<Variant> {
    let mut variants = comparison.variants();
    match variants.contains(&Variant::Pristine) {
        true => variants.retain(|variant| *variant != Variant::Pristine),
        false => variants.clear(),
    }
    variants
}

/// All counts that are shown, in the order of the job.
pub(crate) fn counts<'a>(job: &dyn AnyJob, comparison: &'a Comparison) -> Vec<Count<'a>> {
    let mut all = Vec::new();
    for (suffix, what) in shown(job) {
        for case in cases(comparison, suffix) {
            if let Some(compared) = comparison.figures.get(&format!("{case}{suffix}")) {
                all.push(Count {
                    case: case.trim_end_matches('.').into(),
                    what,
                    compared,
                });
            }
        }
    }
    all
}

/// The figures that are shown: their names without the case, and what they are called.
fn shown(job: &dyn AnyJob) -> Vec<(&'static str, &'static str)> {
    let plotted = |figure: Figure| {
        let name = figure.name;
        let of_case = name
            .strip_prefix('<')
            .and_then(|rest| rest.split_once(">."));
        Some((of_case.map_or(name, |(_, name)| name), figure.plot?))
    };
    job.figures().into_iter().filter_map(plotted).collect()
}

/// The cases of a figure as they stand before `suffix` in its names: `""`, or `"64K."` and so on,
/// in the order in which the job has them.
pub(crate) fn cases(comparison: &Comparison, suffix: &str) -> Vec<String> {
    let names = comparison.figures.keys();
    let found: BTreeSet<&str> = names.filter_map(|name| before(name, suffix)).collect();
    let mut found: Vec<String> = found.into_iter().map(String::from).collect();
    let options = comparison.options.as_object();
    let lists = options.into_iter().flat_map(|options| options.values());
    let given: Vec<_> = lists.filter_map(|value| value.as_array()).collect();
    found.sort_by_key(|case| {
        let case = case.trim_end_matches('.');
        let place = given
            .iter()
            .find_map(|list| list.iter().position(|name| name.as_str() == Some(case)));
        (wideleaf_kit::size::parse(case).ok(), place)
    });
    found
}

/// `"64K."` of `64K.cold.walks` and `cold.walks`.
pub(crate) fn before<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let prefix = name.strip_suffix(suffix)?;
    (prefix.is_empty() || prefix.ends_with('.')).then_some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    fn looked(job: &str, figures: serde_json::Value, look: impl Fn(&[Count<'_>])) {
        let source = source(1, job, &figures);
        let comparison = &source.results.comparisons[0];
        look(&counts(crate::job(comparison).unwrap(), comparison));
    }

    #[test]
    fn sizes_and_patterns_are_in_their_order() {
        let figures = json!({
            "2M.cold.faults": count(100, 50, 25),
            "64K.cold.faults": count(10, 10, 10),
            "128K.cold.faults": count(0, 1, 1),
        });
        looked("exec-sizes", figures, |counts| {
            let cases: Vec<_> = counts.iter().map(|count| &count.case[..]).collect();
            assert_eq!(cases, ["64K", "128K", "2M"]);
            let percent: Vec<_> = counts.iter().map(|c| c.percent(Variant::Patched)).collect();
            // Nothing is a percentage of 0.
            assert_eq!(percent, [Some(100.0), None, Some(25.0)]);
        });
        let figures = json!({
            "sweep.cold.read_bytes": count(4, 4, 4),
            "pages:10.cold.read_bytes": count(4, 5, 6),
        });
        looked("sparse", figures, |counts| {
            assert_eq!(counts[0].case, "pages:10");
        });
    }

    #[test]
    fn what_runs_differ_by_is_no_change() {
        let figures = json!({
            "cold.faults": count(1000, 1000, 1005),
            "cold.instructions": count(1000, 1000, 500),
            "random.walks": count(1000, 1000, 2000),
            "random.itlb_l1_misses": count(0, 0, 3),
        });
        looked("exec", figures, |counts| {
            let of = |what: &str| {
                counts
                    .iter()
                    .find(|count| count.what.contains(what))
                    .unwrap()
            };
            assert!(!of("faults").has_changed(Variant::Patched));
            assert!(of("instructions").has_changed(Variant::Patched));
            let (half, twice) = (of("instructions"), of("walks"));
            assert_eq!(
                half.distance(Variant::Patched),
                twice.distance(Variant::Patched)
            );
            assert!(of("L1").has_changed(Variant::Patched), "from none to three");
        });
    }
}
