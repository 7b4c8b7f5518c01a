// SPDX-License-Identifier: GPL-2.0-only
//! The side-by-side table.
//!
//! Plain text, no separators within numbers, at least two blanks between
//! columns: `awk -F'  +'` takes it apart.

use crate::figures::{Compared, widest_spread};
use crate::results::{Comparison, Run};
use std::collections::BTreeMap;
use std::fmt::Write;
use wideleaf_kernel::Variant;

/// A row: a cell for each of [`Comparison::variants`], and the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Shown where it differs from the row above.
    pub section: String,
    /// What the cells hold; may be empty, then the section says it.
    pub label: String,
    /// One for each variant.
    pub cells: Vec<String>,
    /// Of the last variant's figure against the pristine one's.
    pub change: String,
}

impl Row {
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
        let cell = |variant: &Variant| {
            let texts: Vec<_> = found
                .iter()
                .map(|figure| value(*variant, figure).map_or("-".into(), |v| v.to_string()))
                .collect();
            texts.join("/")
        };
        let sum = |variant| found.iter().map(|figure| value(variant, figure)).sum();
        let variants = comparison.variants();
        Self {
            section: section.into(),
            label: label.into(),
            cells: variants.iter().map(cell).collect(),
            change: last_against_pristine(&variants, sum),
        }
    }

    /// A row that says something of each variant's first run.
    pub fn text(
        comparison: &Comparison,
        section: &str,
        label: &str,
        cell: impl Fn(&Run) -> String,
    ) -> Self {
        let variants = comparison.variants().into_iter();
        Self {
            section: section.into(),
            label: label.into(),
            cells: variants
                .map(|variant| comparison.run(variant).map_or("-".into(), &cell))
                .collect(),
            change: String::new(),
        }
    }

    /// Which leaves mapped what the guest knows as `id`: `2M 98%, 64K 2%`,
    /// widest share first.
    pub fn leaves(comparison: &Comparison, section: &str, label: &str, id: u64) -> Self {
        Self::text(comparison, section, label, |run| leaves(run, id))
    }
}

fn last_against_pristine(variants: &[Variant], value: impl Fn(Variant) -> Option<u64>) -> String {
    let last = variants.last().filter(|last| **last != Variant::Pristine);
    match (value(Variant::Pristine), last.and_then(|last| value(*last))) {
        (Some(pristine), Some(last)) => change(pristine as f64, last as f64),
        _ => String::new(),
    }
}

/// The table of a comparison, with its title, ending in a newline.
pub fn render(comparison: &Comparison) -> String {
    let mut out = title(comparison) + "\n";
    let rows = comparison
        .job()
        .map_or_else(Vec::new, |job| job.rows(comparison));
    layout(&mut out, &comparison.variants(), &rows);
    for note in notes(comparison) {
        let _ = writeln!(out, "{note}");
    }
    out
}

fn title(comparison: &Comparison) -> String {
    let Comparison {
        arch, page_size, ..
    } = comparison;
    let release = comparison
        .runs
        .first()
        .map(|run| run.guest.release.as_str());
    let release = release.unwrap_or(comparison.base.name());
    let mut title = comparison
        .job()
        .map_or_else(String::new, |job| job.title(comparison));
    let _ = write!(title, " {arch}, {page_size} pages, Linux {release}");
    if let Some(profile) = &comparison.profile {
        let _ = write!(title, ", model {}", profile.name);
    }
    title
}

