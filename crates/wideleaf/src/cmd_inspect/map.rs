// SPDX-License-Identifier: GPL-2.0-only
//! The picture in the terminal: a row for the segments, one for each leaf size.

use super::picture::{Axis, State, runs};
use std::io::{Result, Write};
use wideleaf_elf::Segment;
use wideleaf_inspect::Entry;
use wideleaf_kit::size::bytes as size;
use wideleaf_kit::size::short;

const LABEL: usize = 10;

/// Draws a file on lines of at most `width` columns.
pub fn write(out: &mut impl Write, entry: &Entry, width: usize) -> Result<()> {
    let Some(axis) = Axis::new(&entry.elf.segments) else {
        return writeln!(out, "  nothing to draw: no segment has a size");
    };
    let room = width - LABEL - 1;
    row(out, "segments", &segments(entry, &axis, room))?;
    for leaf in entry.elf.machine.leaves() {
        row(out, &short(*leaf), &leaves(entry, &axis, *leaf, room))?;
    }
    writeln!(
        out,
        "{:LABEL$} a column is {}; code █  constants ▒  data ░  hole cut short ┊  whole blocks: usable ■  wasted □",
        "",
        size(axis.bytes(1.0 / room as f64), false)
    )
}

fn row(out: &mut impl Write, label: &str, cells: &[char]) -> Result<()> {
    let cells: String = cells.iter().collect();
    writeln!(out, "{label:>LABEL$} {}", cells.trim_end())
}

/// Columns that lie, with most of their width, in a part of the axis; a part
/// narrower than a column gets the one it starts in.
fn columns(from: f64, to: f64, room: usize) -> std::ops::Range<usize> {
    let at = |position: f64| (position * room as f64).round() as usize;
    let start = at(from).min(room - 1);
    start..at(to).clamp(start + 1, room)
}

fn segments(entry: &Entry, axis: &Axis, room: usize) -> Vec<char> {
    let mut cells = vec![' '; room];
    for (from, to) in axis.cuts() {
        cells[columns(from, to, room)].fill('┊');
    }
    for segment in entry.elf.segments.iter().filter(|s| s.memory_size > 0) {
        let from = axis.position(segment.address);
        let to = axis.position(segment.address + segment.memory_size);
        cells[columns(from, to, room)].fill(shade(segment));
    }
    cells
}

fn shade(segment: &Segment) -> char {
    match (segment.write, segment.execute) {
        (true, _) => '░',
        (false, true) => '█',
        (false, false) => '▒',
    }
}

fn leaves(entry: &Entry, axis: &Axis, leaf: u64, room: usize) -> Vec<char> {
    let mut cells = vec![' '; room];
    for run in runs(entry, leaf) {
        let mark = match run.state {
            State::Usable => '■',
            State::Wasted => '□',
        };
        let range = columns(axis.position(run.start), axis.position(run.end), room);
        cells[range].fill(mark);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn every_part_has_a_column_inside_the_line() {
        assert_eq!(columns(0.0, 1.0, 80), 0..80);
        assert_eq!(columns(0.5, 0.5, 80), 40..41);
        assert_eq!(columns(1.0, 1.0, 80), 79..80);
        assert_eq!(columns(0.25, 0.75, 4), 1..3);
    }
}
