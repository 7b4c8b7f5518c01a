// SPDX-License-Identifier: GPL-2.0-only
//! A row of the side-by-side table: what a job shows of its figures.

use crate::results::figures::Figure;
use crate::results::{BootResult, Compared, Comparison};
use std::collections::BTreeMap;
use wideleaf_kbuild::Variant;
use wideleaf_kit::{amount, size};

/// A row: a cell for each of [`Comparison::variants`], and the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Shown where it differs from the row above.
    pub section: String,
    /// What the cells hold; may be empty, then the section says it.
    pub label: String,
    /// One for each variant, with all digits.
    pub cells: Vec<String>,
    /// The same with three significant digits, bytes in powers of 1024.
    pub rounded: Vec<String>,
    /// Of the last variant's figure against the pristine one's.
    pub change: String,
    /// Whether that is no more than repeated runs differ by, or 1 %.
    pub is_noise: bool,
}

/// A row that definitions of figures ask for.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    /// Its section.
    pub section: &'static str,
    /// Its label.
    pub label: &'static str,
    figures: Vec<&'a Figure>,
}

impl Shown<'_> {
    /// The row of a case, which stands in place of the first `<...>` of the figures' names.
    pub fn of_case(&self, comparison: &Comparison, case: &str, section: &str, label: &str) -> Row {
        let names = self.figures.iter().map(|figure| figure.of_case(case));
        Row::figures(comparison, section, label, &names.collect::<Vec<_>>())
    }
}

/// The rows that definitions ask for, in their order.
pub fn shown(definitions: &[Figure]) -> Vec<Shown<'_>> {
    let mut all: Vec<Shown<'_>> = Vec::new();
    for figure in definitions {
        let Some((section, label)) = figure.row else {
            continue;
        };
        match all.last_mut() {
            Some(last) if (last.section, last.label) == (section, label) => {
                last.figures.push(figure);
            }
            _ => all.push(Shown {
                section,
                label,
                figures: vec![figure],
            }),
        }
    }
    all
}

impl Row {
    /// The rows that definitions ask for, of a job without cases.
    pub fn defined(comparison: &Comparison, definitions: &[Figure]) -> Vec<Self> {
        let shown = shown(definitions);
        let row = |shown: &Shown<'_>| shown.of_case(comparison, "", shown.section, shown.label);
        shown.iter().map(row).collect()
    }

    /// A row of figures by name; several stand in one cell, with a slash
    /// between, and the change is that of their sum.
    pub fn figures(
        comparison: &Comparison,
        section: &str,
        label: &str,
        names: &[impl AsRef<str>],
    ) -> Self {
        let found: Vec<Option<&Compared>> = names
            .iter()
            .map(|name| comparison.figures.get(name.as_ref()))
            .collect();
        let value = |variant, figure: &Option<&Compared>| figure.and_then(|f| f.of(variant));
        let cells = |text: &dyn Fn(u64, &Compared) -> String| {
            let cell = |variant: &Variant| {
                let text = |figure: &Option<&Compared>| {
                    let compared = figure.as_ref()?;
                    Some(text(compared.of(*variant)?, compared))
                };
                let texts = found
                    .iter()
                    .map(|figure| text(figure).unwrap_or("-".into()));
                texts.collect::<Vec<_>>().join("/")
            };
            comparison.variants().iter().map(cell).collect()
        };
        let sum = |variant| found.iter().map(|figure| value(variant, figure)).sum();
        let variants = comparison.variants();
        let spreads = found.iter().flatten().filter_map(|figure| figure.spread);
        let spread = spreads.fold(0.0, f64::max);
        Self {
            section: section.into(),
            label: label.into(),
            cells: cells(&|value, _| value.to_string()),
            rounded: cells(&rounded),
            change: last_against_pristine(&variants, sum)
                .map_or_else(String::new, |(a, b)| change(a, b)),
            is_noise: last_against_pristine(&variants, sum)
                .is_some_and(|(a, b)| is_noise(a, b, spread)),
        }
    }

