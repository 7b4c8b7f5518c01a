// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf fill`: the page cache holds the text of files as they are in folios of a leaf's size.

use crate::procset::{Choice, Machinery, Seen};
use crate::screen::Late;
use crate::stdout::{name, printable_path, tell, write_json, write_out};
use crate::usage::misuse;
use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;
use wideleaf_collapse::Source;
use wideleaf_fill::{
    Budget, Filled, Geometry, ImageError, Left, Limits, Plan, Texts, act, look, of_processes,
};
use wideleaf_kit::events::Event;
use wideleaf_kit::size::{bytes, parse, short};
use wideleaf_kit::table::{Table, left, right};
use wideleaf_procmap::{Scope, Select};

/// Arguments of `wideleaf fill`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Each whole 2M block of the files' text is read into one folio of the page cache:
what is cached of it in smaller folios is dropped, then a fault in a mapping with
MADV_HUGEPAGE has the kernel read it anew. The files stay as they are. Processes
that map them afterwards have leaves of 2M, those in containers too. That lasts
until the kernel reclaims the folios. It works on ext4 (Linux 6.16), XFS, EROFS,
and overlays on ext4 and XFS; fill checks the result.

It drops only clean pages of the block that it reads next, and no page that
another process maps. So fill a program before it starts. Killed at any point, it
leaves at most one block less in the page cache than before.

The folios are charged to the memory control group of this command.

Exit status: 0 all blocks are wide; 1 nothing to fill, or an error; 2 usage; 3
some blocks are not (with --dry-run: could not be).

