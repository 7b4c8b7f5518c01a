// SPDX-License-Identifier: GPL-2.0-only
//! Which plots a comparison has. They follow from the names of its figures:
//! `cold.walks` has one value, `64K.cold.walks` one of several.

use crate::plot::{Kind, Plot, Series};
use std::collections::{BTreeMap, BTreeSet};
use wideleaf_kbuild::Variant;
use wideleaf_lab::job::AnyJob;
use wideleaf_lab::results::figures::Figure;
use wideleaf_lab::results::{Compared, Comparison};

/// How many spreads are plotted: a job with many cases has hundreds.
const SPREADS: usize = 16;

/// All plots of a comparison that have something to show.
pub fn of(job: Option<&dyn AnyJob>, comparison: &Comparison) -> Vec<Plot> {
    let mut plots = Vec::new();
    let counts = job.map_or_else(Vec::new, counts);
    plots.extend(by_count(comparison, &counts));
    plots.extend(by_case(
        comparison,
        &counts,
        job.and_then(|job| job.facts().cases),
    ));
    plots.extend(coverage(comparison));
    plots.extend(job.and_then(|job| spread(job, comparison)));
    plots.retain(|plot| !plot.is_empty());
    plots
}

/// The counts that are plotted: their names without the case, and what they are called.
fn counts(job: &dyn AnyJob) -> Vec<(&'static str, &'static str)> {
    let plotted = |figure: Figure| {
        let name = figure.name;
        let of_case = name
            .strip_prefix('<')
            .and_then(|rest| rest.split_once(">."));
        Some((of_case.map_or(name, |(_, name)| name), figure.plot?))
    };
    job.figures().into_iter().filter_map(plotted).collect()
}

/// What stands before `suffix` in names of figures: `""`, or `"64K."` and so on, in the order
/// in which the job has them.
fn cases(comparison: &Comparison, suffix: &str) -> Vec<String> {
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
fn before<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let prefix = name.strip_suffix(suffix)?;
    (prefix.is_empty() || prefix.ends_with('.')).then_some(prefix)
}

/// The variants that are held against the pristine one.
fn changed(comparison: &Comparison) -> Vec<Variant> {
    let variants = comparison.variants();
    if !variants.contains(&Variant::Pristine) {
        return Vec::new();
    }
    variants
        .into_iter()
        .filter(|variant| *variant != Variant::Pristine)
        .collect()
}

/// A figure in percent of the pristine kernel's; `None` where that is 0 or either is missing.
fn percent(figure: Option<&Compared>, variant: Variant) -> Option<f64> {
    let figure = figure?;
    let pristine = figure.of(Variant::Pristine).filter(|value| *value > 0)?;
    Some(100.0 * figure.of(variant)? as f64 / pristine as f64)
}

/// A job with one case: all counts side by side. With several variants this is what each
/// part of the series buys.
fn by_count(comparison: &Comparison, counts: &[(&str, &str)]) -> Option<Plot> {
    let counts: Vec<_> = counts
        .iter()
        .filter(|(name, _)| comparison.figures.contains_key(*name))
        .collect();
    let series = changed(comparison).into_iter().map(|variant| Series {
        name: variant.to_string(),
        values: counts
            .iter()
            .map(|(name, _)| percent(comparison.figures.get(*name), variant))
            .collect(),
    });
    Some(Plot {
        title: "Counts against the pristine kernel's".into(),
        x: String::new(),
        y: "% of pristine".into(),
        categories: counts.iter().map(|(_, label)| label.to_string()).collect(),
        series: series.collect(),
        kind: Kind::Grouped,
    })
}

/// A job with several cases: a plot for each count. Sizes and patterns have an order, so
/// lines join them; programs have none.
fn by_case(comparison: &Comparison, counts: &[(&str, &str)], in_order: Option<&str>) -> Vec<Plot> {
    let plot = |(suffix, label): &(&str, &str)| {
        let cases = cases(comparison, suffix);
        if cases.len() < 2 {
            return None;
        }
        let (x, kind) = match in_order {
            Some(what) => (what, Kind::Lines),
            None => ("case", Kind::Grouped),
        };
        let series = changed(comparison).into_iter().map(|variant| Series {
            name: variant.to_string(),
            values: cases
                .iter()
                .map(|case| percent(comparison.figures.get(&format!("{case}{suffix}")), variant))
                .collect(),
        });
        Some(Plot {
            title: format!("{label}, against the pristine kernel's"),
            x: x.into(),
            y: "% of pristine".into(),
            series: series.collect(),
            categories: cases
                .iter()
                .map(|case| case.trim_end_matches('.').into())
                .collect(),
            kind,
        })
    };
    counts.iter().filter_map(plot).collect()
}

