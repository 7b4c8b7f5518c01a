// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf policy explain`: one decision, with what led to it.

use super::leaf_table::{LeafTableArgs, bytes};
use crate::stdout::{name, printable_path, write_json, write_out};
use crate::usage::misuse;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;
use wideleaf_elf::{Elf, FileSource, Kind};
use wideleaf_kit::size::short;
use wideleaf_kit::table::{left, right};
use wideleaf_policy::{
    Account, Advice, Align, AlignAnswer, Ground, Read, ReadAnswer, Segment, Table, Thp, Tried,
    align, align_elf, read,
};

/// Arguments of `wideleaf policy explain`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf policy explain --arch arm64 --page-size 64K --size 37M --offset 0x1000
  wideleaf policy explain --size 128M --fault 4M --run 2M
  wideleaf policy explain --size 128M --spare 1M --window 32K
  wideleaf policy explain --arch arm64 --elf /usr/bin/gdb
  wideleaf policy explain --size 1M --json")]
pub struct Args {
    #[command(flatten)]
    machine: LeafTableArgs,
    /// Length of the mapping
    #[arg(long, value_parser = bytes, value_name = "SIZE", required_unless_present = "elf")]
    size: Option<u64>,
    /// File offset of the mapping
    #[arg(long, value_parser = bytes, value_name = "OFFSET", default_value = "0")]
    offset: u64,
    /// Address of the mapping [default: one that its alignment allows]
    #[arg(long, value_parser = bytes, value_name = "ADDRESS")]
    address: Option<u64>,
    /// Alignment of the load bias of this ELF file, by its PT_LOAD segments
    #[arg(long, value_name = "PATH", conflicts_with_all = ["size", "offset", "address"])]
    elf: Option<PathBuf>,
    /// Size of the file [default: as much as is mapped]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    file_size: Option<u64>,
    /// Largest folio that the page cache takes for the file
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "2M")]
    max_folio: u64,
    /// Transparent huge pages: never, madvise or always
    #[arg(long, default_value = "madvise", value_parser = ["never", "madvise", "always"])]
    thp: String,
    /// The runtime switch is off
    #[arg(long)]
    off: bool,
    /// Address space to place the mapping in
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "128T")]
    space: u64,
    #[command(flatten, next_help_heading = "The fault")]
    fault: Fault,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Fault {
    /// Where in the mapping
    #[arg(long, value_parser = bytes, value_name = "OFFSET", default_value = "0")]
    fault: u64,
    /// Readahead window
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "128K")]
    window: u64,
    /// Memory that may be taken before anybody has to reclaim
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "1G")]
    spare: u64,
    /// Missing from the page cache before the fault [default: 0 with --run, else all]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    hole: Option<u64>,
    /// Resident before that
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "0")]
    run: u64,
    /// Missing from the fault on [default: all]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    gap: Option<u64>,
    /// Size of the previous read, which ended where the hole begins
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "0")]
    last: u64,
    /// Resident in the 2M block around the fault, which may be collapsed
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    filled: Option<u64>,
    /// The faulting page was in memory before and had to go
    #[arg(long)]
    evicted: bool,
    /// Advice of the program on its text, by madvise()
    #[arg(long, value_name = "ADVICE", value_parser = ["none", "random", "sequential"],
          default_value = "none")]
    advice: String,
    /// Speculative bytes not yet proven useful
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "0")]
    debt: u64,
    /// Misses without neighbours, less those with
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    lonely: u16,
}

