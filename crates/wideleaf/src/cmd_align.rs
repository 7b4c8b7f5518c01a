// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align`: moves a file's segments to offsets that wide leaves can map.

use crate::screen::Late;
use crate::stdout::{name, printable_path, tell, write_json, write_out};
use anyhow::{Result, bail};
use clap::ValueEnum;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_align::{HardLinks, Options, Refusal, Report, Status, Target};
use wideleaf_elf::LEAF_2M;
use wideleaf_kit::size::bytes;
use wideleaf_kit::table::{Table, left, right};

const EXAMPLES: &str = "\
Examples:
  What would it do to a program, and what would that gain?
      wideleaf align --dry-run --verbose /usr/bin/mold
  An aligned copy beside the original:
      wideleaf align /usr/bin/mold -o ~/bin/mold
  Replace a library in one step, and keep the original as libx.so.1.orig:
      wideleaf align --in-place --backup /opt/lib/libx.so.1
  Undo it:
      wideleaf align --restore --in-place /opt/lib/libx.so.1
  Every program in a folder that gains by it, for a script:
      wideleaf align --in-place --json /opt/bin/* | jq '.files[].status'

Files whose text gains no 2M leaf are left as they are: a wider p_align costs them bits of
randomisation (9 at 2M) for nothing. --all rewrites them too; so does a --leaf other than 2M.
WSL 1 refuses programs with a p_align above 4K: aligned ones do not start there, on WSL 2 they do.
A file that is in use is replaced by rename: processes that run keep the old one.
The table's columns: what was done; size and disk in bytes before and after; bytes of text
that 2M leaves can map before and after.

Exit status: 0 if every file is aligned now (or restored, or gains nothing by it),
1 if one was refused or could not be written, 2 for wrong usage.";

/// Options of `wideleaf align`.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// ELF executables or shared libraries
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the result to this file; for several files, into this folder
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    output: Option<PathBuf>,
    /// Replace each file by the result, with its owner, mode, attributes and times
    #[arg(short, long, required_unless_present_any = ["output", "dry_run"])]
    in_place: bool,
    /// The leaf that every segment is to be congruent at: a power of two from 4K to 1G
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = leaf)]
    leaf: u64,
    /// Undo it: make files again what they were before
    #[arg(long)]
    restore: bool,
    /// With --in-place, keep the original under its name with a suffix
    #[arg(
        long,
        value_name = "SUFFIX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".orig",
        conflicts_with = "output",
        value_parser = suffix
    )]
    backup: Option<OsString>,
    /// With --in-place, what to do with a file that has several names (hard links)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "refuse",
        requires = "in_place"
    )]
    hard_links: Links,
    /// Align setuid and signed files, such with appended data and such that strip would
    /// damage afterwards, too
    #[arg(short, long)]
    force: bool,
    /// Rewrite files whose text gains no 2M leaf by it, too
    #[arg(long, conflicts_with_all = ["only_gaining", "restore"])]
    all: bool,
    /// Rewrite files whose text wide leaves can map already, too
    #[arg(long, conflicts_with_all = ["only_gaining", "restore"])]
    always: bool,
    /// Leave files alone whose text gains no 2M leaf by it, whatever --leaf is (the default for 2M)
    #[arg(long, conflicts_with = "restore")]
    only_gaining: bool,
    /// Do not append the note (some 2K) that --restore needs
    #[arg(long, conflicts_with = "restore")]
    no_note: bool,
    /// Tell what would be done, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// List every segment's offset and p_align before and after
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON (docs/tool.md has the schema)
    #[arg(short = 'J', long, conflicts_with = "verbose")]
    json: bool,
    /// Print sizes in bytes
    #[arg(short, long)]
    bytes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Links {
    /// Leave such files as they are
    Refuse,
    /// Replace all names, which have to be among the folders of those given
    All,
}

fn leaf(text: &str) -> Result<u64, String> {
    let leaf = wideleaf_kit::size::parse(text)?;
    match leaf.is_power_of_two() && (4 << 10..=1 << 30).contains(&leaf) {
        true => Ok(leaf),
        false => Err(format!("`{text}` is no leaf: a power of two from 4K to 1G")),
    }
}

fn suffix(text: &str) -> Result<OsString, String> {
    match text.is_empty() || text.contains('/') {
        true => Err("a suffix is at least one character, and none a slash".to_string()),
        false => Ok(text.into()),
    }
}

/// Runs `wideleaf align`.
///
/// # Errors
///
/// If standard output cannot be written, or several files are to go to what is
/// no folder. Files that are refused are named on standard error and in the
/// exit status.
pub fn run(args: Args) -> Result<ExitCode> {
    let folder = args.output.as_deref().filter(|out| out.is_dir());
    if let (Some(out), None, true) = (&args.output, folder, args.files.len() > 1) {
        bail!(
            "{}: must be a folder, for several files",
            printable_path(out)
        );
    }
    let options = Options {
        leaf: args.leaf,
        force: args.force,
        strippable: !args.force,
        always: args.always,
        only_gaining: args.only_gaining || (args.leaf == LEAF_2M && !args.all && !args.always),
        dry_run: args.dry_run,
        note: !args.no_note,
        hard_links: match args.hard_links {
            Links::Refuse => HardLinks::Refuse,
            Links::All => HardLinks::All,
        },
        names: args.files.clone(),
        backup: args.backup.clone(),
    };
    let mut late = Late::new();
    let mut results = Vec::new();
    for (index, file) in args.files.iter().enumerate() {
        late.show(|| format!("{index} of {} files", args.files.len()));
        results.push((file, one(file, &args, folder, &options)));
    }
    drop(late);
    match args.json {
        true => write_json(&to_json(&args, &results))?,
        false => write_out(&to_table(&args, &results))?,
    }
    for (file, result) in &results {
        match result {
            Err(refusal) => tell!("wideleaf: align: {}: {refusal}", printable_path(file)),
            Ok(report) => {
                for other in &report.signatures_broken {
                    tell!(
                        "wideleaf: align: {}: its checksum or signature in {other} fits the old bytes only",
                        printable_path(file)
                    );
                }
            }
        }
    }
    Ok(match results.iter().all(|(_, result)| result.is_ok()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn one(
    file: &Path,
    args: &Args,
    folder: Option<&Path>,
    options: &Options,
) -> Result<Report, Refusal> {
    let inside = folder.map(|folder| folder.join(file.file_name().unwrap_or_default()));
    let target = match (&inside, &args.output) {
        (Some(inside), _) => Target::File(inside),
        (None, Some(out)) => Target::File(out),
        (None, None) => Target::InPlace,
    };
    match args.restore {
        true => wideleaf_align::restore(file, target, options),
        false => wideleaf_align::align(file, target, options),
    }
}

fn word(report: &Report) -> &'static str {
    match report.status {
        Status::Aligned => "aligned",
        Status::Good => "good",
        Status::NoGain => "no gain",
        Status::Restored => "restored",
    }
}

type Results<'a> = [(&'a PathBuf, Result<Report, Refusal>)];

fn to_table(args: &Args, results: &Results) -> String {
    let mut table = Table::new([
        left("RESULT"),
        right("SIZE"),
        right("NEW"),
        right("DISK"),
        right("NEW"),
        right("2M-TEXT"),
        right("NEW"),
        left("FILE"),
    ]);
    let mut segments = String::new();
    for (file, result) in results {
        let Ok(report) = result else {
            let dash = || "-".to_string();
            let mut row = vec!["refused".to_string()];
            row.extend((0..6).map(|_| dash()));
            row.push(printable_path(file));
            table.row(row);
            continue;
        };
        let sizes = [
            report.size_before,
            report.size_after,
            report.disk_before,
            report.disk_after,
            report.usable_before,
            report.usable_after,
        ];
        let mut row = vec![word(report).to_string()];
        row.extend(sizes.map(|size| bytes(size, args.bytes)));
        row.push(printable_path(file));
        table.row(row);
        if args.verbose {
            segments.push_str(&verbose(file, report));
        }
    }
    table.render(true) + &segments
}

fn verbose(file: &Path, report: &Report) -> String {
    let titles = ["SEG", "ADDRESS", "OFFSET", "NEW", "P_ALIGN", "NEW"];
    let mut table = Table::new(titles.map(right));
    for moved in &report.segments {
        table.row([
            moved.index.to_string(),
            format!("{:#x}", moved.address),
            format!("{:#x}", moved.offset_before),
            format!("{:#x}", moved.offset_after),
            format!("{:#x}", moved.align_before),
            format!("{:#x}", moved.align_after),
        ]);
    }
    let mut text = String::new();
    if !report.segments.is_empty() {
        text = format!("\n{}\n{}", printable_path(file), table.render(true));
    }
    for name in &report.names {
        text += &format!("also known as {}\n", printable_path(name));
    }
    if let Some(backup) = &report.backup {
        text += &format!("the original is {}\n", printable_path(backup));
    }
    text
}

fn to_json(args: &Args, results: &Results) -> serde_json::Value {
    let files = results.iter().map(|(file, result)| {
        let mut value = match result {
            Ok(report) => serde_json::to_value(report).expect("plain data"),
            Err(refusal) => json!({ "status": "refused", "reason": refusal.to_string() }),
        };
        name(&mut value, "path", file);
        value
    });
    json!({
        "schema": "wideleaf-align-1",
        "dry_run": args.dry_run,
        "leaf": args.leaf,
        "files": files.collect::<Vec<_>>(),
    })
}
