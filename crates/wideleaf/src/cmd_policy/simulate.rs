// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf policy simulate`: what streams of touches cost under each rule.

use super::leaf_table::{LeafTableArgs, bytes};
use super::replay::{PRISTINE, Runs, ours};
use crate::stdout::{write_json, write_out};
use crate::usage::misuse;
use anyhow::Result;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use wideleaf_kit::size::short;
use wideleaf_kit::table::{Table, left, right};
use wideleaf_policy::sim::{Outcome, Pattern, Text, run as simulate, touches};
use wideleaf_policy::strategy::Strategy;

/// Arguments of `wideleaf policy simulate`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Patterns:
  sweep               every 4K, first to last
  pages:10            single base pages at random, 10 per mille of the text
  random:10           single 4K pieces at random, 10 per mille of the text
  clusters:256K:50    pieces of 256K at random places, each swept, 50 per mille
  stride:20K          4K of every 20K, first to last

Rules: a way of reading, and what is done besides:
  6.12, 7.3           as these kernels do
  size                a block of 2M as a whole, if the mapping holds it
  exec_read           as the series reads does
  exec_read:25:75     the same with a quarter of the window before the fault
  density:40:2        as a whole, if 40 % of at least 2 blocks that narrow reads
                      visited in the file is resident; else as 7.3
  +collapse:50        a block is copied into one folio once half of it is resident
  +idle:50            the same after the last touch, the fullest blocks first
  +credit:25          no more is read in vain than 2M for each file, and 25 % of what
                      narrow reads bring
  khugepaged          7.3+idle:0: a block of which one page is resident
  patched             exec_read+collapse:50, nearly what all series on text do

Examples:
  wideleaf policy simulate --arch arm64 --page-size 64K
  wideleaf policy simulate --size 512M --window 8M sweep
  wideleaf policy simulate --arch arm64 --page-size 16K pages:10 pages:50 pages:200
  wideleaf policy simulate random:1000 --json
  wideleaf policy simulate pages:50 --rule patched --rule exec_read+collapse:80
  wideleaf policy simulate --trace crates/policy/traces/gcc.x86_64.trace
  wideleaf policy simulate --trace *.trace --curve --arch x86_64
  wideleaf policy simulate --trace gcc.x86_64.trace --rule density:40+collapse:50")]
pub struct Args {
    #[command(flatten)]
    machine: LeafTableArgs,
    /// Ways to touch the text [default: a curve from sparse to dense]
    #[arg(value_parser = pattern)]
    pattern: Vec<Named>,
    /// Run recorded programs instead, under each rule, on each machine
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["pattern", "size", "seed"])]
    trace: Vec<PathBuf>,
    /// A rule, see below; may be repeated [default: a choice of them]
    #[arg(long, value_name = "RULE", value_parser = rule)]
    rule: Vec<Strategy>,
    /// Run a grid of rules too, and show the sums over all traces by bytes read
    #[arg(long, requires = "trace", help_heading = "Traces")]
    curve: bool,
    /// Bytes of text
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "128M")]
    size: u64,
    /// Readahead window
    #[arg(long, value_parser = bytes, value_name = "SIZE", default_value = "128K")]
    window: u64,
    /// Seed of the random patterns
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON, a line for each run
    #[arg(long)]
    json: bool,
}

/// A pattern and how it was written.
#[derive(Clone)]
struct Named {
    name: String,
    pattern: Pattern,
}

fn rule(text: &str) -> Result<Strategy, String> {
    text.parse()
}

/// Rules that synthetic touches are run under unless others are named.
const RULES: [&str; 4] = ["6.12", "7.3", "fixed-2M", "patched"];

const CURVE: [&str; 12] = [
    "pages:10",
    "pages:50",
    "pages:200",
    "pages:1000",
    "random:10",
    "random:50",
    "random:200",
    "clusters:64K:50",
    "clusters:256K:50",
    "clusters:2M:200",
    "stride:80K",
    "sweep",
];

fn pattern(text: &str) -> Result<Named, String> {
    Ok(Named {
        name: text.to_string(),
        pattern: wideleaf_jobs::sparse::pattern::pattern(text)?,
    })
}

/// Runs `wideleaf policy simulate`.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !args.trace.is_empty() {
        let tables = args.machine.tables()?;
        tables
            .iter()
            .try_for_each(|table| args.check_window(*table))?;
        let runs = Runs {
            traces: &args.trace,
            rules: &args.rule,
            curve: args.curve,
            tables,
            window: args.window,
            json: args.json,
        };
        return runs.run().map(|()| ExitCode::SUCCESS);
    }
    let table = args.machine.table()?;
    if args.size == 0 || !args.size.is_multiple_of(2 << 20) || args.size > 16 << 30 {
        misuse!(
            "--size {}: want a multiple of 2M up to 16G",
            short(args.size)
        );
    }
    args.check_window(table)?;
    let curve: Vec<Named> = CURVE.iter().filter_map(|text| pattern(text).ok()).collect();
    let patterns = if args.pattern.is_empty() {
        &curve
    } else {
        &args.pattern
    };

    let rules = if args.rule.is_empty() {
        RULES.map(ours).to_vec()
    } else {
        args.rule.clone()
    };
    let amounts = [
        "TOUCHED", "READ", "READ/T", "/6.12", "/7.3", "MAJOR", "MINOR", "2M", "ENTRIES",
    ];
    let words = [left("PATTERN"), left("RULES")];
    let mut rows = Table::new(words.into_iter().chain(amounts.map(right)));
    for Named { name, pattern } in patterns {
        let pattern = match *pattern {
            Pattern::Pages(_, permille) => Pattern::Pages(table.page_shift(), permille),
            Pattern::Clusters(length, _) | Pattern::Stride(length) if length >= args.size => {
                misuse!("{name}: longer than the text of {}", short(args.size))
            }
            pattern => pattern,
        };
        let touches = touches(pattern, args.size, args.seed);
        let text = Text {
            table,
            size: args.size,
            window: args.window,
        };
        let pristine = PRISTINE.map(|rule| simulate(ours(rule), text, &touches).read);
        for rule in &rules {
            let outcome = simulate(*rule, text, &touches);
            let rule = rule.to_string();
            if args.json {
                write_json(&json!({ "pattern": name, "rules": rule, "outcome": outcome }))?;
            } else {
                rows.row(row(name, rule, &outcome, pristine));
            }
        }
    }
    if !args.json {
        write_out(&rows.render(true))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn check_window(&self, table: wideleaf_policy::Table) -> Result<()> {
        if self.window >> table.page_shift() == 0 {
            misuse!(
                "--window {}: less than a page, so nothing would be read",
                short(self.window)
            );
        }
        Ok(())
    }
}

fn row(name: &str, rule: String, outcome: &Outcome, pristine: [u64; 2]) -> [String; 11] {
    let ratio = |to: u64| match to {
        0 => "-".to_string(),
        to => format!("{:.2}", outcome.read as f64 / to as f64),
    };
    let mib = |bytes: u64| format!("{:.1}M", bytes as f64 / f64::from(1 << 20));
    [
        name.to_string(),
        rule,
        mib(outcome.touched),
        mib(outcome.read),
        ratio(outcome.touched),
        ratio(pristine[0]),
        ratio(pristine[1]),
        outcome.major.to_string(),
        outcome.minor.to_string(),
        outcome.wide.to_string(),
        outcome.entries.to_string(),
    ]
}
