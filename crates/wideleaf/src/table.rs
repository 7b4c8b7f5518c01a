// SPDX-License-Identifier: GPL-2.0-only
//! Tables that pipe well: aligned columns, no frames, one line a row.

use wideleaf_procmap::printable;

/// A table of text.
pub struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Which side a column's cells are aligned to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Names and paths.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    /// A table with these columns.
    pub fn new(headings: Vec<(String, Align)>) -> Self {
        Self {
            headings,
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column. What would control a terminal
    /// or break the line is written out.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.headings.len());
        self.rows.push(cells.iter().map(|c| printable(c)).collect());
    }

    /// The text; without the line of headings if asked for.
    pub fn render(&self, headings: bool) -> String {
        let titles: Vec<String> = self.headings.iter().map(|h| h.0.clone()).collect();
        let head = headings.then_some(&titles);
        let lines = || head.into_iter().chain(&self.rows);
        let widths: Vec<usize> = (0..titles.len())
            .map(|i| lines().map(|l| l[i].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let mut out = String::new();
            for ((cell, width), (_, align)) in line.iter().zip(&widths).zip(&self.headings) {
                if !out.is_empty() {
                    out.push(' ');
                }
                match align {
                    Align::Left => out.push_str(&format!("{cell:<width$}")),
                    Align::Right => out.push_str(&format!("{cell:>width$}")),
                }
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Bytes as lsblk writes them (`16.5M`), or as they are. Rounded, because these are amounts;
/// the sizes of leaves are names, for which [`wideleaf_size::short`] keeps every digit.
pub fn bytes(value: u64, exact: bool) -> String {
    if exact || value == 0 {
        return value.to_string();
    }
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let mut unit = 0;
    let mut scaled = value as f64;
    while scaled >= 1023.95 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let text = format!("{scaled:.1}");
    format!(
        "{}{}",
        text.strip_suffix(".0").unwrap_or(&text),
        units[unit]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_lines_end_clean() {
        let mut table = Table::new(vec![
            ("PID".into(), Align::Right),
            ("NAME".into(), Align::Left),
        ]);
        table.row(vec!["7".into(), "a b".into()]);
        table.row(vec!["12345".into(), "c".into()]);
        assert_eq!(table.render(true), "  PID NAME\n    7 a b\n12345 c\n");
        assert_eq!(table.render(false), "    7 a b\n12345 c\n");
    }

    #[test]
    fn bytes_for_people_and_for_programs() {
        assert_eq!(bytes(0, false), "0");
        assert_eq!(bytes(4096, false), "4K");
        assert_eq!(bytes(17_301_504, false), "16.5M");
        assert_eq!(bytes((1 << 20) - 1, false), "1M");
        assert_eq!(bytes(17_301_504, true), "17301504");
    }
}