/// Runs `wideleaf policy explain`.
pub fn run(args: &Args) -> Result<ExitCode> {
    let table = args.machine.table()?;
    match &args.elf {
        Some(path) => explain_elf(args, table, path)?,
        None => explain_mapping(args, table)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn ground(args: &Args, table: Table, file_size: u64) -> Ground {
    let pages = (args.max_folio >> table.page_shift()).max(1);
    Ground {
        table,
        file_size: args.file_size.unwrap_or(file_size),
        min_order: 0,
        max_order: pages.ilog2() as u8,
        thp: match args.thp.as_str() {
            "never" => Thp::Never,
            "madvise" => Thp::Madvise,
            _ => Thp::Always,
        },
        enabled: !args.off,
    }
}

fn explain_mapping(args: &Args, table: Table) -> Result<()> {
    let page = 1u64 << table.page_shift();
    // As mmap() and the ELF loader do: whole pages, outwards.
    let offset = args.offset & !(page - 1);
    let end = args
        .offset
        .checked_add(args.size.unwrap_or(0))
        .and_then(|end| end.checked_next_multiple_of(page));
    let Some(end) = end.filter(|end| *end > offset) else {
        misuse!("--size and --offset: no page of a file lies in that range");
    };
    let length = end - offset;
    if args.fault.fault >= length {
        misuse!(
            "--fault {} is not inside the mapping of {}",
            short(args.fault.fault),
            short(length)
        );
    }

    let query = Align {
        ground: ground(args, table, end),
        offset,
        length,
        space: args.space,
    };
    let place = align(&query);
    let address = args
        .address
        .unwrap_or_else(|| example_address(&place, offset));
    let Some(stop) = address.checked_add(length) else {
        misuse!(
            "--address {address:#x}: the mapping of {} leaves the address space",
            short(length)
        );
    };
    let query = fault(args, query, address, stop)?;
    let folios = read(&query);

    if args.json {
        let text = json!({
            "machine": machine_json(table),
            "mapping": { "address": address, "offset": offset, "length": length },
            "alignment": align_json(&place, table),
            "read": read_json(&folios, table),
        });
        return write_json(&text);
    }
    let example = match args.address {
        Some(_) => "",
        None => " (for example)",
    };
    write_out(&format!(
        "machine    {}\nmapping    {} from file offset {offset:#x} at {address:#x}{example}\n\n{}\n{}",
        machine_text(table),
        short(length),
        align_text(&place, table),
        read_text(&folios, &query, table)
    ))
}

/// An address that the alignment allows, below the usual stack of a 48-bit
/// address space and congruent to nothing wider by chance.
fn example_address(place: &AlignAnswer, offset: u64) -> u64 {
    let unit = 1u64 << place.shift;
    0x7f00_0000_0000 + unit + (offset & (unit - 1))
}

fn fault(args: &Args, align: Align, start: u64, end: u64) -> Result<Read> {
    let at = &args.fault;
    let all_before = align.offset + (at.fault & !((1 << align.ground.table.page_shift()) - 1));
    let hole = at.hole.unwrap_or(if at.run == 0 { all_before } else { 0 });
    let debt = u16::try_from(at.debt >> 12)
        .with_context(|| format!("--debt {}: more than the policy can owe", short(at.debt)))?;
    Ok(Read {
        ground: align.ground,
        start,
        end,
        offset: align.offset,
        fault: start + at.fault,
        window: at.window,
        spare: at.spare,
        hole,
        run: at.run,
        gap: at.gap.unwrap_or(u64::MAX),
        last_size: at.last,
        collapse: if at.filled.is_some() {
            wideleaf_policy::WIDEST_SHIFT
        } else {
            0
        },
        filled: at.filled.unwrap_or(0),
        evicted: at.evicted,
        advice: match at.advice.as_str() {
            "random" => Advice::Random,
            "sequential" => Advice::Sequential,
            _ => Advice::None,
        },
        account: Account {
            debt,
            lonely: at.lonely,
        },
    })
}

fn explain_elf(args: &Args, table: Table, path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let length = file
        .metadata()
        .with_context(|| format!("cannot stat {}", path.display()))?
        .len();
    let source =
        FileSource::new(file).with_context(|| format!("cannot read {}", path.display()))?;
    let elf = Elf::read(&source).with_context(|| path.display().to_string())?;
    let segments: Vec<Segment> = elf
        .segments
        .iter()
        .map(|segment| Segment {
            vaddr: segment.address,
            offset: segment.offset,
            filesz: segment.file_size,
            writable: segment.write,
        })
        .collect();
    let query = Align {
        ground: ground(args, table, length),
        offset: 0,
        length: elf.span(),
        space: args.space,
    };
    // A position-dependent program is where it was linked to: there is no
    // alignment to choose, only leaves that fit or do not.
    let fixed = elf.kind == Kind::PositionDependent;
    let place = (!fixed).then(|| align_elf(&query, &segments));
    let each: Vec<AlignAnswer> = segments
        .iter()
        .map(|segment| align_elf(&query, slice::from_ref(segment)))
        .collect();
    if args.json {
        let mut alignment = match &place {
            Some(place) => align_json(place, table),
            None => json!({ "bytes": null, "rule": FIXED, "tried": [] }),
        };
        alignment["segments"] = each
            .iter()
            .map(|answer| align_json(answer, table))
            .collect();
        let mut document = json!({ "machine": machine_json(table), "alignment": alignment });
        name(&mut document, "file", path);
        return write_json(&document);
    }
    let mut text = format!(
        "machine    {}\nfile       {}\n",
        machine_text(table),
        printable_path(path)
    );
    text += &match &place {
        Some(place) => format!(
            "alignment  {}, because {} ({})\n",
            short(1 << place.shift),
            place.rule.text(),
            place.rule.name()
        ),
        None => format!(
            "alignment  none to choose: the program is position-dependent and loaded at its linked\n\
             {:11}address; below, the widest leaf that can map each segment there\n",
            ""
        ),
    };
    for (segment, answer) in segments.iter().zip(&each) {
        let _ = write!(
            text,
            "\nsegment    {} at {:#x}, offset {:#x}: {}\n{}",
            short(segment.filesz),
            segment.vaddr,
            segment.offset,
            short(1 << answer.shift),
            tried_text(&answer.trace, table)
        );
    }
    write_out(&text)
}

/// What stands for the rule where nothing is decided.
const FIXED: &str = "position-dependent";

fn kind(table: Table, shift: u8) -> &'static str {
    table
        .leaves()
        .iter()
        .find(|leaf| leaf.shift == shift)
        .map_or("page", |leaf| leaf.kind)
}

fn machine_text(table: Table) -> String {
    let leaves: Vec<String> = table
        .leaves()
        .iter()
        .map(|leaf| format!("{} {}", short(1 << leaf.shift), leaf.kind))
        .collect();
    format!("{}, leaves of {}", table.arch(), leaves.join(", "))
}

fn tried_text(tried: &[Tried], table: Table) -> String {
    let last = tried.len().saturating_sub(1);
    let mut rows = wideleaf_kit::table::Table::new([
        right("").at_least(5),
        left("").at_least(8),
        left("").at_least(8),
        left("").at_least(14),
        left(""),
    ])
    .indent("  ");
    for (at, step) in tried.iter().enumerate() {
        rows.row([
            short(1 << step.shift).as_str(),
            kind(table, step.shift),
            if at == last { "taken" } else { "refused" },
            step.rule.name(),
            step.rule.text(),
        ]);
    }
    rows.render(false)
}

fn align_text(answer: &AlignAnswer, table: Table) -> String {
    let size = short(1 << answer.shift);
    format!(
        "alignment  {size}, because {} ({})\n{}",
        answer.rule.text(),
        answer.rule.name(),
        tried_text(&answer.trace, table)
    )
}

fn read_text(answer: &ReadAnswer, query: &Read, table: Table) -> String {
    let because = format!("because {} ({})", answer.rule.text(), answer.rule.name());
    let mut text = if answer.size == 0 {
        format!("read       as without the policy, {because}\n")
    } else {
        format!(
            "read       {} from file offset {:#x} in folios up to order {} ({}),\n           {because}\n",
            short(answer.size),
            answer.offset,
            answer.order,
            short(1 << (answer.order + table.page_shift())),
        )
    };
    text.push_str(&tried_text(&answer.trace, table));
    if answer.collapse != 0 {
        let _ = writeln!(
            text,
            "  then copy the block into one folio of {}",
            short(1 << answer.collapse)
        );
    }
    if answer.account != query.account {
        let _ = writeln!(
            text,
            "  remembered: debt {}, lonely {}",
            short(u64::from(answer.account.debt) << 12),
            answer.account.lonely
        );
    }
    text
}

fn machine_json(table: Table) -> Value {
    let leaves: Vec<Value> = table
        .leaves()
        .iter()
        .map(|leaf| json!({ "bytes": 1u64 << leaf.shift, "kind": leaf.kind }))
        .collect();
    json!({ "arch": table.arch(), "page_size": 1u64 << table.page_shift(), "leaves": leaves })
}

fn tried_json(tried: &[Tried], table: Table) -> Value {
    let last = tried.len().saturating_sub(1);
    tried
        .iter()
        .enumerate()
        .map(|(at, step)| {
            json!({
                "bytes": 1u64 << step.shift,
                "kind": kind(table, step.shift),
                "taken": at == last,
                "rule": step.rule,
                "because": step.rule.text(),
            })
        })
        .collect()
}

fn align_json(answer: &AlignAnswer, table: Table) -> Value {
    json!({
        "bytes": 1u64 << answer.shift,
        "rule": answer.rule,
        "tried": tried_json(&answer.trace, table),
    })
}

fn read_json(answer: &ReadAnswer, table: Table) -> Value {
    json!({
        "decided": answer.size != 0,
        "offset": answer.offset,
        "bytes": answer.size,
        "order": answer.order,
        "leaf": 1u64 << answer.leaf,
        "collapse": if answer.collapse == 0 { 0 } else { 1u64 << answer.collapse },
        "rule": answer.rule,
        "account": answer.account,
        "tried": tried_json(&answer.trace, table),
    })
}
