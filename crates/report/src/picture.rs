// SPDX-License-Identifier: GPL-2.0-only
//! The same text with two kernels as SVG: a cell for each leaf that maps it, as large as what the
//! leaf maps. So a cell is what a TLB keeps in one entry.

use crate::compact::Row;
use anyhow::{Context, Result, ensure};
use maud::{Markup, PreEscaped, html};

/// Width of one kernel's text, in the units of the drawing; it is half as high or as high.
const WIDTH: f64 = 320.0;
/// Between the two, and around them.
const GAP: f64 = 20.0;
/// Height of the line above each.
const LINE: f64 = 24.0;

/// The colours of a page that is light or dark by the reader's wish.
const STYLE: &str = "text { font: 14px system-ui, sans-serif; fill: #1b1b1b } .narrow { fill: #0072b2 } \
    .wide { fill: #d55e00 } @media (prefers-color-scheme: dark) { text { fill: #e8e8e8 } \
    .narrow { fill: #56b4e9 } .wide { fill: #ff8a3c } }";

/// Leaves of one size, in bytes, and how many there are.
type Leaves = Vec<(u64, u64)>;

/// Draws the first and the last kernel's text of a row that has one mapping's coverage, as the job
/// `exec` has.
///
/// # Errors
///
/// If the row has no figures `text.<leaf>`, or nothing is mapped.
pub fn entries(row: &Row) -> Result<String> {
    let last = row.variants.len().saturating_sub(1);
    let kernels = [0, last].map(|at| (row.variants.get(at), leaves(row, at)));
    let sizes = kernels.iter().flat_map(|(_, leaves)| leaves).map(|l| l.0);
    let unit = sizes
        .min()
        .with_context(|| format!("{}: has no mapped text: no figures text.<leaf>", row.row))?;
    let units = |leaves: &Leaves| leaves.iter().map(|(size, n)| size / unit * n).sum::<u64>();
    let most = kernels.iter().map(|(_, leaves)| units(leaves)).max();
    let bits = most.unwrap_or(1).next_power_of_two().ilog2();
    ensure!(bits < 32, "{}: more text than can be drawn", row.row);
    let scale = WIDTH / f64::from(1u32 << bits.div_ceil(2));
    let height = f64::from(1u32 << (bits / 2)) * scale;
    let panels = kernels.iter().enumerate().map(|(n, (variant, leaves))| {
        let left = GAP + n as f64 * (WIDTH + GAP);
        let name = variant.map_or("", |name| name);
        panel(
            name,
            leaves,
            (left, GAP + LINE),
            (unit, scale),
            ["narrow", "wide"][n],
        )
    });
    let panels: Vec<_> = panels.collect();
    let (width, height) = (2.0 * WIDTH + 3.0 * GAP, height + LINE + 2.0 * GAP);
    let said = kernels
        .iter()
        .map(|(name, leaves)| said(name.map_or("", |name| name), leaves));
    let said = said.collect::<Vec<_>>().join("; ");
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) } role="img"
            aria-label=(said) {
            style { (PreEscaped(STYLE)) }
            @for panel in &panels { (panel) }
        }
    };
    Ok(drawing.into_string() + "\n")
}

/// Wide leaves first: so each begins where its size divides the place.
fn leaves(row: &Row, at: usize) -> Leaves {
    let of = |(name, figure): (&String, &crate::compact::Figure)| {
        let size = wideleaf_kit::size::parse(name.strip_prefix("text.")?).ok()?;
        let bytes = figure.value(at).filter(|bytes| *bytes > 0.0)? as u64;
        Some((size, bytes / size))
    };
    let mut leaves: Leaves = row.figures.iter().filter_map(of).collect();
    leaves.sort_unstable();
    leaves.reverse();
    leaves
}

/// `pristine: 8192 entries of 64K`.
fn said(variant: &str, leaves: &Leaves) -> String {
    let each = leaves.iter().map(|(size, n)| {
        let entries = if *n == 1 { "entry" } else { "entries" };
        format!("{n} {entries} of {}", wideleaf_kit::size::short(*size))
    });
    format!("{variant}: {}", each.collect::<Vec<_>>().join(", "))
}

