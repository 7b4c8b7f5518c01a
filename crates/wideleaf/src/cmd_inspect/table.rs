// SPDX-License-Identifier: GPL-2.0-only
//! The table, one row for each file, and the summary below it.

use crate::order::{Sign, split, turn};
use crate::stdout::printable_path;
use clap::ValueEnum;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::str::FromStr;
use wideleaf_elf::{Congruence, LEAF_2M, Verdict, fix, join};
use wideleaf_inspect::{Entry, Found, summary};
use wideleaf_kit::size::bytes as size;
use wideleaf_kit::size::short;
use wideleaf_kit::table::{Align, Table, left, right};

/// Columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Column {
    /// Bytes of text that 2M leaves could map in addition after a repair
    Gain,
    /// Bytes of text
    Text,
    /// Bytes of text that 2M leaves can map as the file is
    Usable,
    /// Whole 2M blocks in the deciding text segment, at its congruent place
    Blocks,
    /// Why the deciding text segment is, or is not, fit for wide leaves
    Cause,
    /// The widest leaf at which its address and offset are congruent
    Congruent,
    /// The largest p_align
    Align,
    /// Number of loadable segments
    Segments,
    /// The linker that made the file
    Linker,
    /// Executable, PIE, static PIE or library
    Kind,
    /// Instruction set
    Machine,
    /// The linker flags that remove the cause
    Fix,
    /// Bytes that align --merge would gain, with code and constants in one segment
    Merge,
    /// The file
    File,
}

/// Columns without -o.
pub const DEFAULT: [Column; 6] = [
    Column::Gain,
    Column::Text,
    Column::Usable,
    Column::Cause,
    Column::Linker,
    Column::File,
];

impl Column {
    fn heading(self) -> String {
        let value = self.to_possible_value().expect("no column is hidden");
        value.get_name().to_string()
    }

    fn is_size(self) -> bool {
        matches!(
            self,
            Column::Gain
                | Column::Text
                | Column::Usable
                | Column::Blocks
                | Column::Congruent
                | Column::Align
                | Column::Segments
                | Column::Merge
        )
    }

    /// The number behind a size column; `u64::MAX` stands for "any".
    fn number(self, entry: &Entry) -> u64 {
        let verdict = &entry.verdict;
        match self {
            Column::Gain => verdict.gain,
            Column::Text => verdict.text,
            Column::Usable => verdict.usable,
            Column::Blocks => verdict.main().map_or(0, |v| v.blocks[1]),
            Column::Congruent => match verdict.main().map(|v| v.congruent) {
                Some(Congruence::Any) => u64::MAX,
                Some(Congruence::Upto(widest)) => widest,
                None => 0,
            },
            Column::Align => entry.elf.max_align(),
            Column::Segments => entry.elf.segments.len() as u64,
            Column::Merge => join(&entry.elf, LEAF_2M).map_or(0, |join| join.gain),
            _ => 0,
        }
    }

    fn cell(self, entry: &Entry, bytes: bool) -> String {
        let main = entry.verdict.main();
        match self {
            Column::Gain | Column::Text | Column::Usable | Column::Align | Column::Merge => {
                size(self.number(entry), bytes)
            }
            Column::Blocks | Column::Segments => self.number(entry).to_string(),
            Column::Congruent => main.map_or("-".to_string(), |v| congruent(v.congruent, bytes)),
            Column::Cause => main.map_or("no text", |v| v.cause.label()).to_string(),
            Column::Linker => entry.elf.linker.to_string(),
            Column::Kind => entry.elf.kind.describe().to_string(),
            Column::Machine => entry.elf.machine.to_string(),
            Column::Fix => main.map_or("-".to_string(), |v| fix_cell(entry, v)),
            Column::File => printable_path(&entry.path),
        }
    }
}

/// The widest size at which a segment is congruent.
pub fn congruent(congruence: Congruence, bytes: bool) -> String {
    match congruence {
        Congruence::Any => "any".to_string(),
        Congruence::Upto(widest) if bytes => widest.to_string(),
        Congruence::Upto(widest) => short(widest),
    }
}

