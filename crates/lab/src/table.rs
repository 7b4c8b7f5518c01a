// SPDX-License-Identifier: GPL-2.0-only
//! The side-by-side table.
//!
//! Plain text, at least two blanks between columns: `awk -F'  +'` takes it apart. It is
//! 100 columns wide at most, as long as its words allow that.

use crate::compare::widest_spread;
use crate::job::{AnyJob, Look};
use crate::referee;
use crate::results::Comparison;
use crate::results::row::Row;
use crate::sweep;
use anyhow::Result;
use std::fmt::Write;
use wideleaf_kbuild::Variant;
use wideleaf_kit::table::{Table, left, right};

/// A terminal has this many columns, and a mail.
const COLUMNS: usize = 100;

/// How numbers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Three significant ones with a prefix; `=` for a change that repeated runs have too.
    Three,
    /// All of them, and all changes.
    All,
}

/// The table of a comparison, with its title, ending in a newline.
///
/// # Errors
///
/// If the comparison is none of this job.
pub fn render(job: &dyn AnyJob, comparison: &Comparison, digits: Digits) -> Result<String> {
    let look = job.look(comparison)?;
    let mut out = title(look.as_ref(), comparison) + "\n";
    let rows: Vec<Row> = look
        .rows()
        .into_iter()
        .map(|row| shown(row, digits))
        .collect();
    out += &layout(&comparison.variants(), &rows);
    for note in notes(job, look.as_ref(), comparison) {
        let _ = writeln!(out, "{}", fill(&note));
    }
    out += &sweep::render(comparison);
    Ok(out)
}

/// A note in lines of at most [`COLUMNS`], but for longer words.
fn fill(note: &str) -> String {
    let (indent, words) = note.split_at(note.len() - note.trim_start().len());
    let further = format!("{indent}  ");
    let options = textwrap::Options::new(COLUMNS)
        .initial_indent(indent)
        .subsequent_indent(&further)
        .break_words(false);
    textwrap::fill(words, options)
}

/// The table's title: what was measured, on which machine.
pub fn title(look: &dyn Look, comparison: &Comparison) -> String {
    let Comparison {
        arch, page_size, ..
    } = comparison;
    let release = comparison
        .runs
        .first()
        .map(|run| run.guest.release.as_str());
    let release = release.unwrap_or(comparison.base.name());
    let mut title = look.title();
    let _ = write!(title, " {arch}, {page_size} pages, Linux {release}");
    if let Some(config) = &comparison.common.config {
        let _ = write!(title, ", configuration {config}");
    }
    if let Some(profile) = &comparison.profile {
        let _ = write!(title, ", model {}", profile.name);
    }
    title
}

/// The row with its numbers as they are shown.
fn shown(row: Row, digits: Digits) -> Row {
    if digits == Digits::All {
        return row;
    }
    let change = if row.is_noise { "=".into() } else { row.change };
    Row {
        cells: row.rounded.clone(),
        change,
        ..row
    }
}

fn layout(variants: &[Variant], rows: &[Row]) -> String {
    let changes = rows.iter().any(|row| !row.change.is_empty());
    let heads = heads(rows);
    let mut titles: Vec<String> = variants.iter().map(ToString::to_string).collect();
    if changes {
        titles.push("change".into());
    }
    let mut table = Table::new([left("")].into_iter().chain(titles.into_iter().map(right)))
        .indent("  ")
        .gap("  ");
    let limit = limit(rows, &heads, variants.len(), changes);
    for (row, head) in rows.iter().zip(heads) {
        let mut cells: Vec<_> = row.cells.iter().map(|cell| lines(cell, limit)).collect();
        if changes {
            cells.push(vec![row.change.clone()]);
        }
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let head = if line == 0 { &head[..] } else { "" };
            let cell = |cell: &Vec<String>| cell.get(line).cloned().unwrap_or_default();
            table.row([head.into()].into_iter().chain(cells.iter().map(cell)));
        }
    }
    table.render(true)
}

/// What stands before the cells of each row: its section where it begins, and its label.
fn heads(rows: &[Row]) -> Vec<String> {
    let parted = rows.iter().filter(|row| !row.label.is_empty());
    let sections = parted.map(|row| row.section.chars().count());
    let width = sections.max().unwrap_or(0);
    let mut last = "";
    let mut heads = Vec::new();
    for Row { section, label, .. } in rows {
        let shown = if section == last { "" } else { section };
        last = section;
        heads.push(match label.as_str() {
            "" => shown.to_string(),
            label => format!("{shown:width$}  {label}"),
        });
    }
    heads
}