Examples:
  wideleaf fill /usr/bin/node
  wideleaf fill --libs --dry-run /usr/bin/postgres
  wideleaf fill --no-evict --limit 256M --time 10 /usr/lib/llvm-19/lib/*.so
  wideleaf fill --cgroup /system.slice/nginx.service --json
  wideleaf fill --image docker.io/library/node:22
  wideleaf fill --pod shop/web-0")]
pub struct Args {
    /// Programs or shared libraries
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The libraries that these programs load at their start, too
    #[arg(long)]
    libs: bool,
    /// The files that this process has mapped as text; may be repeated
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    #[command(flatten)]
    choice: Choice,
    /// The programs and libraries of this container image, of podman or docker; of another
    /// runtime's, what its containers have mapped
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Read only what is not cached, and drop nothing
    #[arg(long)]
    no_evict: bool,
    /// Take no more memory than this for new folios [default: a quarter of what
    /// is free in whole blocks]
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    limit: Option<u64>,
    /// Have the kernel reclaim page cache and compact memory for it, too: nothing is free in
    /// whole blocks where page cache fills the machine
    #[arg(long)]
    reclaim: bool,
    /// Read no more than this
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    read: Option<u64>,
    /// Read no more than this in a second
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,
    /// Begin no block after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = RangedU64ValueParser::<u64>::new().range(1..=86400))]
    time: Option<u64>,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Bytes as plain numbers
    #[arg(short, long)]
    bytes: bool,
    /// No lines of headings
    #[arg(short, long)]
    noheadings: bool,
    /// Print JSON (docs/tool/fill.md has the schema)
    #[arg(short = 'J', long)]
    json: bool,
}

/// Some blocks are not wide.
const LEFT: u8 = 3;

fn rate(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err(format!(
            "`{text}` would read nothing; write for example 50M"
        )),
        rate => Ok(rate),
    }
}

/// Runs `wideleaf fill`.
pub fn run(args: Args) -> Result<ExitCode> {
    let processes = !args.pid.is_empty() || args.choice.any();
    if args.files.is_empty() && !processes && args.image.is_none() {
        misuse!(
            "nothing is named to fill: name files, --pid, --name, --cgroup, --pod, --container or --image"
        );
    }
    if args.libs && args.files.is_empty() {
        misuse!("--libs takes the libraries of programs: name one");
    }
    let sizes = Geometry::here().context("cannot tell how folios are mapped")?;
    let (texts, mut wrong) = files(&args, processes, &sizes)?;
    for (path, why) in &texts.refused {
        tell!("wideleaf: fill: {}: {why}", printable_path(path));
        wrong = true;
    }
    let (some, none): (Vec<_>, Vec<_>) = texts
        .texts
        .into_iter()
        .partition(|text| !text.blocks.is_empty() || !text.odd.is_empty());
    if args.image.is_none() && !processes {
        for text in &none {
            tell!(
                "wideleaf: fill: {}: has no block of {} in its text",
                printable_path(&text.name),
                short(sizes.pmd)
            );
        }
    }
    if some.is_empty() && wrong && none.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if some.is_empty() {
        bail!(
            "nothing to fill: no text of these files holds a whole block of {}",
            short(sizes.pmd)
        );
    }
    let plans: Vec<Plan> = some.into_iter().map(|text| look(text, &sizes)).collect();
    let outcome = outcome(&args, plans, &sizes)?;
    match args.json {
        true => write_json(&document(&args, &sizes, &outcome))?,
        false => write_out(&tables(&args, &outcome, &sizes))?,
    }
    notes(&args, &outcome);
    Ok(match () {
        () if wrong => ExitCode::FAILURE,
        () if outcome.files.iter().any(|file| !file.left.is_empty()) => ExitCode::from(LEFT),
        () => ExitCode::SUCCESS,
    })
}

/// All files that are meant, and whether something that was asked for could not be looked at.
fn files(args: &Args, processes: bool, sizes: &Geometry) -> Result<(Texts, bool)> {
    let mut texts = Texts::default();
    let mut wrong = false;
    for program in &args.files {
        texts.read_program(program, args.libs, sizes);
    }
    if processes {
        let pids = (!args.pid.is_empty()).then_some(args.pid.as_slice());
        let seen = of_running(pids, &args.choice.select(None)?, sizes, &mut texts)?;
        if seen.processes == 0 {
            bail!("{}", args.choice.unmatched(None, &seen));
        }
        let missed = seen.vanished.len() + seen.denied.len() + seen.failed.len();
        wrong |= pids.is_some() && missed > 0;
    }
    if let Some(image) = &args.image {
        of_image(image, sizes, &mut texts).with_context(|| format!("--image {image}"))?;
    }
    Ok((texts, wrong))
}

/// The files of an image; of one whose layers nobody tells, what its containers have mapped.
fn of_image(image: &str, sizes: &Geometry, texts: &mut Texts) -> Result<()> {
    let Err(why) = texts.read_image(image, sizes) else {
        return Ok(());
    };
    match Choice::default().select(Some(image)) {
        Ok(running) => {
            tell!(
                "wideleaf: fill: {why}; the files that containers of {image} have mapped are filled"
            );
            let seen = of_running(None, &running, sizes, texts)?;
            if seen.processes == 0 {
                bail!("{}", Choice::default().unmatched(Some(image), &seen));
            }
            Ok(())
        }
        Err(_) => bail!("{why}{}", remedy(&why, image)),
    }
}

/// The remedy where podman or docker has said no, in its own words.
fn remedy(why: &ImageError, image: &str) -> String {
    let ImageError::Tool { tool, said } = why else {
        return String::new();
    };
    let first = match said.contains("Cannot connect") {
        true => "start the daemon".to_owned(),
        false => format!("get the image by `{tool} pull {image}`"),
    };
    format!("; {first}, or name the processes of its containers by --cgroup or --pid")
}

/// The files of processes, and what a pass over these came across.
fn of_running(
    pids: Option<&[u32]>,
    select: &Select,
    sizes: &Geometry,
    texts: &mut Texts,
) -> Result<Seen> {
    let mut machine = Machinery::new("/proc".as_ref(), None)?;
    let mut found = Vec::new();
    let seen = machine.pass(pids, Scope::Text, select, |process| {
        let vmas = process.mappings.iter().map(|mapping| &mapping.vma);
        found.push(of_processes(process.pid, vmas, sizes.pmd));
    })?;
    for pid in seen.vanished.iter().filter(|_| pids.is_some()) {
        tell!("wideleaf: fill: {pid}: no such process");
    }
    for refusal in seen.refusals.iter().chain(&seen.failed) {
        tell!("wideleaf: fill: {refusal}; run as root");
    }
    for (files, deleted) in found {
        texts.read(files, sizes.page, sizes.pmd);
        let deleted = deleted
            .into_iter()
            .map(|path| (path, wideleaf_fill::Error::Deleted));
        texts.refused.extend(deleted);
    }
    Ok(seen)
}

/// The findings and the outcome, in bytes.
struct Outcome {
    /// To be read, and of these dropped first.
    need: (u64, u64),
    free: u64,
    limit: u64,
    taken: u64,
    files: Vec<FileOutcome>,
}

struct FileOutcome {
    plan: Plan,
    before: u64,
    /// None with --dry-run.
    filled: Option<Filled>,
    left: Vec<Left>,
}

fn outcome(args: &Args, plans: Vec<Plan>, sizes: &Geometry) -> Result<Outcome> {
    let evict = !args.no_evict;
    let source = Source {
        proc: "/proc".into(),
        page: sizes.page,
        pmd: sizes.pmd,
        reclaim: args.reclaim,
    };
    let free = source
        .bytes()
        .context("cannot tell how much memory is free, from /proc")?;
    let limit = args.limit.unwrap_or(free / 4);
    let need = plans.iter().map(|plan| plan.need(sizes.pmd, evict));
    let need = need.fold((0, 0), |sum, need| (sum.0 + need.0, sum.1 + need.1));
    announce(args, sizes, need, free, limit);
    let mut budget = Budget::new(Limits {
        memory: limit,
        read: args.read,
        rate: args.rate,
        time: args.time.map(Duration::from_secs),
        evict,
        all_or_none: false,
        gently: true,
        reclaim: args.reclaim,
    });
    let filled = match args.dry_run {
        true => plans.iter().map(|_| None).collect(),
        false => filled(&plans, &mut budget, sizes),
    };
    let file = |(plan, filled): (Plan, Option<Filled>)| FileOutcome {
        before: plan.wide(sizes.pmd),
        left: match &filled {
            Some(filled) => filled.left.clone(),
            None => plan.would_stay(sizes.pmd, evict),
        },
        plan,
        filled,
    };
    Ok(Outcome {
        need,
        free,
        limit,
        taken: budget.taken,
        files: plans.into_iter().zip(filled).map(file).collect(),
    })
}

/// Reads all blocks, and says how far that is where it takes long.
fn filled(plans: &[Plan], budget: &mut Budget, sizes: &Geometry) -> Vec<Option<Filled>> {
    let late = Mutex::new(Late::new());
    let filled = act(plans, budget, sizes, &|event: Event<'_>| {
        if let (Event::Progress { done, total }, Ok(mut late)) = (event, late.lock()) {
            late.show(|| format!("{done} of {} blocks", total.unwrap_or(done)));
        }
    });
    filled.into_iter().map(Some).collect()
}

/// Says how much it takes, before anything is done.
fn announce(args: &Args, sizes: &Geometry, need: (u64, u64), free: u64, limit: u64) {
    let size = |n| bytes(n, args.bytes);
    tell!(
        "wideleaf: fill: {} blocks of {} to read, {}; cached in smaller folios, to be dropped first: {}; \
         {} {}, limit {}",
        need.0 / sizes.pmd,
        short(sizes.pmd),
        size(need.0),
        size(need.1),
        Source::counts(args.reclaim),
        size(free),
        size(limit)
    );
}

/// Each file, then what was left and why.
fn tables(args: &Args, outcome: &Outcome, sizes: &Geometry) -> String {
    let size = |n| bytes(n, args.bytes);
    let mut table = Table::new([
        right("TEXT"),
        right(format!("{}-TEXT", short(sizes.pmd))),
        right("BEFORE"),
        right("AFTER"),
        right("READ"),
        right("DROPPED"),
        left("FILE"),
    ]);
    for file in &outcome.files {
        let done = |of: fn(&Filled) -> u64| match &file.filled {
            Some(filled) => size(of(filled)),
            None => "-".to_owned(),
        };
        let text = &file.plan.text;
        table.row([
            size(text.size),
            size(text.blocks.len() as u64 * sizes.pmd),
            size(file.before),
            done(|f| f.wide),
            done(|f| f.read),
            done(|f| f.dropped),
            printable_path(&text.name),
        ]);
    }
    let mut text = table.render(!args.noheadings);
    let left = || {
        outcome
            .files
            .iter()
            .flat_map(|f| f.left.iter().map(move |l| (f, l)))
    };
    if left().next().is_some() {
        text.push('\n');
        text += &left_table(args, left());
    }
    text
}

fn left_table<'a>(args: &Args, all: impl Iterator<Item = (&'a FileOutcome, &'a Left)>) -> String {
    let mut table = Table::new([
        left("OFFSET"),
        right("SIZE"),
        left("REASON"),
        right("PAGES"),
        left("FILE"),
    ]);
    let mut meanings = Vec::new();
    for (file, left) in all {
        table.row([
            format!("{:08x}-{:08x}", left.start, left.end),
            bytes(left.end - left.start, args.bytes),
            left.why.name(),
            match left.bytes {
                0 => String::new(),
                some => bytes(some, args.bytes),
            },
            printable_path(&file.plan.text.name),
        ]);
        let meaning = format!("{}: {}\n", left.why.name(), left.why.meaning());
        if !meanings.contains(&meaning) {
            meanings.push(meaning);
        }
    }
    let text = table.render(!args.noheadings);
    match args.noheadings {
        true => text,
        false => text + &meanings.concat(),
    }
}

/// Says what the table does not show.
fn notes(args: &Args, outcome: &Outcome) {
    for file in &outcome.files {
        let text = &file.plan.text;
        let path = printable_path(&text.name);
        if let Some(filled) = &file.filled
            && filled.lost > 0
        {
            tell!(
                "wideleaf: fill: {path}: {} that were dropped are not cached again: processes that \
                 need them will read them",
                bytes(filled.lost, args.bytes)
            );
        }
        if text.at_any_page && !text.blocks.is_empty() {
            tell!(
                "wideleaf: fill: {path}: is loaded at any page ({} aligns no mapping of it), so that \
                 leaves fit by chance only; `wideleaf align` mends that",
                text.file_system
            );
        }
    }
}

/// The JSON document; docs/tool/fill.md describes it.
fn document(args: &Args, sizes: &Geometry, outcome: &Outcome) -> Value {
    json!({
        "schema": "wideleaf-fill-1",
        "dry_run": args.dry_run,
        "page_size": sizes.page,
        "pmd_size": sizes.pmd,
        "need": { "bytes": outcome.need.0, "dropped": outcome.need.1 },
        "free": outcome.free,
        "limit": outcome.limit,
        "taken": outcome.taken,
        "files": outcome.files.iter().map(|file| file_out(file, sizes)).collect::<Vec<_>>(),
    })
}

fn file_out(file: &FileOutcome, sizes: &Geometry) -> Value {
    let done = |of: fn(&Filled) -> u64| file.filled.as_ref().map(of);
    let text = &file.plan.text;
    let mut out = json!({
        "file_system": text.file_system,
        "text": text.size,
        "blocks": text.blocks.len() as u64 * sizes.pmd,
        "at_any_page": text.at_any_page,
        "before": file.before,
        "after": done(|f| f.wide),
        "read": done(|f| f.read),
        "dropped": done(|f| f.dropped),
        "lost": done(|f| f.lost),
        "left": file.left.iter().map(left_out).collect::<Vec<_>>(),
    });
    name(&mut out, "path", Path::new(&text.name));
    out
}

fn left_out(left: &Left) -> Value {
    json!({
        "start": left.start,
        "end": left.end,
        "reason": left.why.name(),
        "meaning": left.why.meaning(),
        "bytes": left.bytes,
    })
}