fn fix_cell(entry: &Entry, verdict: &Verdict) -> String {
    let Some(fix) = fix(&entry.elf, verdict) else {
        return "-".to_string();
    };
    match &fix.flags[..] {
        [(_, flags)] => flags.clone(),
        _ => "depends on the linker".to_string(),
    }
}

/// Columns of `--sort`.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    sign: Sign,
    column: Column,
}

impl Default for Sort {
    fn default() -> Self {
        Sort {
            sign: Sign::Natural,
            column: Column::Gain,
        }
    }
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sign, name) = split(text);
        let column = Column::from_str(name, true).map_err(|_| {
            let names = Column::value_variants().iter().map(|c| c.heading());
            let names: Vec<String> = names.collect();
            format!("no column {name:?}; there are {}", names.join(", "))
        })?;
        Ok(Sort { sign, column })
    }
}

/// Sorts by a column; what compares equal by gain, text and name.
pub fn sort(entries: &mut [Entry], by: Sort, reverse: bool) {
    let key = |entry: &Entry| (Reverse(entry.verdict.gain), Reverse(entry.verdict.text));
    let Sort { sign, column } = by;
    entries.sort_by(|a, b| {
        let order = match column.is_size() {
            true => column.number(a).cmp(&column.number(b)),
            false => column.cell(a, true).cmp(&column.cell(b, true)),
        };
        turn(order, sign, column.is_size(), reverse)
            .then_with(|| key(a).cmp(&key(b)))
            .then_with(|| a.path.cmp(&b.path))
    });
}

/// Writes the rows.
pub fn write(
    out: &mut impl Write,
    entries: &[&Entry],
    columns: &[Column],
    bytes: bool,
    headings: bool,
) -> io::Result<()> {
    let align = |column: &Column| match column.is_size() {
        true => Align::Right,
        false => Align::Left,
    };
    let heads = columns.iter().map(|c| align(c).column(c.heading()));
    let mut table = Table::new(heads);
    for entry in entries {
        table.row(columns.iter().map(|c| c.cell(entry, bytes)));
    }
    out.write_all(table.render(headings).as_bytes())
}

/// Writes the summary; `listed` files were shown above it.
pub fn write_summary(
    out: &mut impl Write,
    found: &Found,
    listed: usize,
    bytes: bool,
) -> io::Result<()> {
    let sum = summary(found);
    let size = |value| size(value, bytes);
    writeln!(
        out,
        "{} programs and libraries with {} of text: 2M leaves can map {} of it as the files are, {} more after a repair",
        sum.files,
        size(sum.text),
        size(sum.usable),
        size(sum.gain)
    )?;
    let mut causes: Vec<_> = sum.causes.iter().collect();
    causes.sort_by_key(|(cause, share)| (Reverse(share.gain), Reverse(share.text), **cause));
    let amount = |width| right("").at_least(width);
    let columns = [
        left("").at_least(14),
        amount(6),
        left(""),
        amount(8),
        left(""),
        amount(8),
        left(""),
    ];
    let mut table = Table::new(columns).indent("  ");
    for (cause, share) in causes {
        table.row([
            cause.label(),
            &share.files.to_string(),
            "files",
            &size(share.text),
            "of text",
            &size(share.gain),
            "to gain",
        ]);
    }
    out.write_all(table.render(false).as_bytes())?;
    let hidden = found.entries.len() - listed;
    if hidden > 0 {
        writeln!(
            out,
            "not listed: {hidden} files with nothing to gain (--all lists them)"
        )?;
    }
    if sum.not_loadable + sum.same > 0 {
        writeln!(
            out,
            "passed over: {} ELF files that no loader loads (objects, debug files), {} further names of files already counted",
            sum.not_loadable, sum.same
        )?;
    }
    if sum.errors > 0 {
        writeln!(out, "could not be read: {}", sum.errors)?;
    }
    Ok(())
}
