// SPDX-License-Identifier: GPL-2.0-only
//! Tables that pipe well: aligned columns, no frames, one line a row.

use crate::names::printable;

/// A column's heading, and how its cells are set.
#[derive(Clone, Debug)]
pub struct Heading {
    title: String,
    align: Align,
    width: usize,
}

/// Which side a column's cells are aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names and paths.
    Left,
    /// Numbers.
    Right,
}

impl Align {
    /// A column of this side with this title.
    pub fn column(self, title: impl Into<String>) -> Heading {
        Heading {
            title: title.into(),
            align: self,
            width: 0,
        }
    }
}

/// A column of names or paths.
pub fn left(title: impl Into<String>) -> Heading {
    Align::Left.column(title)
}

/// A column of numbers.
pub fn right(title: impl Into<String>) -> Heading {
    Align::Right.column(title)
}

impl Heading {
    /// At least this wide, so that tables which follow each other look alike.
    #[must_use]
    pub fn at_least(self, width: usize) -> Self {
        Self { width, ..self }
    }
}

/// A table of text.
pub struct Table {
    headings: Vec<Heading>,
    rows: Vec<Vec<String>>,
    indent: &'static str,
    gap: &'static str,
}

impl Table {
    /// A table with these columns.
    pub fn new(headings: impl IntoIterator<Item = Heading>) -> Self {
        Self {
            headings: headings.into_iter().collect(),
            rows: Vec::new(),
            indent: "",
            gap: " ",
        }
    }

    /// With this before each line.
    #[must_use]
    pub fn indent(self, indent: &'static str) -> Self {
        Self { indent, ..self }
    }

    /// With this between columns, in the place of a blank.
    #[must_use]
    pub fn gap(self, gap: &'static str) -> Self {
        Self { gap, ..self }
    }

    /// Adds a row with a cell for each column. What would control a terminal
    /// or break the line is written out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let cells: Vec<_> = cells.into_iter().map(|c| printable(c.as_ref())).collect();
        debug_assert_eq!(cells.len(), self.headings.len());
        self.rows.push(cells);
    }

    /// The text; without the line of headings if asked for.
    pub fn render(&self, headings: bool) -> String {
        let titles: Vec<String> = self.headings.iter().map(|h| h.title.clone()).collect();
        let head = headings.then_some(&titles);
        let lines = || head.into_iter().chain(&self.rows);
        let width = |(i, heading): (usize, &Heading)| {
            let cells = lines().map(|line| line[i].chars().count());
            cells.max().unwrap_or(0).max(heading.width)
        };
        let widths: Vec<usize> = self.headings.iter().enumerate().map(width).collect();
        lines().map(|line| self.line(line, &widths)).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let columns = cells.iter().zip(widths).zip(&self.headings);
        let set = columns.map(|((cell, width), heading)| match heading.align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        let set: Vec<_> = set.collect();
        let text = format!("{}{}", self.indent, set.join(self.gap));
        format!("{}\n", text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_lines_end_clean() {
        let mut table = Table::new([right("PID"), left("NAME")]);
        table.row(["7", "a b"]);
        table.row(["12345", "c"]);
        assert_eq!(table.render(true), "  PID NAME\n    7 a b\n12345 c\n");
        assert_eq!(table.render(false), "    7 a b\n12345 c\n");
    }

    #[test]
    fn indent_gap_and_least_width() {
        let mut table = Table::new([left("A"), right("B").at_least(4)])
            .indent("  ")
            .gap("  ");
        table.row(["long", "1"]);
        assert_eq!(table.render(true), "  A        B\n  long     1\n");
    }

    #[test]
    fn what_would_control_a_terminal_is_written_out() {
        let mut table = Table::new([left("NAME")]);
        table.row(["a\x1b[2J\nb"]);
        assert_eq!(table.render(false), "a\\x1b[2J\\x0ab\n");
    }
}
