// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf collapse`: wide leaves for the text of processes that run.

use crate::columns::{self, Column, Line};
use crate::procset::{Choice, Image, MachineArgs, Machinery, Pressure};
use crate::screen::Late;
use crate::stdout::{tell, write_json, write_out};
use crate::usage::misuse;
use anyhow::{Context, Result};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Mutex;
use wideleaf_collapse::{Budget, Left, Need, Source, Target, act, again, need, targets};
use wideleaf_kit::events::Event;
use wideleaf_kit::size::bytes;
use wideleaf_kit::size::{parse, short};
use wideleaf_kit::table::{Table, left, right};
use wideleaf_procmap::{Coverage, Process};

/// Arguments of `wideleaf collapse`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Each whole 2M block of text that no PMD maps yet is asked for by
process_madvise(MADV_COLLAPSE): the kernel copies it into one folio and maps
that by one leaf, in every process that is named. Content and addresses stay,
so that perf maps of just-in-time compilers do, too. Memory that is reserved for
code to come is not populated.
It takes one block at a time, and rests after each for as long as that took. It
leaves a block alone if the kernel would have to reclaim memory for it, in the
machine or in the process's control group.

How much memory that takes is told first; --dry-run does nothing else. Blocks
that are left as they are come with the reason, by range.

Collapsing another process takes CAP_SYS_NICE and the right to read it: run as root.
`wideleaf doctor` tells on which file systems the kernel collapses text.

Exit status: 0 all blocks are wide now; 1 nothing matched, or an error; 2 usage;
3 some blocks were left.

Examples:
  wideleaf collapse --dry-run --name postgres
  wideleaf collapse --limit 256M $(pidof mysqld)
  wideleaf collapse --name java
  wideleaf collapse --cgroup /system.slice/nginx.service --json
  wideleaf collapse --pod shop/web-0 --container app")]
pub struct Args {
    /// Processes
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    image: Image,
    /// Take no more memory than this for new folios [default: a quarter of what
    /// is free in whole blocks]
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    limit: Option<u64>,
    /// Have the kernel reclaim page cache and compact memory for it, too: nothing is free in
    /// whole blocks where page cache fills the machine
    #[arg(long)]
    reclaim: bool,
    /// Only tell what would be done and what it would take
    #[arg(long)]
    dry_run: bool,
    /// Bytes as plain numbers
    #[arg(short, long)]
    bytes: bool,
    /// No lines of headings
    #[arg(short, long)]
    noheadings: bool,
    /// Print JSON (docs/tool/collapse.md has the schema)
    #[arg(short = 'J', long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Some blocks were left.
const LEFT: u8 = 3;

/// Runs `wideleaf collapse`.
pub fn run(args: Args) -> Result<ExitCode> {
    let image = args.image.image.as_deref();
    if args.pids.is_empty() && !args.choice.any() && image.is_none() {
        misuse!(
            "nothing is named to collapse: name process numbers, --name, --cgroup, --pod, \
             --container or --image"
        );
    }
    let mut machine = args.machine.machinery()?;
    let named = !args.pids.is_empty();
    let pids = named.then_some(args.pids.as_slice());
    let (mut targets, seen) = targets(&mut machine, pids, &args.choice.select(image)?)?;
    for pid in seen.vanished.iter().filter(|_| named) {
        tell!("wideleaf: collapse: {pid}: no such process");
    }
    for note in machine.losses(&seen) {
        tell!("wideleaf: collapse: {note}");
    }
    if targets.is_empty() {
        tell!(
            "wideleaf: collapse: {}",
            args.choice.unmatched(image, &seen)
        );
        return Ok(ExitCode::FAILURE);
    }
    let source = Source {
        proc: args.machine.proc.clone(),
        page: machine.page,
        pmd: machine.pmd,
        reclaim: args.reclaim,
    };
    let free = source.bytes().with_context(|| {
        format!(
            "cannot tell how much memory is free, from {}",
            args.machine.proc.display()
        )
    })?;
    let limit = args.limit.unwrap_or(free / 4);
    let need = need(&targets, machine.pmd);
    announce(&args, &machine, need, free, limit);
    let mut budget = Budget::new(limit, source);
    if !args.dry_run {
        collapse(&mut targets, &mut budget);
    }
    let after = match args.dry_run {
        true => Vec::new(),
        false => again(&mut machine, &targets)?,
    };
    let outcome = Outcome {
        need,
        free,
        limit,
        taken: budget.taken,
        targets: &targets,
        after: &after,
    };
    match args.json {
        true => write_json(&document(&args, &machine, &outcome))?,
        false => write_out(&tables(&args, &machine, &outcome))?,
    }
    let mut stretches = targets.iter().flat_map(|target| &target.left);
    let left = stretches.any(|left| !left.why.is_harmless());
    let missed = seen.vanished.len() + seen.denied.len() + seen.failed.len();
    let unread = missed > 0 && named;
    Ok(match () {
        () if unread => ExitCode::FAILURE,
        () if left && !args.dry_run => ExitCode::from(LEFT),
        () => ExitCode::SUCCESS,
    })
}

/// Asks for all blocks, and says how far that is where it takes long.
fn collapse(targets: &mut [Target], budget: &mut Budget) {
    let late = Mutex::new(Late::new());
    act(targets, budget, &|event: Event<'_>| {
        if let (Event::Progress { done, total }, Ok(mut late)) = (event, late.lock()) {
            late.show(|| format!("{done} of {} blocks", total.unwrap_or(done)));
        }
    });
}

