// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf ps`: which leaves map the text of running processes.

use crate::columns::{self, Column, Line, of_container};
use crate::made_text;
use crate::order::{Sign, split, turn};
use crate::procset::{Choice, Image, MachineArgs, Machinery, Pressure, Seen, containers, describe};
use crate::stdout::{tell, write_json, write_out};
use crate::usage::misuse;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use wideleaf_containers::{Container, Containers};
use wideleaf_cpu::Cpu;
use wideleaf_jit::{Account, account, is_made, made};
use wideleaf_kit::size::{bytes, short};
use wideleaf_kit::table::Table;
use wideleaf_procmap::{Coverage, Extent, Folios, Mapping, Process, Scope, Sight};

/// Arguments of `wideleaf ps`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Columns (-o): pid, name, cgroup, container, pod, image, text (bytes of executable mappings), jit
(bytes of these whose text was made at run time, as just-in-time compilers do), resident,
leaves (one column for each leaf size), unknown, absent (not resident), wide
(percent of resident text in leaves wider than a base page), need (TLB entries
to reach all of it), l1 and have (entries of the first and the last TLB level),
l1load and load (percent of them), sight (what could be seen: full, pmd, maps);
with -m also address, offset, perms, file.

`?` marks what cannot be told without root. `<=` marks an upper bound where root
would see the exact figure.

Exit status: 0 all that was asked for is shown; 1 nothing matched, or a process
given by its number could not be read (the others are shown); 2 usage.

Examples:
  wideleaf ps --sort text
  wideleaf ps -m $(pidof node)
  wideleaf ps -o +jit --explain $(pidof java)
  wideleaf ps --cgroup /system.slice/nginx.service --json
  wideleaf ps --pod shop/web-0 -o +container,image")]
pub struct Args {
    /// Processes to show [default: all]
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// All processes, also those without text (kernel threads)
    #[arg(short, long, conflicts_with = "pids")]
    all: bool,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    image: Image,
    /// A line for each mapping
    #[arg(short, long)]
    mappings: bool,
    /// Count all mappings, not only text
    #[arg(long)]
    data: bool,
    /// Columns to show, separated by commas; + in front adds to the usual ones
    #[arg(short, long, value_name = "LIST", allow_hyphen_values = true)]
    output: Option<String>,
    /// Sort by this column: amounts from large to small, all else from small
    /// to large; + in front: ascending, -: descending
    #[arg(
        long,
        value_name = "COLUMN",
        default_value = "need",
        allow_hyphen_values = true
    )]
    sort: String,
    /// Turn the order of the table round
    #[arg(long)]
    reverse: bool,
    /// Bytes as plain numbers
    #[arg(short, long)]
    bytes: bool,
    /// No line of headings
    #[arg(short, long)]
    noheadings: bool,
    /// Print JSON (docs/tool/ps.md has the schema)
    #[arg(short = 'J', long)]
    json: bool,
    /// First say which CPU is counted for, and why so; at the end, how wide text is that a process
    /// has made at run time, why not wider, and which switch of its runtime changes that
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

const USUAL: &str = "pid,name,text,leaves,absent,need,have,load";
const USUAL_MAPPINGS: &str = "pid,address,perms,text,leaves,absent,need,file";

/// A line of the table: a process, or one of its mappings.
struct Row<'a> {
    process: &'a Process,
    container: Option<Container>,
    mapping: Option<&'a Mapping>,
    coverage: &'a Coverage,
    pressure: Pressure,
    made: u64,
    account: Option<&'a Account>,
    /// Base page size in bytes.
    page: u64,
    /// Bytes that a PMD maps.
    pmd: u64,
}

impl Row<'_> {
    fn line(&self) -> Line<'_> {
        Line {
            pid: self.process.pid,
            name: &self.process.name,
            cgroup: &self.process.cgroup,
            container: self.container.as_ref(),
            sight: self.process.sight,
            coverage: self.coverage,
            pressure: &self.pressure,
            mapping: self.mapping,
            made: Some(self.made),
            page: self.page,
            pmd: self.pmd,
        }
    }
}

