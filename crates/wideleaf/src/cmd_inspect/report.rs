// SPDX-License-Identifier: GPL-2.0-only
//! Everything about one file, for people.

use super::table::congruent;
use crate::stdout::printable_path;
use std::io::{Result, Write};
use wideleaf_collapse::{TextOfFiles, text_of_files};
use wideleaf_elf::{
    Cause, Class, Elf, Fix, LEAF_2M, LinkerName, Order, Placement, Verdict, explain, fix, join,
};
use wideleaf_inspect::{Entry, Staged};
use wideleaf_kit::size::bytes as size;
use wideleaf_kit::size::short;
use wideleaf_kit::table::{Table, left, right};
use wideleaf_outlook::{self as outlook, Covered, Outlook};

/// Columns of the terminal, 100 if there is none; at least what a table needs.
pub fn width() -> usize {
    let terminal = terminal_size::terminal_size();
    let columns = terminal.map(|(width, _)| usize::from(width.0));
    columns.unwrap_or(100).clamp(60, 200)
}

/// Writes the report. `pages` limits the kernels by their base page size in
/// bytes; empty means all.
pub fn write(out: &mut impl Write, entry: &Entry, bytes: bool, pages: &[u64]) -> Result<()> {
    let elf = &entry.elf;
    writeln!(out, "{}", printable_path(&entry.path))?;
    paragraph(out, "  ", &identity(elf))?;
    if let Some(staged) = staged(entry.staged) {
        paragraph(out, "  ", staged)?;
    }
    if elf.segments.is_empty() {
        return paragraph(out, "  ", not_loaded(elf));
    }
    writeln!(out)?;
    segments(out, entry, bytes)?;
    writeln!(out)?;
    text_verdict(out, entry, bytes)?;
    kernels(out, entry, pages)
}

fn identity(elf: &Elf) -> String {
    let class = match elf.class {
        Class::Bits32 => "32-bit",
        Class::Bits64 => "64-bit",
    };
    let order = match elf.order {
        Order::Little => "little-endian",
        Order::Big => "big-endian",
    };
    let mut text = format!("{}, {class}, {order}, {}", elf.machine, elf.kind.describe());
    if elf.segments.is_empty() {
        return text;
    }
    text += if elf.dynamic { ", dynamic" } else { "" };
    text += &format!("; linker: {}", elf.linker);
    text += if elf.sections.bolt { ", then BOLT" } else { "" };
    match &elf.sections {
        s if s.damaged.is_some() => {
            let why = s.damaged.as_deref().unwrap_or_default();
            text += &format!("; section headers damaged: {why}");
        }
        s if !s.present => text += "; no section headers",
        s if s.debug_info => text += "; with debug information",
        s if !s.symbols => text += "; stripped",
        _ => {}
    }
    text
}

fn staged(staged: Staged) -> Option<&'static str> {
    match staged {
        Staged::No => None,
        Staged::Original => Some(
            "staged: new processes get a copy of it on huge pages (wideleaf stage --list); this is \
             about the original",
        ),
        Staged::Copy => Some(
            "staged: new processes get a copy of it on huge pages (wideleaf stage --list), and this \
             is about the copy: only root can look at the original below it",
        ),
    }
}

fn not_loaded(elf: &Elf) -> &'static str {
    match elf.sections.debug_only {
        true => "holds the debug information of another file, none of its text: inspect that file",
        false => "has no loadable segments: nothing of it is mapped by a program loader",
    }
}

fn segments(out: &mut impl Write, entry: &Entry, bytes: bool) -> Result<()> {
    // Of widths that do for most files: those named together look alike.
    let mut table = Table::new([
        right("SEG"),
        left("FLAGS"),
        right("OFFSET").at_least(12),
        right("ADDRESS").at_least(18),
        right("SIZE").at_least(9),
        right("P_ALIGN").at_least(8),
        right("CONGRUENT").at_least(10),
        right("64K").at_least(6),
        right("2M").at_least(5),
        right("32M").at_least(4),
        left(" VERDICT"),
    ])
    .indent("  ");
    for verdict in &entry.verdict.segments {
        let segment = &entry.elf.segments[verdict.position];
        let [small, pmd, large] = verdict.blocks;
        table.row([
            segment.index.to_string(),
            segment.flags(),
            format!("{:#x}", segment.offset),
            format!("{:#x}", segment.address),
            size(segment.file_size, bytes),
            size(segment.align, bytes),
            congruent(verdict.congruent, bytes),
            small.to_string(),
            pmd.to_string(),
            large.to_string(),
            format!(" {}", verdict.cause.label()),
        ]);
    }
    out.write_all(table.render(true).as_bytes())?;
    paragraph(
        out,
        "  ",
        "64K, 2M, 32M: whole blocks of that size in the segment, usable if it is congruent at it",
    )
}

fn text_verdict(out: &mut impl Write, entry: &Entry, bytes: bool) -> Result<()> {
    let verdict = &entry.verdict;
    let size = |value| size(value, bytes);
    let Some(main) = verdict.main() else {
        return paragraph(
            out,
            "  ",
            "no text: no segment is executable and not writable",
        );
    };
    // Of changes to the file.
    let gain = match (verdict.usable, verdict.gain) {
        (0, 0) => "nothing to gain".to_string(),
        (_, 0) => "no need to change it".to_string(),
        (_, gain) => format!("{} to gain", size(gain)),
    };
    let sums = format!(
        "text {}: 2M leaves can map {} of it as the file is, {gain}",
        size(verdict.text),
        size(verdict.usable)
    );
    paragraph(out, "  ", &sums)?;
    let texts = verdict.segments.iter().filter(|v| {
        let worth = v.possible > v.usable || v.position == main.position;
        worth && entry.elf.segments[v.position].is_text()
    });
    for verdict in texts {
        let index = entry.elf.segments[verdict.position].index;
        let text = format!("segment {index}: {}", explain(&entry.elf, verdict));
        paragraph(out, "  ", &text)?;
        if matches!(verdict.cause, Cause::Good | Cause::GoodByMmap) {
            let text = "the file is not in the way; whether its text is mapped so, the kernel and \
                        the file system decide:";
            paragraph(out, "  ", text)?;
        }
        if let Some(fix) = fix(&entry.elf, verdict) {
            write_fix(out, &entry.elf, verdict, &fix, bytes)?;
        }
    }
    Ok(())
}