/// The memory that it takes, before anything is done.
fn announce(args: &Args, machine: &Machinery, need: Need, free: u64, limit: u64) {
    let size = |n| bytes(n, args.bytes);
    tell!(
        "wideleaf: collapse: {} blocks of {} to ask for: {} of memory in new folios, at most {} more than now; \
         {} {}, limit {}",
        need.blocks,
        short(machine.pmd),
        size(need.take),
        size(need.more),
        Source::counts(args.reclaim),
        size(free),
        size(limit)
    );
}

/// Findings and results.
struct Outcome<'a> {
    need: Need,
    free: u64,
    limit: u64,
    taken: u64,
    targets: &'a [Target],
    after: &'a [Process],
}

impl Outcome<'_> {
    fn after(&self, pid: u32) -> Option<&Process> {
        self.after.iter().find(|p| p.pid == pid)
    }
}

/// Where the column is that says when.
const WHEN: usize = 2;

/// Each process before and after, then what was left and why.
fn tables(args: &Args, machine: &Machinery, outcome: &Outcome) -> String {
    let leaves = machine.leaves();
    let columns: Vec<_> = [&columns::PID, &columns::NAME, &columns::TEXT]
        .map(Column::Of)
        .into_iter()
        .chain(leaves.iter().map(|leaf| Column::Leaf(*leaf)))
        .chain([&columns::ABSENT, &columns::NEED].map(Column::Of))
        .collect();
    let mut headings: Vec<_> = columns.iter().map(|column| column.heading()).collect();
    headings.insert(WHEN, left("WHEN"));
    let mut table = Table::new(headings);
    for target in outcome.targets {
        let mut row = |when: &str, process: &Process| {
            table.row(cells(args, machine, &columns, when, process));
        };
        row("before", &target.before);
        if let Some(process) = outcome.after(target.before.pid) {
            row("after", process);
        }
    }
    let mut text = table.render(!args.noheadings);
    let not_done: Vec<_> = outcome
        .targets
        .iter()
        .flat_map(|t| t.left.iter().map(move |left| (t.before.pid, left)))
        .collect();
    if not_done.is_empty() {
        return text;
    }
    let mut table = Table::new([
        right("PID"),
        left("ADDRESS"),
        right("SIZE"),
        left("REASON"),
        left("FILE"),
    ]);
    let mut meanings = Vec::new();
    for (pid, left) in not_done {
        table.row([
            pid.to_string(),
            format!("{:012x}-{:012x}", left.start, left.end),
            bytes(left.end - left.start, args.bytes),
            left.why.name(),
            left.name.clone(),
        ]);
        let meaning = format!("{}: {}\n", left.why.name(), left.why.meaning());
        if !meanings.contains(&meaning) {
            meanings.push(meaning);
        }
    }
    text.push('\n');
    text += &table.render(!args.noheadings);
    if !args.noheadings {
        text += &meanings.concat();
    }
    text
}

fn cells(
    args: &Args,
    machine: &Machinery,
    columns: &[Column],
    when: &str,
    process: &Process,
) -> Vec<String> {
    let line = Line {
        pid: process.pid,
        name: &process.name,
        cgroup: &process.cgroup,
        container: None,
        sight: process.sight,
        coverage: &process.total,
        pressure: &machine.pressure(&process.total),
        mapping: None,
        made: None,
        page: machine.page,
        pmd: machine.pmd,
    };
    let cells = columns.iter().map(|column| column.cell(&line, args.bytes));
    let mut cells: Vec<_> = cells.collect();
    cells.insert(WHEN, when.to_owned());
    cells
}

/// The JSON document; docs/tool/collapse.md describes it.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    dry_run: bool,
    page_size: u64,
    pmd_size: u64,
    need: NeedOut,
    free: u64,
    limit: u64,
    taken: u64,
    processes: Vec<ProcessOut<'a>>,
}

#[derive(Serialize)]
struct NeedOut {
    blocks: u64,
    bytes: u64,
    more_than_now: u64,
}

#[derive(Serialize)]
struct ProcessOut<'a> {
    pid: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<&'a str>,
    before: State<'a>,
    after: Option<State<'a>>,
    left: Vec<LeftOut<'a>>,
}

#[derive(Serialize)]
struct State<'a> {
    #[serde(flatten)]
    coverage: &'a Coverage,
    tlb: Pressure,
}

#[derive(Serialize)]
struct LeftOut<'a> {
    start: u64,
    end: u64,
    reason: String,
    meaning: &'static str,
    name: &'a str,
}

fn document<'a>(args: &Args, machine: &Machinery, outcome: &'a Outcome) -> Document<'a> {
    let state = |process: &'a Process| State {
        coverage: &process.total,
        tlb: machine.pressure(&process.total),
    };
    let left = |left: &'a Left| LeftOut {
        start: left.start,
        end: left.end,
        reason: left.why.name(),
        meaning: left.why.meaning(),
        name: &left.name,
    };
    let process = |target: &'a Target| ProcessOut {
        pid: target.before.pid,
        name: &target.before.name,
        name_bytes: target.before.name_bytes.as_deref(),
        before: state(&target.before),
        after: outcome.after(target.before.pid).map(state),
        left: target.left.iter().map(left).collect(),
    };
    Document {
        schema: "wideleaf-collapse-1",
        dry_run: args.dry_run,
        page_size: machine.page,
        pmd_size: machine.pmd,
        need: NeedOut {
            blocks: outcome.need.blocks,
            bytes: outcome.need.take,
            more_than_now: outcome.need.more,
        },
        free: outcome.free,
        limit: outcome.limit,
        taken: outcome.taken,
        processes: outcome.targets.iter().map(process).collect(),
    }
}
