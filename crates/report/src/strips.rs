// SPDX-License-Identifier: GPL-2.0-only
//! Pictures in the cells of a table: a point for each kernel, on an axis that all cells share, and
//! bars of text by leaf. The table can be read and heard as one, and reflows on a narrow screen.

use crate::amount;
use crate::count::{Count, before, cases, changed};
use crate::plot::COLOURS;
use maud::{Markup, html};
use std::collections::BTreeMap;
use wideleaf_kbuild::Variant;
use wideleaf_lab::results::Comparison;

/// Width and height of a cell's picture, in the units of the drawing.
const SIZE: (f64, f64) = (140.0, 18.0);
/// Room at both ends, for points that lie there.
const MARGIN: f64 = 6.0;

/// The axis of a table's points, in percent of the pristine kernel's.
struct Axis {
    low: f64,
    high: f64,
    /// A decade is as long as the next one.
    is_logarithmic: bool,
}

impl Axis {
    fn of(counts: &[&Count<'_>], variants: &[Variant]) -> Self {
        let all = || {
            let each = |count: &&Count<'_>| variants.iter().map(|v| count.percent(*v)).collect();
            let values: Vec<Vec<_>> = counts.iter().map(each).collect();
            values.into_iter().flatten().flatten()
        };
        let low = all().filter(|value| *value > 0.0).fold(100.0, f64::min);
        let high = all().fold(100.0, f64::max);
        let is_logarithmic = high / low > 20.0;
        match is_logarithmic {
            true => Self {
                low: 10f64.powf(low.log10().floor()),
                high: 10f64.powf(high.log10().ceil()),
                is_logarithmic,
            },
            false => Self {
                low: 0.0,
                high: high * 1.05,
                is_logarithmic,
            },
        }
    }

    /// Where a value lies in a picture. 0 has no place on a logarithmic axis: it is at its end.
    fn place(&self, percent: f64) -> f64 {
        let share = match self.is_logarithmic {
            true => {
                let decades = |value: f64| (value / self.low).log10();
                decades(percent.max(self.low)) / decades(self.high)
            }
            false => percent / self.high,
        };
        MARGIN + share * (SIZE.0 - 2.0 * MARGIN)
    }

    fn described(&self) -> String {
        let (low, high) = (self.low, self.high.round());
        match self.is_logarithmic {
            true => format!("from {low} to {high} %, logarithmic"),
            false => format!("from {low} to {high} %"),
        }
    }
}

/// The counts as a table of points: cases are rows and counts columns. A job without cases has a
/// row for each count. The count with the largest change is first; those of which no case has changed
/// are named below.
pub(crate) fn points(counts: &[Count<'_>], comparison: &Comparison, id: &str) -> Option<Markup> {
    let variants = changed(comparison);
    let last = *variants.last()?;
    let has_changed = |what: &str| {
        let mut of_it = counts.iter().filter(|count| count.what == what);
        of_it.any(|count| count.has_changed(last))
    };
    let mut columns: Vec<&str> = Vec::new();
    for count in counts {
        if !columns.contains(&count.what) {
            columns.push(count.what);
        }
    }
    let (mut columns, unchanged): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|what| has_changed(what));
    let largest = |what: &str| {
        let of_it = counts.iter().filter(|count| count.what == what);
        of_it.map(|count| count.distance(last)).fold(0.0, f64::max)
    };
    columns.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    let drawn: Vec<_> = counts
        .iter()
        .filter(|count| columns.contains(&count.what))
        .collect();
    if drawn.is_empty() {
        return Some(html! { (folded(&unchanged)) });
    }
    let axis = Axis::of(&drawn, &variants);
    let mut rows: Vec<&str> = Vec::new();
    for count in &drawn {
        if !rows.contains(&&count.case[..]) {
            rows.push(&count.case);
        }
    }
    let find = |case: &str, what: &str| {
        let it = drawn.iter().find(|c| c.case == case && c.what == what);
        it.map(|count| point(count, &axis, &variants))
    };
    let has_cases = rows != [""];
    Some(html! {
        figure {
            figcaption id=(id) {
                "Counts in % of the pristine kernel's, " (axis.described())
                ". The upright line is 100 %."
            }
            (legend(variants.iter().map(ToString::to_string)))
            table.stack.points[has_cases] aria-labelledby=(id) {
                @if has_cases {
                    thead { tr { th scope="col" {} @for what in &columns { th scope="col" { (what) } } } }
                    tbody {
                        @for case in &rows {
                            tr {
                                th scope="row" { (case) }
                                @for what in &columns {
                                    td data-label=(what) { (find(case, what).unwrap_or_default()) }
                                }
                            }
                        }
                    }
                } @else {
                    tbody {
                        @for what in &columns {
                            tr {
                                th scope="row" { (what) }
                                td { (find("", what).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
            (folded(&unchanged))
        }
    })
}

fn folded(unchanged: &[&str]) -> Markup {
    html! {
        @if !unchanged.is_empty() {
            p.note {
                (unchanged.len()) " unchanged, to within the spread of repeated runs or 1 %: "
                (unchanged.join("; ")) "."
            }
        }
    }
}

/// The picture of one count, and the last variant's value beside it.
fn point(count: &Count<'_>, axis: &Axis, variants: &[Variant]) -> Markup {
    let exact = exactly(count);
    let value = |variant: &Variant| count.percent(*variant);
    if variants.iter().all(|variant| value(variant).is_none()) {
        // Nothing is in percent of nothing.
        return html! { span.cell title=(exact) { span { "-" } } };
    }
    let shown = variants.last().and_then(value);
    let (width, height) = SIZE;
    let middle = height / 2.0;
    let spread = count.compared.spread.unwrap_or_default();
    html! {
        span.cell title=(exact) {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(exact) {
                line.axis x1=(MARGIN) y1=(middle) x2=(width - MARGIN) y2=(middle) {}
                line.all x1=(axis.place(100.0)) y1="1" x2=(axis.place(100.0)) y2=(height - 1.0) {}
                @for (n, variant) in variants.iter().enumerate() {
                    @if let Some(percent) = value(variant) {
                        line class={ "c" (n % COLOURS) } y1=(middle) y2=(middle)
                            x1=(axis.place(percent / (1.0 + spread)))
                            x2=(axis.place(percent * (1.0 + spread))) {}
                        (mark(n, axis.place(percent), middle))
                    }
                }
            }
            span { (shown.map_or("-".into(), amount::share)) }
        }
    }
}

/// Kernels are told apart without colours too.
fn mark(n: usize, x: f64, y: f64) -> Markup {
    let class = format!("c{}", n % COLOURS);
    html! {
        @match n % 3 {
            0 => circle class=(class) cx=(x) cy=(y) r="4.5" {},
            1 => path class=(class) d={ "M" (x) " " (y - 5.5) "l5 9h-10z" } {},
            _ => rect class=(class) x=(x - 4.0) y=(y - 4.0) width="8" height="8" {},
        }
    }
}

/// `pristine 8 648 345, patched 3 649 923 misses, ± 0.1 %`.
pub(crate) fn exactly(count: &Count<'_>) -> String {
    let values = &count.compared.values;
    let values = values
        .iter()
        .map(|(v, n)| format!("{v} {}", amount::exact(*n)));
    format!(
        "{} {}, {}",
        values.collect::<Vec<_>>().join(", "),
        count.compared.unit,
        amount::spread(count.compared.spread)
    )
}

fn legend(names: impl ExactSizeIterator<Item = String>) -> Markup {
    html! {
        @if names.len() > 1 {
            ul.legend {
                @for (n, name) in names.enumerate() {
                    li {
                        svg.key viewBox="0 0 12 12" aria-hidden="true" { (mark(n, 6.0, 6.0)) }
                        (name)
                    }
                }
            }
        }
    }
}

/// Which leaves map the text, in shares of it: a row for each case, a bar for each kernel. Text of
/// which no kernel maps anything by a wider leaf than the others is named below.
pub(crate) fn coverage(comparison: &Comparison, id: &str) -> Option<Markup> {
    let texts = texts(comparison);
    let leaves = leaves(&texts);
    let variants = comparison.variants();
    let mut cases_in_order: Vec<String> = Vec::new();
    for leaf in &leaves {
        for case in cases(comparison, &format!("text.{leaf}")) {
            let case = case.trim_end_matches('.').to_owned();
            if !cases_in_order.contains(&case) {
                cases_in_order.push(case);
            }
        }
    }
    let narrowest = leaves.first()?;
    let is_narrow = |case: &&String| {
        let bytes = |variant| texts.get(&(variant, (*case).clone()));
        let wide = |leaf: &&String| *leaf != narrowest && *leaf != UNMAPPED;
        variants.iter().filter_map(|v| bytes(*v)).all(|bytes| {
            let mut wider = leaves.iter().filter(wide);
            wider.all(|leaf| bytes.get(leaf).is_none_or(|n| *n == 0))
        })
    };
    let (narrow, drawn): (Vec<_>, Vec<_>) = cases_in_order.iter().partition(is_narrow);
    let bar_of = |variant: Variant, case: &str| {
        let bytes = texts.get(&(variant, case.to_owned()));
        bytes.map(|bytes| bar(bytes, &leaves)).unwrap_or_default()
    };
    Some(html! {
        figure {
            figcaption id=(id) { "Text by the leaf that maps it" }
            (legend_of_leaves(&leaves))
            @if !drawn.is_empty() {
                table.stack aria-labelledby=(id) {
                    thead {
                        tr { th scope="col" {} @for variant in &variants { th scope="col" { (variant) } } }
                    }
                    tbody {
                        @for case in &drawn {
                            tr {
                                th scope="row" { (if case.is_empty() { "text" } else { case }) }
                                @for variant in &variants {
                                    td data-label=(variant) { (bar_of(*variant, case)) }
                                }
                            }
                        }
                    }
                }
            }
            @if !narrow.is_empty() {
                details {
                    summary { (narrow.len()) " of which no kernel maps anything by a wider leaf" }
                    p.note { (narrow.iter().map(|case| &case[..]).collect::<Vec<_>>().join(", ")) }
                }
            }
        }
    })
}

/// The bytes that no leaf maps, as the figures name them.
const UNMAPPED: &str = "unmapped";

fn legend_of_leaves(leaves: &[String]) -> Markup {
    html! {
        ul.legend {
            @for (n, leaf) in leaves.iter().enumerate() {
                li {
                    svg.key viewBox="0 0 12 12" aria-hidden="true" {
                        rect class=(colour(n, leaf)) width="12" height="12" {}
                    }
                    (leaf)
                }
            }
        }
    }
}

fn colour(n: usize, leaf: &str) -> String {
    match leaf {
        UNMAPPED => "none".into(),
        _ => format!("c{}", n % COLOURS),
    }
}

/// Stacked, narrow leaves first, and the share of the widest in words.
fn bar(bytes: &BTreeMap<String, u64>, leaves: &[String]) -> Markup {
    let all: u64 = bytes.values().sum::<u64>().max(1);
    let of = |leaf: &String| bytes.get(leaf).copied().unwrap_or(0);
    let said: Vec<_> = leaves.iter().filter(|leaf| of(leaf) > 0).collect();
    let exact: Vec<_> = said
        .iter()
        .map(|leaf| format!("{leaf}: {} bytes", amount::exact(of(leaf))))
        .collect();
    let widest = said.iter().rev().find(|leaf| ***leaf != UNMAPPED);
    let share = |leaf: &String| 100.0 * of(leaf) as f64 / all as f64;
    let (width, height) = SIZE;
    let scale = (width - 2.0 * MARGIN) / all as f64;
    let mut left = MARGIN;
    let mut parts = Vec::new();
    for (n, leaf) in leaves.iter().enumerate() {
        let wide = of(leaf) as f64 * scale;
        if wide > 0.0 {
            parts.push((colour(n, leaf), left, wide));
        }
        left += wide;
    }
    html! {
        span.cell title=(exact.join(", ")) {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(exact.join(", ")) {
                @for (class, x, wide) in &parts {
                    rect class=(class) x=(x) y="3" width=(wide) height=(height - 6.0) {}
                }
            }
            span { @if let Some(leaf) = widest { (leaf) " " (amount::share(share(leaf))) } @else { "-" } }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::counts;
    use crate::sample::{count, source};
    use serde_json::json;

    fn drawn(job: &str, figures: serde_json::Value) -> (String, String) {
        let source = source(1, job, &figures);
        let comparison = &source.results.comparisons[0];
        let counts = counts(crate::job(comparison).unwrap(), comparison);
        let string = |markup: Option<Markup>| markup.map(Markup::into_string).unwrap_or_default();
        (
            string(points(&counts, comparison, "a")),
            string(coverage(comparison, "b")),
        )
    }

    #[test]
    fn programs_are_rows_and_counts_columns() {
        let (points, _) = drawn(
            "program",
            json!({
                "gcc.warm.walks": count(305_543, 1490, 3209),
                "php.warm.walks": count(100, 50, 0),
                "sh.warm.walks": count(0, 0, 7),
                "gcc.cold.instructions": count(1000, 1000, 1001),
                "php.cold.instructions": count(1000, 999, 1000),
            }),
        );
        assert!(points.contains("<th scope=\"row\">gcc</th>"), "{points}");
        assert_eq!(points.matches("data-label=\"page walks, warm\"").count(), 3);
        assert_eq!(points.matches("<svg viewBox").count(), 2, "{points}");
        assert!(points.contains("logarithmic"), "1.05 % and 50 %: {points}");
        assert!(points.contains("<span>1.05\u{a0}%</span>"), "{points}");
        assert!(
            points.contains("pristine 305\u{202f}543, reads 1\u{202f}490, patched 3\u{202f}209"),
            "{points}"
        );
        assert!(points.contains("1 unchanged"), "{points}");
        // Two variants, two programs; and the two of the legend.
        assert_eq!(points.matches("<circle").count(), 3, "{points}");
        assert_eq!(points.matches("<path").count(), 3, "{points}");
    }

    #[test]
    fn a_job_without_cases_has_a_row_for_each_count() {
        let (points, _) = drawn("exec", json!({ "cold.faults": count(100, 50, 25) }));
        assert!(
            points.contains("<th scope=\"row\">faults, cold</th>"),
            "{points}"
        );
        assert!(points.contains("from 0 to 105 %."), "{points}");
    }

    #[test]
    fn places_on_the_axis() {
        let axis = Axis {
            low: 0.1,
            high: 100.0,
            is_logarithmic: true,
        };
        assert_eq!(axis.place(100.0), SIZE.0 - MARGIN);
        assert_eq!(axis.place(0.1), MARGIN);
        assert_eq!(axis.place(0.0), MARGIN);
        let third = (axis.place(1.0) - MARGIN) / (SIZE.0 - 2.0 * MARGIN);
        assert!((third - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn text_is_in_shares_narrow_leaves_first_and_narrow_files_are_folded() {
        let (_, coverage) = drawn(
            "program",
            json!({
                "gcc.text.2M": count(0, 1, 3), "gcc.text.4K": count(4, 3, 1),
                "gcc.text.1G": count(0, 0, 0), "gcc.text.unmapped": count(0, 0, 0),
                "sh.text.4K": count(4, 4, 4), "sh.text.2M": count(0, 0, 0),
            }),
        );
        assert!(coverage.contains("2M 75.0\u{a0}%"), "{coverage}");
        assert!(
            coverage.contains("title=\"4K: 1 bytes, 2M: 3 bytes\""),
            "{coverage}"
        );
        assert!(coverage.contains("1 of which no kernel maps"), "{coverage}");
        assert!(
            !coverage.contains("<th scope=\"row\">sh</th>"),
            "{coverage}"
        );
        let narrow = coverage.find("class=\"c0\"").unwrap();
        assert!(narrow < coverage.find("class=\"c1\"").unwrap());
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(drawn("boot", json!({})), (String::new(), String::new()));
    }
}