/// Leaves lie in Z order, in which whatever is aligned is a rectangle. So leaves of one size are a
/// few rectangles, each filled with the pattern of one leaf.
fn panel(
    variant: &str,
    leaves: &Leaves,
    (left, top): (f64, f64),
    (unit, scale): (u64, f64),
    class: &str,
) -> Markup {
    let mut at = 0;
    let mut parts = Vec::new();
    for &(size, n) in leaves {
        let of_leaf = size / unit;
        let (wide, high) = extent(of_leaf.ilog2());
        let id = format!("{variant}-{}", wideleaf_kit::size::short(size));
        let (wide, high) = (wide * scale, high * scale);
        let line = (scale / 5.0).max(0.2);
        parts.push(html! {
            pattern id=(id) width=(wide) height=(high) patternUnits="userSpaceOnUse" {
                rect class=(class) width=(wide - line) height=(high - line) {}
            }
        });
        let end = at + of_leaf * n;
        while at < end {
            let left = (end - at).ilog2();
            let bits = if at == 0 {
                left
            } else {
                left.min(at.trailing_zeros())
            };
            let ((x, y), (wide, high)) = (place(at), extent(bits));
            parts.push(html! {
                rect fill={ "url(#" (id) ")" } x=(x * scale) y=(y * scale)
                    width=(wide * scale) height=(high * scale) {}
            });
            at += 1 << bits;
        }
    }
    html! {
        text x=(left) y=(top - 8.0) { (said(variant, leaves)) }
        g transform={ "translate(" (left) " " (top) ")" } { @for part in &parts { (part) } }
    }
}

/// Width and height of 2^bits units.
fn extent(bits: u32) -> (f64, f64) {
    (
        f64::from(1u32 << bits.div_ceil(2)),
        f64::from(1u32 << (bits / 2)),
    )
}

/// Column and row of a unit: its even and its odd bits.
fn place(unit: u64) -> (f64, f64) {
    let every_second = |first: u32| {
        let bits = (0..32).map(|n| ((unit >> (2 * n + first)) & 1) << n);
        bits.sum::<u64>() as f64
    };
    (every_second(0), every_second(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::Figure;
    use serde_json::Number;

    fn row(figures: &[(&str, [u64; 2])]) -> Row {
        let folder = std::path::Path::new("../../results");
        let mut row = Row::read(&folder.join("6.12-arm64-64K.exec.json")).unwrap();
        row.variants = vec!["pristine".into(), "patched".into()];
        let figure = |values: &[u64; 2]| Figure {
            unit: "bytes".into(),
            values: values.map(|value| Some(Number::from(value))).to_vec(),
            ..Figure::default()
        };
        row.figures = figures
            .iter()
            .map(|(name, values)| (name.to_string(), figure(values)))
            .collect();
        row
    }

    #[test]
    fn a_cell_is_as_large_as_what_its_leaf_maps() {
        let (k64, m2) = (64 << 10, 2 << 20);
        let svg = entries(&row(&[
            ("text.64K", [256 * m2, 3 * k64]),
            ("text.2M", [0, 255 * m2]),
            ("text.unmapped", [0, 29 * k64]),
        ]))
        .unwrap();
        assert!(svg.contains(">pristine: 8192 entries of 64K<"), "{svg}");
        assert!(
            svg.contains(">patched: 255 entries of 2M, 3 entries of 64K<"),
            "{svg}"
        );
        // 8192 leaves are 128 columns of 64; 2M is 8 by 4 of them.
        assert!(
            svg.contains("id=\"pristine-64K\" width=\"2.5\" height=\"2.5\""),
            "{svg}"
        );
        assert!(
            svg.contains("id=\"patched-2M\" width=\"20\" height=\"10\""),
            "{svg}"
        );
        let all = "fill=\"url(#pristine-64K)\" x=\"0\" y=\"0\" width=\"320\" height=\"160\"";
        assert!(svg.contains(all), "{svg}");
    }

    #[test]
    fn places_are_in_z_order() {
        let places: Vec<_> = (0..5).map(place).collect();
        let expected = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.0, 0.0)];
        assert_eq!(places, expected);
    }

    #[test]
    fn a_row_without_text_is_an_error() {
        let error = entries(&row(&[("cold.faults", [1, 2])])).unwrap_err();
        assert!(error.to_string().contains("text.<leaf>"), "{error}");
    }
}
