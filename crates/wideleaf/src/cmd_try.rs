// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf try`: what wide text gains a command, on this machine.

use crate::cmd_run::means;
use crate::screen::Late;
use crate::stdout::{printable_path, write_json, write_out};
use anyhow::{Context, Result};
use clap::builder::RangedU64ValueParser;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use wideleaf_kit::replace::replace;
use wideleaf_kit::size::bytes;
use wideleaf_kit::table::{Table, left, right};
use wideleaf_report::Simple;
use wideleaf_report::plot::{Kind, Plot, Series};
use wideleaf_run::Means;
use wideleaf_trial::{Quantity, Ratio, Request, Run, Side, Trial, Verdict, trial};

/// Arguments of `wideleaf try`.
#[derive(clap::Args)]
#[command(after_long_help = "\
The command runs plainly and by each means of `wideleaf run` in turns (A B B A),
after a run of each that is not counted. A pair of runs gives a ratio; the median
of the ratios is told with its 95 % interval, by a bootstrap over pairs. The
cost of a fill is not counted, because it is paid once; the cost of copies is.

Plain runs find in the page cache what they read by themselves: if a fill has
changed it, the text is dropped and a run that is not counted reads it anew. With
--base-pages plain runs find pages of 4K. The page cache stays as the last run
left it. The command gets no input, and its output is dropped.

Exit status: 0 compared; 1 an error, or no means does anything; 2 usage.

Examples:
  wideleaf try -- node build.js
  wideleaf try --runs 30 --means fill --base-pages -- clang -O2 -c big.c -o /dev/null
  wideleaf try --with $(gcc -print-prog-name=cc1) -- make -B all
  wideleaf try --libs --report try.html -- python3 -m compileall -f src")]
pub struct Args {
    /// Runs of each side
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<u32>::new().range(2..=10_000))]
    runs: u32,
    /// Only these means [default: fill,namespace,collapse,tunable]
    #[arg(long, value_name = "MEANS", value_delimiter = ',', value_parser = means())]
    means: Vec<Means>,
    /// The program's libraries, too
    #[arg(long)]
    libs: bool,
    /// This program, too, which the command starts, or this library, which it
    /// loads; may be repeated
    #[arg(long, value_name = "FILE")]
    with: Vec<OsString>,
    /// Plain runs find the text in pages of 4K, whatever was cached
    #[arg(long)]
    base_pages: bool,
    /// Have the kernel reclaim page cache and compact memory for wide text, too, as `run` does
    #[arg(long)]
    reclaim: bool,
    /// A command that fails counts, too
    #[arg(short, long)]
    ignore_failure: bool,
    /// Write a page with tables and plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Bytes as plain numbers
    #[arg(short, long)]
    bytes: bool,
    /// No lines of headings
    #[arg(short, long)]
    noheadings: bool,
    /// Print JSON (docs/tool/try.md has the schema)
    #[arg(short = 'J', long)]
    json: bool,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Runs `wideleaf try`.
