// SPDX-License-Identifier: GPL-2.0-only
//! The cells of tables in the docs: figures of a row, and shares and ratios that follow from them.

use crate::compact::Row;

/// How a value is shown.
#[derive(Clone, Copy)]
pub enum Show {
    /// As it was counted.
    Count,
    /// In so many units, with so many digits after the point.
    In(f64, usize),
    /// In percent, with so many digits after the point.
    Percent(usize),
}

/// The content of a cell. In a figure's name `*` is the case of its row, `@` the base page size.
#[derive(Clone, Copy)]
pub enum Cell {
    /// The figures of each variant.
    Each(&'static [&'static str], Show),
    /// What the last variant's figure is of pristine's, as a number.
    Ratio(&'static str),
    /// The same in percent, with three digits that count.
    Share(&'static str),
}

impl Cell {
    /// All variants in one cell: two with an arrow between, more with slashes.
    pub fn all(self, row: &Row, case: &str) -> String {
        let Self::Each(names, show) = self else {
            return self.relative(row, case);
        };
        let shown: Vec<_> = (0..row.variants.len())
            .map(|at| each(row, names, case, at, show))
            .filter(|text| !text.is_empty())
            .collect();
        let between = if shown.len() == 2 { " → " } else { " / " };
        shown.join(between) + unit(show, !shown.is_empty())
    }

    fn relative(self, row: &Row, case: &str) -> String {
        let (Self::Ratio(name) | Self::Share(name)) = self else {
            return String::new();
        };
        match (self, ratio(row, &named(name, case, row))) {
            (_, None) => "-".into(),
            (Self::Share(_), Some(ratio)) => format!("{} %", three_digits(100.0 * ratio)),
            (_, Some(ratio)) => format!("{ratio:.2}"),
        }
    }
}

/// Figures of one variant; one that it does not have is left out.
fn each(row: &Row, names: &[&str], case: &str, at: usize, show: Show) -> String {
    let values = names.iter().filter_map(|name| {
        // What is per thousand is no count, though it stands beside counts.
        let per = if name.ends_with("_per_1000") {
            Show::In(1.0, 3)
        } else {
            show
        };
        value(row, &named(name, case, row), at).map(|value| shown(value, per))
    });
    values.collect::<Vec<_>>().join(", ")
}

fn named(name: &str, case: &str, row: &Row) -> String {
    name.replace('*', case).replace('@', &row.page_size)
}

/// A value as it stands in a table, without its unit.
pub fn shown(value: f64, show: Show) -> String {
    match show {
        Show::Count => format!("{value:.0}"),
        Show::In(unit, digits) => format!("{:.digits$}", value / unit),
        Show::Percent(digits) => format!("{value:.digits$}"),
    }
}

/// The unit that stands behind the values of a cell, if it has any.
pub fn unit(show: Show, known: bool) -> &'static str {
    match show {
        Show::Percent(_) if known => " %",
        _ => "",
    }
}