/// Runs `wideleaf ps`.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut machine = args.machine.machinery()?;
    let leaves = machine.leaves();
    let columns = columns(&args, &leaves)?;
    let sort = sort_key(&args.sort, &leaves)?;
    let (seen, processes) = collect(&args, &mut machine)?;
    let shown = processes.iter().filter(|read| {
        let process = &read.process;
        args.all || !args.pids.is_empty() || !process.mappings.is_empty() || process.total.size > 0
    });
    // JSON nests the mappings in their process.
    let nested = args.json || !args.mappings;
    let asked = columns
        .iter()
        .chain([&sort.1])
        .any(|column| of_container(*column));
    let known = (asked || args.json).then(containers);
    for error in known.iter().flat_map(|known| &known.errors) {
        tell!("wideleaf: ps: {error}");
    }
    let rows_of = |read| rows_of(read, !nested, &machine, known.as_ref());
    let mut rows: Vec<Row> = shown.flat_map(rows_of).collect();
    // Stable: what compares equal stays in order of process and address.
    rows.sort_by(|a, b| {
        let (sign, column) = sort;
        turn(
            column.compare(&a.line(), &b.line()),
            sign,
            column.is_amount(),
            args.reverse,
        )
    });
    if args.json {
        write_json(&document(&args, &machine, &seen, &rows))?;
    } else {
        let mut out = String::new();
        if args.explain {
            out.push_str(&describe(&machine));
            out.push_str("\n\n");
        }
        out.push_str(&render(&args, columns, &rows));
        for account in processes.iter().filter_map(|read| read.account.as_ref()) {
            out.push('\n');
            let text = made_text::report(account, machine.pmd, WIDTH, args.bytes);
            out.push_str(&text);
        }
        for note in machine.losses(&seen) {
            tell!("wideleaf: ps: {note}");
        }
        write_out(&out)?;
        hint(&args, &processes);
    }
    Ok(status(&args, &seen))
}

/// Columns of an explanation.
const WIDTH: usize = 100;

/// A process, as it was read.
struct Read {
    process: Process,
    /// Bytes of its text that were made at run time.
    made: u64,
    /// About these, with --explain.
    account: Option<Account>,
}

/// Says of processes that were named where the rest is.
fn hint(args: &Args, processes: &[Read]) {
    if args.explain || args.pids.is_empty() {
        return;
    }
    for read in processes.iter().filter(|read| read.made > 0) {
        let (pid, made) = (read.process.pid, bytes(read.made, args.bytes));
        tell!(
            "wideleaf: ps: {pid}: {made} of its text was made at run time: wideleaf inspect --pid {pid} \
             explains how wide it is"
        );
    }
}

fn collect(args: &Args, machine: &mut Machinery) -> Result<(Seen, Vec<Read>)> {
    let scope = if args.data { Scope::All } else { Scope::Text };
    let select = args.choice.select(args.image.image.as_deref())?;
    let pids = (!args.pids.is_empty()).then_some(args.pids.as_slice());
    let mut processes = Vec::new();
    let pmd = machine.pmd;
    let mut take = |mut process: Process, leaves: &[Extent]| {
        let proc = &args.machine.proc;
        let explain = || account(proc, "/sys".as_ref(), &process, leaves, pmd);
        let account = args.explain.then(explain).flatten();
        let made = made(&process);
        if !args.mappings {
            // Thousands of processes with hundreds of mappings each.
            process.mappings = Vec::new();
        }
        processes.push(Read {
            process,
            made,
            account,
        });
    };
    let seen = match args.explain {
        true => machine.pass_with_leaves(pids, scope, &select, |p, leaves| take(p, &leaves)),
        false => machine.pass(pids, scope, &select, |process| take(process, &[])),
    }?;
    Ok((seen, processes))
}

fn status(args: &Args, seen: &Seen) -> ExitCode {
    let strict = !args.pids.is_empty();
    let unread = strict && !(seen.vanished.is_empty() && seen.denied.is_empty());
    for pid in seen.vanished.iter().filter(|_| strict) {
        tell!("wideleaf: ps: {pid}: no such process");
    }
    let image = args.image.image.as_deref();
    let chosen = args.choice.any() || image.is_some();
    if seen.processes == 0 && (chosen || !strict) {
        tell!("wideleaf: ps: {}", args.choice.unmatched(image, seen));
    }
    if unread || seen.processes == 0 || !seen.failed.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn rows_of<'a>(
    read: &'a Read,
    mappings: bool,
    machine: &Machinery,
    known: Option<&Containers>,
) -> Vec<Row<'a>> {
    let process = &read.process;
    let container = known.and_then(|known| known.of(&process.cgroup));
    let row = |mapping: Option<&'a Mapping>, coverage: &'a Coverage| Row {
        process,
        container: container.clone(),
        mapping,
        coverage,
        pressure: machine.pressure(coverage),
        made: match mapping {
            Some(mapping) if is_made(&mapping.vma) => mapping.vma.len(),
            Some(_) => 0,
            None => read.made,
        },
        account: read.account.as_ref(),
        page: machine.page,
        pmd: machine.pmd,
    };
    if mappings {
        process
            .mappings
            .iter()
            .map(|m| row(Some(m), &m.coverage))
            .collect()
    } else {
        vec![row(None, &process.total)]
    }
}