pub fn run(args: Args) -> Result<ExitCode> {
    let means = match args.means.is_empty() {
        true => &Means::USUAL[..],
        false => &args.means,
    };
    if let Some(path) = &args.report {
        // Before an hour is spent.
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        tempfile_in(parent.unwrap_or(".".as_ref()))
            .with_context(|| format!("--report {}", printable_path(path)))?;
    }
    let starter = std::env::current_exe().context("cannot find this program")?;
    let request = Request {
        command: &args.command,
        with: &args.with,
        libs: args.libs,
        means,
        runs: args.runs,
        base_pages: args.base_pages,
        reclaim: args.reclaim,
        failing: args.ignore_failure,
        starter: &starter,
    };
    let mut late = Late::new();
    let trial = trial(&request, &mut |side, run| {
        late.show(|| match run {
            0 => format!("{side}: a run that is not counted"),
            n => format!("{side}: run {n} of {}", args.runs),
        });
    })?;
    drop(late);
    let shown = Shown::new(&args, &trial);
    match args.json {
        true => write_json(&document(&args, &trial))?,
        false => write_out(&shown.text(&args))?,
    }
    if let Some(path) = &args.report {
        replace(path, report(&args, &trial, &shown)?)
            .with_context(|| format!("--report {}", printable_path(path)))?;
    }
    Ok(match trial.sides.len() {
        0 | 1 => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

/// Whether a file can be made there.
fn tempfile_in(folder: &std::path::Path) -> std::io::Result<()> {
    nix::unistd::access(folder, nix::unistd::AccessFlags::W_OK).map_err(Into::into)
}

/// A side against the plain one.
fn ratio(trial: &Trial, side: &Side, quantity: Quantity) -> Option<Ratio> {
    let plain = trial.sides.first()?;
    (plain.name != side.name).then(|| Ratio::new(quantity, &plain.runs, &side.runs))?
}

/// The outcome in words and cells.
struct Shown {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    sentences: Vec<String>,
}

impl Shown {
    fn new(args: &Args, trial: &Trial) -> Self {
        let counted: Vec<Quantity> = Quantity::ALL
            .into_iter()
            .filter(|quantity| {
                trial
                    .sides
                    .iter()
                    .any(|s| quantity.median(&s.runs).is_some())
            })
            .collect();
        let mut headings = vec!["MEANS".to_owned(), "COVERAGE".to_owned()];
        for quantity in &counted {
            headings.extend([title(*quantity).to_owned(), "RATIO".to_owned()]);
        }
        let row = |side: &Side| {
            let share = side.seen.share();
            let share = share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0));
            let mut row = vec![side.name.to_owned(), share];
            for quantity in &counted {
                let median = quantity.median(&side.runs);
                row.push(median.map_or("-".into(), |m| amount(*quantity, m, args.bytes)));
                row.push(ratio(trial, side, *quantity).map_or("-".into(), |r| interval(&r)));
            }
            row
        };
        Self {
            headings,
            rows: trial.sides.iter().map(row).collect(),
            sentences: sentences(args, trial),
        }
    }

    fn text(&self, args: &Args) -> String {
        let mut headings: Vec<_> = self.headings.iter().map(right).collect();
        headings[0] = left(&self.headings[0]);
        let mut table = Table::new(headings).gap("  ");
        for row in &self.rows {
            table.row(row);
        }
        let text = table.render(!args.noheadings);
        match args.noheadings {
            true => text,
            false => text + "\n" + &self.sentences.join("\n") + "\n",
        }
    }
}

fn title(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Cpu => "CPU",
        Quantity::Wall => "TIME",
        Quantity::Memory => "MEMORY",
        Quantity::ItlbMisses => "ITLB-MISSES",
        Quantity::ItlbWalks => "WALKS",
        Quantity::ItlbWalkCycles => "WALK-CYCLES",
    }
}

fn amount(quantity: Quantity, value: f64, exact: bool) -> String {
    match quantity {
        Quantity::Cpu | Quantity::Wall => format!("{value:.3} s"),
        Quantity::Memory => bytes(value as u64, exact),
        _ => format!("{value:.0}"),
    }
}

fn interval(ratio: &Ratio) -> String {
    format!(
        "{:.3} ({:.3} to {:.3})",
        ratio.median, ratio.low, ratio.high
    )
}

/// The outcome: a sentence for each means.
fn sentences(args: &Args, trial: &Trial) -> Vec<String> {
    let mut sentences: Vec<String> = trial
        .sides
        .iter()
        .filter_map(|side| {
            Some(format!(
                "{} {}",
                side.name,
                verdict(&ratio(trial, side, Quantity::Cpu)?)
            ))
        })
        .collect();
    for (means, why) in &trial.refused {
        sentences.push(format!("{means} does nothing: {why}"));
    }
    if let Some(plain) = trial.sides.first()
        && !args.base_pages
        && plain.seen.wide > 0
    {
        let size = |n| bytes(n, args.bytes);
        sentences.push(format!(
            "plainly, {} of {} of text are wide already; --base-pages compares with pages of 4K",
            size(plain.seen.wide),
            size(plain.seen.resident)
        ));
    }
    sentences
}