/// `11.9`, `6.95`, `6.9`: the zeros at the end say nothing.
fn three_digits(value: f64) -> String {
    let exponent = format!("{value:.2e}");
    let exponent = exponent
        .rsplit('e')
        .next()
        .and_then(|e| e.parse::<i32>().ok());
    let digits = usize::try_from(2 - exponent.unwrap_or(0)).unwrap_or(0);
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

/// The last variant's figure by pristine's.
fn ratio(row: &Row, name: &str) -> Option<f64> {
    ratio_of(row, name, row.variants.last()?, "pristine")
}

/// The figure of one variant by another's.
pub fn ratio_of(row: &Row, name: &str, of: &str, by: &str) -> Option<f64> {
    let place = |variant| row.variants.iter().position(|known| known == variant);
    let (at, base) = (place(of)?, place(by)?);
    // Rounded values may tell it worse than the row does.
    let stored = row.figure(name).and_then(|figure| figure.ratio);
    if stored.is_some() && by == "pristine" && at + 1 == row.variants.len() {
        return stored;
    }
    let base = value(row, name, base).filter(|base| *base != 0.0)?;
    Some(value(row, name, at)? / base)
}

/// A figure of the variant at this place: as it is stored, else as it follows from others.
pub fn value(row: &Row, name: &str, at: usize) -> Option<f64> {
    let of = |name: &str| row.figure(name).and_then(|figure| figure.value(at));
    if let Some(stored) = of(name) {
        return Some(stored);
    }
    if let Some(moment) = name.strip_suffix(".as_wide_percent") {
        return as_wide(row, moment, at);
    }
    if let Some(leaf) = name.strip_suffix("_percent") {
        return share(row, leaf, at);
    }
    if let Some(phase) = name.strip_suffix("_walks_per_1000") {
        let (phase, side) = phase.rsplit_once('.')?;
        let instructions = of(&format!("{phase}.kernel_instructions"))?;
        return Some(1000.0 * of(&format!("{phase}.{side}_walks"))? / instructions);
    }
    if let Some(case) = name.strip_suffix("_per_page") {
        let (pages, _) = case.rsplit_once('.')?;
        let pages = of(&format!("{pages}.pages")).filter(|pages| *pages > 0.0)?;
        return Some(of(case)? / pages);
    }
    if name == "collapse_instructions_each" {
        return Some((of("collapse_instructions")? / of("settled.collapses")?).floor());
    }
    None
}

/// What `text.2M` is of all leaves of this text, in percent.
fn share(row: &Row, leaf: &str, at: usize) -> Option<f64> {
    let (text, wide) = leaf.rsplit_once('.')?;
    let leaves = row.figures.iter().filter_map(|(name, figure)| {
        let leaf = name.strip_prefix(text)?.strip_prefix('.')?;
        Some((leaf, figure.value(at)?)).filter(|(leaf, _)| !leaf.contains('.'))
    });
    let leaves: Vec<_> = leaves.collect();
    // Not sum(): that of nothing is -0.
    let sum = |leaves: &mut dyn Iterator<Item = f64>| leaves.fold(0.0, |sum, bytes| sum + bytes);
    let total = sum(&mut leaves.iter().map(|(_, bytes)| *bytes));
    let wide = leaves.iter().filter(|(leaf, _)| *leaf == wide);
    (total > 0.0).then(|| 100.0 * sum(&mut wide.map(|(_, bytes)| *bytes)) / total)
}

/// How much of the linear map is mapped at this moment by leaves as wide as at boot, in percent.
fn as_wide(row: &Row, moment: &str, at: usize) -> Option<f64> {
    let leaves = |moment: &str| -> Vec<(u64, f64)> {
        let leaves = row.figures.iter().filter_map(|(name, figure)| {
            let leaf = name.strip_prefix(moment)?.strip_prefix('.')?;
            Some((wideleaf_kit::size::parse(leaf).ok()?, figure.value(at)?))
        });
        leaves.collect()
    };
    let (boot, then) = (leaves("boot"), leaves(moment));
    let at_least = |leaves: &[(u64, f64)], limit| -> f64 {
        let wide = leaves.iter().filter(|(size, _)| *size >= limit);
        wide.map(|(_, bytes)| bytes).sum()
    };
    let lost = boot
        .iter()
        .map(|(size, _)| at_least(&boot, *size) - at_least(&then, *size));
    let (lost, all) = (lost.fold(0.0, f64::max), at_least(&boot, 0));
    (all > 0.0).then(|| 100.0 * (1.0 - lost / all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    fn row() -> Row {
        let figures = json!({
            "64K.cold.faults": count(8192, 256, 260),
            "64K.text.4K": count(512, 0, 256),
            "64K.text.2M": count(0, 512, 256),
            "scan.kernel_dtlb_walks": count(33_010, 15, 0),
            "scan.kernel_instructions": count(75_560_000, 75_560_000, 75_560_000),
            "none": count(0, 1, 1),
        });
        Row::of("r", &source(1, "exec", &figures).results, "", "").unwrap()
    }

    #[test]
    fn all_variants_of_a_figure_share_a_cell() {
        let faults = Cell::Each(&["*.cold.faults"], Show::Count);
        assert_eq!(faults.all(&row(), "64K"), "8192 / 256 / 260");
        assert_eq!(faults.all(&row(), "2M"), "");
        let thousands = Cell::Each(&["*.cold.faults"], Show::In(1e3, 1));
        assert_eq!(thousands.all(&row(), "64K"), "8.2 / 0.3 / 0.3");
    }

    #[test]
    fn two_variants_have_an_arrow_between() {
        let mut row = row();
        row.variants.pop();
        let faults = Cell::Each(&["64K.cold.faults"], Show::Count);
        assert_eq!(faults.all(&row, ""), "8192 → 256");
    }

    #[test]
    fn shares_follow_from_the_leaves() {
        let wide = Cell::Each(&["*.text.2M_percent"], Show::Percent(0));
        assert_eq!(wide.all(&row(), "64K"), "0 / 100 / 50 %");
        let mut narrow = row();
        narrow.figures.remove("64K.text.2M");
        assert_eq!(wide.all(&narrow, "64K"), "0 → 0 %");
        assert_eq!(wide.all(&row(), "128K"), "");
    }

    #[test]
    fn a_ratio_is_of_pristine_and_none_where_that_is_0() {
        assert_eq!(Cell::Ratio("*.cold.faults").all(&row(), "64K"), "0.03");
        assert_eq!(Cell::Share("*.cold.faults").all(&row(), "64K"), "3.17 %");
        assert_eq!(Cell::Ratio("none").all(&row(), ""), "-");
        assert_eq!(Cell::Ratio("missing").all(&row(), ""), "-");
    }

    #[test]
    fn walks_per_thousand_stand_beside_their_counts() {
        let cell = Cell::Each(
            &["*.kernel_dtlb_walks", "*.kernel_dtlb_walks_per_1000"],
            Show::Count,
        );
        assert_eq!(
            cell.all(&row(), "scan"),
            "33010, 0.437 / 15, 0.000 / 0, 0.000"
        );
    }

    #[test]
    fn a_map_is_as_wide_as_at_boot_or_less() {
        let figures = json!({
            "boot.2M": count(900, 900, 900), "boot.4K": count(100, 100, 100),
            "settled.2M": count(900, 700, 950), "settled.4K": count(100, 300, 50),
            "settled.splits": count(1, 1, 1),
        });
        let row = Row::of("r", &source(1, "linear-map", &figures).results, "", "").unwrap();
        let wide = Cell::Each(&["settled.as_wide_percent"], Show::Percent(3));
        assert_eq!(wide.all(&row, ""), "100.000 / 80.000 / 100.000 %");
    }

    #[test]
    fn instructions_by_page_follow_from_both() {
        let figures = json!({
            "disk.cut.instructions": count(1000, 500, 20), "disk.cut.pages": count(10, 10, 8),
        });
        let row = Row::of("r", &source(1, "shared-writes", &figures).results, "", "").unwrap();
        let each = Cell::Each(&["*.instructions_per_page"], Show::Count);
        assert_eq!(each.all(&row, "disk.cut"), "100 / 50 / 2");
    }

    #[test]
    fn three_digits_count() {
        for (value, text) in [
            (11.94, "11.9"),
            (9.256, "9.26"),
            (6.9, "6.9"),
            (9.996, "10"),
            (120.4, "120"),
            (0.0, "0"),
        ] {
            assert_eq!(three_digits(value), text);
        }
    }
}