/// Whether code and constants in one segment are a remedy.
fn joins(verdict: &Verdict) -> bool {
    matches!(verdict.cause, Cause::Straddles | Cause::SeparateCode)
}

fn write_fix(
    out: &mut impl Write,
    elf: &Elf,
    verdict: &Verdict,
    fix: &Fix,
    bytes: bool,
) -> Result<()> {
    writeln!(out, "  fix:")?;
    let mut table = Table::new([left(""), left("").at_least(7), left("")]).indent("    ");
    for (name, flags) in &fix.flags {
        let how = match elf.linker.name {
            LinkerName::Go => "go build,",
            _ => "relink,",
        };
        table.row([how, &format!("{name}:"), flags]);
    }
    out.write_all(table.render(false).as_bytes())?;
    if let Some(join) = joins(verdict).then(|| join(elf, LEAF_2M)).flatten() {
        let text = format!(
            "or without relinking: wideleaf align --merge makes code and the constants beside it one \
             segment, in which 2M leaves can map {} with code; {} of constants can be executed then",
            size(join.gain, bytes),
            size(join.constants, bytes)
        );
        paragraph(out, "    ", &text)?;
    }
    if fix.align {
        let leaf = short(verdict.target);
        let (force, but) = match elf.headers_would_move(verdict.target) {
            true => (" --force", ", at the price that strip damages the file"),
            false => ("", ""),
        };
        let text = format!(
            "or without relinking: wideleaf align{force} makes the offsets congruent at {leaf} and raises p_align{but}"
        );
        paragraph(out, "    ", &text)?;
    }
    Ok(())
}

fn kernels(out: &mut impl Write, entry: &Entry, pages: &[u64]) -> Result<()> {
    let known = outlook::page_sizes(entry.elf.machine);
    let pages = known
        .iter()
        .filter(|p| pages.is_empty() || pages.contains(p));
    let rows: Vec<Outlook> = pages
        .flat_map(|page| outlook::outlook(&entry.elf, entry.size, *page))
        .collect();
    writeln!(out)?;
    if rows.is_empty() {
        let text = format!(
            "kernels: no prediction, the policy has no leaves for {} files of this class and page size",
            entry.elf.machine
        );
        return paragraph(out, "  ", &text);
    }
    let all: Vec<u64> = rows.iter().map(|row| row.page).collect();
    if let Some((mut sizes, why)) = entry.elf.not_loadable_with(&all) {
        sizes.dedup();
        let sizes: Vec<String> = sizes.into_iter().map(short).collect();
        let text = format!("not loadable with {} pages: {why}", sizes.join(" and "));
        paragraph(out, "  ", &text)?;
    }
    if entry.verdict.text == 0 || rows.iter().all(|row| row.not_loadable.is_some()) {
        return Ok(());
    }
    let mut table = Table::new([
        left("PAGES"),
        left("KERNEL"),
        left("LOADED AT").at_least(21),
        left("TEXT MAPPED BY").at_least(25),
        left("WITH LARGE FOLIOS FROM ELSEWHERE"),
    ])
    .indent("  ");
    for row in rows.iter().filter(|row| row.not_loadable.is_none()) {
        let text = row.segments.iter().zip(&entry.elf.segments);
        let text = text
            .filter(|(_, s)| s.is_text())
            .map(|(outlook, _)| outlook);
        let now = outlook::sum(text.clone().flat_map(|s| &s.coverage));
        let reachable = outlook::sum(text.flat_map(|s| &s.reachable));
        table.row([
            short(row.page),
            row.kernel.name().to_string(),
            placed(row.placement),
            coverage(&now),
            coverage(&reachable),
        ]);
    }
    out.write_all(table.render(true).as_bytes())?;
    paragraph(
        out,
        "  ",
        "for files on a file system with large folios, in dense use; elsewhere: a huge tmpfs, MADV_COLLAPSE, \
         khugepaged, readahead that has ramped up",
    )?;
    match text_of_files() {
        TextOfFiles::None => paragraph(
            out,
            "  ",
            "the kernel of this machine collapses no text of files, neither by MADV_COLLAPSE nor by \
             khugepaged: it was built without CONFIG_READ_ONLY_THP_FOR_FS",
        ),
        _ => Ok(()),
    }
}

/// `2M × 12, 4K × 700`
fn coverage(coverage: &[Covered]) -> String {
    let parts = coverage
        .iter()
        .map(|c| format!("{} × {}", short(c.leaf), c.bytes / c.leaf));
    parts.collect::<Vec<_>>().join(", ")
}

fn placed(placement: Placement) -> String {
    match placement {
        Placement::Fixed => "its linked address".to_string(),
        Placement::Aligned(size) | Placement::ByMmap(size) => {
            format!("a multiple of {}", short(size))
        }
        Placement::AnyPage(page) => format!("any {} page", short(page)),
    }
}

/// Writes a text, broken at spaces to the terminal's width.
fn paragraph(out: &mut impl Write, indent: &str, text: &str) -> Result<()> {
    let options = textwrap::Options::new(width())
        .initial_indent(indent)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    writeln!(out, "{}", textwrap::fill(text, options))
}