fn columns(args: &Args, leaves: &[u64]) -> Result<Vec<Column>> {
    let usual = if args.mappings { USUAL_MAPPINGS } else { USUAL };
    let list = match args.output.as_deref() {
        None => usual.to_owned(),
        Some(more) if more.starts_with('+') => format!("{usual},{}", &more[1..]),
        Some(list) => list.to_owned(),
    };
    let mut columns = Vec::new();
    for name in list.split(',') {
        if name == "leaves" {
            columns.extend(leaves.iter().map(|s| Column::Leaf(*s)));
        } else {
            columns.push(column(name, leaves)?);
        }
    }
    Ok(columns)
}

fn column(name: &str, leaves: &[u64]) -> Result<Column> {
    let name = name.trim().to_ascii_lowercase();
    if let Some(definition) = columns::ALL.iter().find(|column| column.name == name) {
        return Ok(Column::Of(definition));
    }
    if let Some(leaf) = leaves
        .iter()
        .find(|s| short(**s).eq_ignore_ascii_case(&name))
    {
        return Ok(Column::Leaf(*leaf));
    }
    let known: Vec<&str> = columns::ALL.iter().map(|column| column.name).collect();
    let sizes: Vec<String> = leaves.iter().map(|s| short(*s)).collect();
    misuse!(
        "no column {name:?}; there are {}, leaves, {}",
        known.join(", "),
        sizes.join(", ")
    )
}

fn sort_key(text: &str, leaves: &[u64]) -> Result<(Sign, Column)> {
    let (sign, name) = split(text);
    Ok((sign, column(name, leaves)?))
}

fn render(args: &Args, mut columns: Vec<Column>, rows: &[Row]) -> String {
    // hugetlb has leaves of its own sizes; they get a column where they occur.
    let known: BTreeSet<u64> = columns
        .iter()
        .filter_map(|c| {
            if let Column::Leaf(s) = c {
                Some(*s)
            } else {
                None
            }
        })
        .collect();
    let extra: BTreeSet<u64> = rows
        .iter()
        .flat_map(|r| r.coverage.leaves.keys().copied())
        .filter(|s| !known.contains(s))
        .collect();
    if args.output.is_none()
        && let Some(at) = columns.iter().position(|c| matches!(c, Column::Leaf(_)))
    {
        columns.splice(at..at, extra.into_iter().rev().map(Column::Leaf));
    }
    let mut table = Table::new(columns.iter().map(|c| c.heading()));
    for row in rows {
        let line = row.line();
        table.row(columns.iter().map(|c| c.cell(&line, args.bytes)));
    }
    table.render(!args.noheadings)
}

/// The JSON document; docs/tool/ps.md describes it.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    scope: &'static str,
    page_size: u64,
    pmd_size: u64,
    pmd_source: &'static str,
    cpu: &'a Cpu,
    processes: Vec<ProcessOut<'a>>,
    summary: &'a Seen,
    losses: Vec<String>,
}

#[derive(Serialize)]
struct ProcessOut<'a> {
    pid: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<&'a str>,
    cgroup: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup_bytes: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a Container>,
    sight: Sight,
    #[serde(flatten)]
    total: &'a Coverage,
    folios: &'a Folios,
    /// Bytes of text that were made at run time.
    made: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    jit: Option<&'a Account>,
    tlb: &'a Pressure,
    #[serde(skip_serializing_if = "Option::is_none")]
    mappings: Option<Vec<MappingOut<'a>>>,
}

#[derive(Serialize)]
struct MappingOut<'a> {
    #[serde(flatten)]
    mapping: &'a Mapping,
    tlb: Pressure,
}

fn document<'a>(
    args: &Args,
    machine: &'a Machinery,
    seen: &'a Seen,
    rows: &'a [Row],
) -> Document<'a> {
    let mapping = |m: &'a Mapping| MappingOut {
        mapping: m,
        tlb: machine.pressure(&m.coverage),
    };
    let process = |row: &'a Row| ProcessOut {
        pid: row.process.pid,
        name: &row.process.name,
        name_bytes: row.process.name_bytes.as_deref(),
        cgroup: &row.process.cgroup,
        cgroup_bytes: row.process.cgroup_bytes.as_deref(),
        container: row.container.as_ref(),
        sight: row.process.sight,
        total: row.coverage,
        folios: &row.process.folios,
        made: row.made,
        jit: row.account,
        tlb: &row.pressure,
        mappings: args
            .mappings
            .then(|| row.process.mappings.iter().map(mapping).collect()),
    };
    Document {
        schema: "wideleaf-ps-1",
        scope: if args.data { "all" } else { "text" },
        page_size: machine.page,
        pmd_size: machine.pmd,
        pmd_source: if machine.reader.scans() {
            "pagemap_scan"
        } else {
            "smaps"
        },
        cpu: &machine.cpu,
        processes: rows.iter().map(process).collect(),
        summary: seen,
        losses: machine.losses(seen),
    }
}