/// How wide a cell may be that can be broken. Columns of numbers keep their width.
fn limit(rows: &[Row], heads: &[String], variants: usize, changes: bool) -> usize {
    const GAP: usize = 2;
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let head = widest(&mut heads.iter().map(|head| head.chars().count()));
    let change = match changes {
        true => GAP + widest(&mut rows.iter().map(|row| row.change.len())).max("change".len()),
        false => 0,
    };
    let room = COLUMNS.saturating_sub(GAP + head + change);
    (room / variants.max(1)).saturating_sub(GAP)
}

/// A cell's lines: it is broken where it lists things, and nowhere else.
fn lines(cell: &str, limit: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in cell.split_inclusive([',', ';']) {
        let last = lines
            .last_mut()
            .unwrap_or_else(|| unreachable!("there is one"));
        match last.chars().count() + part.trim_end().chars().count() {
            width if width > limit && !last.is_empty() => lines.push(part.trim_start().into()),
            _ => last.push_str(part),
        }
    }
    lines
}

/// What a reader must know about the figures.
pub fn notes(job: &dyn AnyJob, look: &dyn Look, comparison: &Comparison) -> Vec<String> {
    let mut notes = look.notes();
    if let Some((name, spread)) = widest_spread(job, comparison) {
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
    notes.extend(referee::lines(comparison));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::conclude;
    use crate::sample::{Calls, comparison};

    #[test]
    fn the_table_as_a_whole() {
        let text = render(&Calls, &comparison(1000, 100), Digits::All).unwrap();
        let expected = "\
calls: arm64, 64K pages, Linux 6.12.117, model neoverse-v2
                                            pristine  patched  change
  cold    faults (minor/major)                   3/4      3/4      0%
          guest instructions                    1500      600  -60.0%
  random  page walks                               -        -
  guests  time under emulation (not speed)    2.50 s   2.50 s
  4 calls
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn three_digits_and_what_is_noise() {
        let text = render(&Calls, &comparison(123_456, 123_400), Digits::Three).unwrap();
        assert!(text.contains("  124k     124k       =\n"), "\n{text}");
        let text = render(&Calls, &comparison(123_456, 100), Digits::Three).unwrap();
        assert!(text.contains("  124k      600  -99.52%\n"), "\n{text}");
        assert!(text.contains("3/4      3/4        =\n"), "\n{text}");
    }

    #[test]
    fn a_long_note_is_broken_where_the_table_ends() {
        let note = format!(
            "  referee: patched: 0 found in 1 write; {}",
            "word ".repeat(20).trim()
        );
        let lines: Vec<_> = fill(&note).lines().map(String::from).collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= COLUMNS),
            "{lines:?}"
        );
        assert!(
            lines.len() == 2 && lines[1].starts_with("    word"),
            "{lines:?}"
        );
        let path = format!("  {}", "x".repeat(120));
        assert_eq!(fill(&path), path);
        assert_eq!(fill("  short"), "  short");
    }

    #[test]
    fn lists_are_broken_and_words_are_not() {
        let row = |label: &str, cell: &str| Row::words("openssl", label, vec![cell.into(); 3]);
        let variants = [Variant::Pristine, Variant::Reads, Variant::Patched];
        let rows = [row(
            "text of libcrypto.so.3",
            "2M 73%, 64K 20%, 4K 7%; aligned 2M",
        )];
        let expected = "
                                            pristine              reads            patched
  openssl  text of libcrypto.so.3   2M 73%, 64K 20%,   2M 73%, 64K 20%,   2M 73%, 64K 20%,
                                   4K 7%; aligned 2M  4K 7%; aligned 2M  4K 7%; aligned 2M
";
        assert_eq!(layout(&variants, &rows), expected[1..]);
        let word = "a-word-that-is-longer-than-its-column-may-be";
        assert!(layout(&variants, &[row("", word)]).contains(word));
    }

    #[test]
    fn one_variant_alone() {
        let mut comparison = comparison(1000, 100);
        comparison.runs.remove(1);
        comparison.kernels.remove(1);
        let comparison = conclude(&Calls, comparison).unwrap();
        let text = render(&Calls, &comparison, Digits::Three).unwrap();
        assert!(text.contains("  1500\n"), "\n{text}");
        assert!(
            !text.contains("patched") && !text.contains("change"),
            "\n{text}"
        );
    }

    #[test]
    fn warnings_are_told() {
        let mut comparison = comparison(1000, 100);
        comparison.runs[1].warnings.push("walk failed".into());
        let text = render(&Calls, &comparison, Digits::Three).unwrap();
        assert!(text.contains("warning: patched: walk failed"), "{text}");
    }

    #[test]
    fn what_another_job_found_is_an_error() {
        let mut comparison = comparison(1000, 100);
        comparison.runs[0].outcome = serde_json::json!({ "suites": [] });
        let error = format!(
            "{:#}",
            render(&Calls, &comparison, Digits::Three).unwrap_err()
        );
        assert!(error.contains("nothing that this job finds"), "{error}");
    }
}