fn verdict(ratio: &Ratio) -> String {
    let figures = format!(
        "{:.3} × the CPU time of plain runs (95 % interval {:.3} to {:.3}, {} pairs)",
        ratio.median, ratio.low, ratio.high, ratio.pairs
    );
    match ratio.verdict() {
        Verdict::Gains => format!("gains: {figures}"),
        Verdict::Loses => format!("loses: {figures}"),
        Verdict::CannotBeTold => format!(
            "cannot be told from noise: {figures}; about {} pairs would tell a difference of {:.0} %",
            ratio.needed,
            ((ratio.median - 1.0).abs() * 100.0).max(1.0)
        ),
    }
}

/// The JSON document; docs/tool/try.md describes it.
fn document(args: &Args, trial: &Trial) -> Value {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    json!({
        "schema": "wideleaf-try-1",
        "command": args.command.iter().map(text).collect::<Vec<_>>(),
        "base_pages": args.base_pages,
        "sides": trial.sides.iter().map(|side| side_out(trial, side)).collect::<Vec<_>>(),
        "refused": trial.refused.iter()
            .map(|(means, why)| json!({ "means": means, "why": why }))
            .collect::<Vec<_>>(),
    })
}

fn side_out(trial: &Trial, side: &Side) -> Value {
    let ratios = Quantity::ALL.into_iter().filter_map(|quantity| {
        let ratio = ratio(trial, side, quantity)?;
        let mut out = serde_json::to_value(ratio).ok()?;
        out["quantity"] = serde_json::to_value(quantity).ok()?;
        out["verdict"] = serde_json::to_value(ratio.verdict()).ok()?;
        Some(out)
    });
    json!({
        "name": side.name,
        "coverage": side.seen,
        "runs": side.runs.iter().map(run_out).collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
    })
}

fn run_out(run: &Run) -> Value {
    json!({
        "cpu_seconds": run.cpu.as_secs_f64(),
        "wall_seconds": run.wall.as_secs_f64(),
        "memory": run.memory,
        "itlb_misses": run.itlb_misses,
        "itlb_walks": run.itlb_walks,
        "itlb_walk_cycles": run.itlb_walk_cycles,
    })
}

/// The page for `--report`.
fn report(args: &Args, trial: &Trial, shown: &Shown) -> Result<String> {
    let words: Vec<_> = args
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let command = shell_words::join(words);
    let plots = [(Quantity::Cpu, "CPU time"), (Quantity::Wall, "Time")];
    let plots = plots.map(|(quantity, name)| plot(trial, quantity, name));
    let release = nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    let cpu = wideleaf_cpu::detect("/sys".as_ref(), wideleaf_procmap::sizes("/sys".as_ref()).0);
    let origin = [
        format!("command: {command}"),
        format!(
            "{} runs of each side, in turns{}",
            args.runs,
            if args.base_pages {
                "; plain runs on pages of 4K"
            } else {
                ""
            }
        ),
        format!(
            "{}, Linux {release}, {}",
            cpu.name,
            jiff::Zoned::now().date()
        ),
        "ratios: medians of pairs, with 95 % intervals by a bootstrap over pairs".to_owned(),
    ];
    Simple {
        title: &format!("wideleaf try: {command}"),
        sentences: &shown.sentences,
        headings: &shown.headings,
        rows: &shown.rows,
        plots: &plots,
        origin: &origin,
    }
    .page()
}

/// The runs of all sides, in order.
fn plot(trial: &Trial, quantity: Quantity, name: &str) -> Plot {
    let runs = trial
        .sides
        .iter()
        .map(|side| side.runs.len())
        .max()
        .unwrap_or(0);
    Plot {
        title: format!("{name} of each run"),
        x: "run".to_owned(),
        y: "seconds".to_owned(),
        categories: (1..=runs).map(|n| n.to_string()).collect(),
        series: trial
            .sides
            .iter()
            .map(|side| Series {
                name: side.name.to_owned(),
                values: side.runs.iter().map(|run| quantity.of(run)).collect(),
            })
            .collect(),
        kind: Kind::Lines,
    }
}