/// Which leaves map the text, in shares: one bar a variant, or one plot a variant with a bar
/// for each case.
fn coverage(comparison: &Comparison) -> Vec<Plot> {
    let texts = texts(comparison);
    let leaves = leaves(&texts);
    let stacked = |title: &str, x: &str, bars: Vec<(String, &BTreeMap<String, u64>)>| Plot {
        title: title.into(),
        x: x.into(),
        y: "% of the text".into(),
        categories: bars.iter().map(|(name, _)| name.clone()).collect(),
        series: leaves
            .iter()
            .map(|leaf| Series {
                name: leaf.clone(),
                values: bars.iter().map(|(_, bytes)| share(bytes, leaf)).collect(),
            })
            .collect(),
        kind: Kind::Stacked,
    };
    let of_variant = |variant| texts.iter().filter(move |((v, _), _)| *v == variant);
    let variants = comparison.variants();
    if texts.keys().all(|(_, case)| case.is_empty()) {
        let bars = texts
            .iter()
            .map(|((variant, _), bytes)| (variant.to_string(), bytes));
        return vec![stacked(
            "Text by the leaf that maps it",
            "kernel",
            bars.collect(),
        )];
    }
    variants
        .into_iter()
        .map(|variant| {
            let order = cases(comparison, "text.2M");
            let place = |case: &str| {
                order
                    .iter()
                    .position(|name| name.trim_end_matches('.') == case)
            };
            let mut bars: Vec<_> = of_variant(variant)
                .map(|((_, case), bytes)| (case.clone(), bytes))
                .collect();
            bars.sort_by_key(|(case, _)| (place(case).is_none(), place(case)));
            stacked(
                &format!("Text by the leaf that maps it, {variant} kernel"),
                "case",
                bars,
            )
        })
        .collect()
}

/// Bytes by leaf, of each variant and case.
fn texts(comparison: &Comparison) -> BTreeMap<(Variant, String), BTreeMap<String, u64>> {
    let mut texts: BTreeMap<_, BTreeMap<String, u64>> = BTreeMap::new();
    for (name, figure) in &comparison.figures {
        let Some((text, leaf)) = name.rsplit_once('.') else {
            continue;
        };
        let Some(case) = before(text, "text") else {
            continue;
        };
        for (variant, bytes) in &figure.values {
            let key = (*variant, case.trim_end_matches('.').to_string());
            texts.entry(key).or_default().insert(leaf.into(), *bytes);
        }
    }
    texts
}

/// The leaves that map anything, narrow ones first, `unmapped` last.
fn leaves(texts: &BTreeMap<(Variant, String), BTreeMap<String, u64>>) -> Vec<String> {
    let used = texts.values().flatten().filter(|(_, bytes)| **bytes > 0);
    let mut leaves: Vec<String> = used.map(|(leaf, _)| leaf.clone()).collect();
    leaves.sort_by_key(|leaf| wideleaf_kit::size::parse(leaf).unwrap_or(u64::MAX));
    leaves.dedup();
    leaves
}

fn share(bytes: &BTreeMap<String, u64>, leaf: &str) -> Option<f64> {
    let all: u64 = bytes.values().sum();
    (all > 0).then(|| 100.0 * bytes.get(leaf).copied().unwrap_or(0) as f64 / all as f64)
}

/// How far repeated runs of one kernel lie apart.
fn spread(job: &dyn AnyJob, comparison: &Comparison) -> Option<Plot> {
    let mut spreads: Vec<_> = comparison
        .figures
        .iter()
        .filter(|(name, _)| job.is_headline(name))
        .filter_map(|(name, figure)| Some((name.clone(), figure.spread?)))
        .collect();
    spreads.sort_by(|a, b| b.1.total_cmp(&a.1));
    spreads.truncate(SPREADS);
    Some(Plot {
        title: "Spread of repeated runs, widest first".into(),
        x: String::new(),
        y: "% of the smallest".into(),
        categories: spreads.iter().map(|(name, _)| name.clone()).collect(),
        series: vec![Series {
            name: "largest difference".into(),
            values: spreads
                .iter()
                .map(|(_, spread)| Some(100.0 * spread))
                .collect(),
        }],
        kind: Kind::Grouped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    fn plots(job: &str, figures: serde_json::Value) -> Vec<Plot> {
        let source = source(1, job, &figures);
        let comparison = &source.results.comparisons[0];
        of(crate::job(comparison), comparison)
    }

    #[test]
    fn sizes_are_in_their_order_and_joined_by_lines() {
        let plots = plots(
            "exec-sizes",
            json!({
                "2M.cold.faults": count(100, 50, 25),
                "64K.cold.faults": count(10, 10, 10),
                "128K.cold.faults": count(0, 1, 1),
            }),
        );
        let faults = &plots[0];
        assert_eq!(faults.kind, Kind::Lines);
        assert_eq!(faults.categories, ["64K", "128K", "2M"]);
        let names: Vec<_> = faults
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["reads", "patched"]);
        // Nothing is a percentage of 0.
        assert_eq!(faults.series[1].values, [Some(100.0), None, Some(25.0)]);
    }

    #[test]
    fn patterns_are_in_the_order_of_the_job() {
        let plots = plots(
            "sparse",
            json!({
                "sweep.cold.read_bytes": count(4, 4, 4),
                "pages:10.cold.read_bytes": count(4, 5, 6),
                "pages:50.cold.read_bytes": count(4, 5, 6),
            }),
        );
        assert_eq!(plots[0].categories, ["pages:10", "pages:50", "sweep"]);
    }

    #[test]
    fn coverage_is_in_shares_narrow_leaves_first() {
        let plots = plots(
            "exec",
            json!({
                "text.2M": count(0, 1, 3), "text.64K": count(4, 3, 1),
                "text.1G": count(0, 0, 0), "text.unmapped": count(0, 0, 0),
            }),
        );
        let coverage = plots
            .iter()
            .find(|plot| plot.kind == Kind::Stacked)
            .unwrap();
        assert_eq!(coverage.categories, ["pristine", "reads", "patched"]);
        let series: Vec<_> = coverage
            .series
            .iter()
            .map(|s| (s.name.as_str(), s.values[2]))
            .collect();
        assert_eq!(series, [("64K", Some(25.0)), ("2M", Some(75.0))]);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(plots("boot", json!({})), []);
    }
}