fn leaves(run: &Run, id: u64) -> String {
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
fn change(pristine: f64, patched: f64) -> String {
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

fn layout(out: &mut String, variants: &[Variant], rows: &[Row]) {
    let section = width(
        rows.iter()
            .filter(|row| !row.label.is_empty())
            .map(|row| &row.section),
    );
    let label = width(rows.iter().map(|row| &row.label));
    let mut heads: Vec<String> = variants.iter().map(ToString::to_string).collect();
    let changes = rows.iter().any(|row| !row.change.is_empty());
    if changes {
        heads.push("change".into());
    }
    let cells = |row: &Row| {
        let change = changes.then(|| row.change.clone());
        row.cells.iter().cloned().chain(change).collect::<Vec<_>>()
    };
    let widths: Vec<_> = (0..heads.len())
        .map(|n| {
            let column: Vec<_> = rows.iter().map(|row| cells(row)[n].clone()).collect();
            width(column.iter()).max(heads[n].len())
        })
        .collect();
    let left = section + 2 + label;
    let mut line = |head: &str, cells: &[String]| {
        let mut text = format!("  {head:left$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "  {cell:>width$}");
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line("", &heads);
    let mut last = "";
    for row in rows {
        let shown = if row.section == last {
            ""
        } else {
            &row.section
        };
        last = &row.section;
        let head = match row.label.as_str() {
            "" => shown.to_string(),
            label => format!("{shown:section$}  {label}"),
        };
        line(&head, &cells(row));
    }
}

fn width<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// What a reader must know about the figures.
fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = comparison
        .job()
        .map_or_else(Vec::new, |job| job.notes(comparison));
    if let Some((name, spread)) = widest_spread(comparison) {
        let runs = comparison
            .runs
            .iter()
            .map(|run| run.repeat)
            .max()
            .unwrap_or(1);
        let spread = spread * 100.0;
        notes.push(format!(
            "  {runs} runs of each kernel: counts differ by at most {spread:.3}% ({name})"
        ));
    }
    let mut warnings: Vec<_> = comparison
        .runs
        .iter()
        .flat_map(|run| {
            run.warnings
                .iter()
                .map(|text| format!("  warning: {}: {text}", run.variant))
        })
        .collect();
    warnings.dedup();
    notes.extend(warnings);
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::comparison;

    #[test]
    fn the_table_as_a_whole() {
        let text = render(&comparison(1000, 100));
        let expected = "\
exec text: 512 MiB of return stubs, XFS, arm64, 64K pages, Linux 6.12.117, model neoverse-v2
                                            pristine   patched  change
  cold    faults (minor/major)                   3/4       3/4      0%
          guest instructions                    1500       600  -60.0%
          bytes read from disk               1048576   1048576      0%
          time under emulation (not speed)    0.50 s    0.50 s
  random  L1 iTLB misses                           -         -
          page walks                               -         -
  text mapped by leaf                       64K 100%  64K 100%
  stride 64K, 16 random calls, seed 1, readahead window 128K
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn one_variant_alone() {
        let mut comparison = comparison(1000, 100);
        comparison.runs.remove(1);
        comparison.kernels.remove(1);
        let text = render(&comparison.conclude());
        assert!(text.contains("  1500\n"), "\n{text}");
        assert!(
            !text.contains("patched") && !text.contains("change"),
            "\n{text}"
        );
    }

    #[test]
    fn changes() {
        assert_eq!(change(100.0, 100.0), "0%");
        assert_eq!(change(1000.0, 5.0), "-99.50%");
        assert_eq!(change(100.0, 41.3), "-58.7%");
        assert_eq!(change(100.0, 250.0), "+150.0%");
        assert_eq!(change(0.0, 3.0), "");
    }

    #[test]
    fn shares_never_round_to_all_or_nothing() {
        assert_eq!(percent(1, 1000), "<1");
        assert_eq!(percent(999, 1000), ">99");
        assert_eq!(percent(1000, 1000), "100");
    }

    #[test]
    fn warnings_and_missing_large_folios_are_told() {
        let mut comparison = comparison(1000, 100);
        comparison.options.filesystem = crate::image::Filesystem::Ext4;
        comparison.runs[1].warnings.push("walk failed".into());
        let text = render(&comparison);
        assert!(text.contains("warning: patched: walk failed"), "{text}");
        assert!(
            text.contains("ext4 has no large folios in Linux 6.12"),
            "{text}"
        );
    }
}