    /// Which leaves mapped what the guest knows as `id`: `2M 98%, 64K 2%`,
    /// widest share first.
    pub fn leaves(comparison: &Comparison, section: &str, label: &str, id: u64) -> Self {
        let variants = comparison.variants().into_iter();
        let run = |variant| comparison.run(variant);
        let cell = |variant| run(variant).map_or("-".into(), |run| leaves(run, id));
        Self::words(section, label, variants.map(cell).collect())
    }

    /// A row of no figures.
    pub fn words(section: &str, label: &str, cells: Vec<String>) -> Self {
        Self {
            section: section.into(),
            label: label.into(),
            rounded: cells.clone(),
            cells,
            change: String::new(),
            is_noise: false,
        }
    }
}

/// As a reader wants it.
fn rounded(value: u64, of: &Compared) -> String {
    match of.unit.as_str() {
        "bytes" => size::bytes(value, false),
        _ => {
            let (digits, prefix) = amount::rounded(value);
            digits + prefix
        }
    }
}

fn last_against_pristine(
    variants: &[Variant],
    value: impl Fn(Variant) -> Option<u64>,
) -> Option<(f64, f64)> {
    let last = variants.last().filter(|last| **last != Variant::Pristine)?;
    Some((value(Variant::Pristine)? as f64, value(*last)? as f64))
}

/// Whether one count differs from another by no more than repeated runs do. A change of less than
/// 1 % is none, however well they agree. The same for half and for twice as many.
pub fn is_noise(pristine: f64, last: f64, spread: f64) -> bool {
    const LEAST: f64 = 0.01;
    let (a, b) = (pristine.max(1.0), last.max(1.0));
    a.max(b) / a.min(b) <= 1.0 + spread.max(LEAST)
}

fn leaves(run: &BootResult, id: u64) -> String {
    let coverage = run.coverage.iter().find(|coverage| coverage.id == id);
    coverage.map_or("-".into(), |c| shares(&c.leaves, c.len))
}

/// Bytes by leaf as shares of `len`: `2M 98%, 64K 2%`, widest share first.
pub fn shares(leaves: &BTreeMap<String, u64>, len: u64) -> String {
    let mut shares: Vec<_> = leaves.iter().filter(|(_, bytes)| **bytes > 0).collect();
    shares.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let texts: Vec<_> = shares
        .into_iter()
        .map(|(leaf, bytes)| format!("{leaf} {}%", percent(*bytes, len)))
        .collect();
    texts.join(", ")
}

/// A share in whole percent, but never 0 or 100 for what is not.
fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    match share.round() {
        100.0 if part < whole => ">99".into(),
        0.0 if part > 0 => "<1".into(),
        rounded => rounded.to_string(),
    }
}

/// The change in percent of pristine; two digits more where next to all is
/// gone, because the last percent is what matters then.
pub fn change(pristine: f64, patched: f64) -> String {
    if pristine == patched {
        return "0%".into();
    }
    if pristine == 0.0 {
        return String::new();
    }
    let percent = 100.0 * (patched - pristine) / pristine;
    let digits = if percent < -99.0 { 2 } else { 1 };
    format!("{percent:+.digits$}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        assert_eq!(change(100.0, 100.0), "0%");
        assert_eq!(change(1000.0, 5.0), "-99.50%");
        assert_eq!(change(100.0, 41.3), "-58.7%");
        assert_eq!(change(100.0, 250.0), "+150.0%");
        assert_eq!(change(0.0, 3.0), "");
    }

    #[test]
    fn what_runs_differ_by_is_noise() {
        assert!(is_noise(1000.0, 1009.0, 0.0) && is_noise(1009.0, 1000.0, 0.0));
        assert!(!is_noise(1000.0, 1011.0, 0.0));
        assert!(is_noise(1000.0, 1200.0, 0.2) && !is_noise(0.0, 3.0, 0.2));
    }

    #[test]
    fn shares_never_round_to_all_or_nothing() {
        assert_eq!(percent(1, 1000), "<1");
        assert_eq!(percent(999, 1000), ">99");
        assert_eq!(percent(1000, 1000), "100");
    }
}
