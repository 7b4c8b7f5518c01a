// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf inspect`: which leaves could map a file's text, and why not wider.

mod json;
mod map;
mod picture;
mod process;
mod report;
mod svg;
mod table;

use crate::stdout::{printable_path, tell, write_bytes, write_out};
use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use wideleaf_inspect::{Entry, Found, collect};
use wideleaf_kit::arch::PageSize;

const EXAMPLES: &str = "\
Examples:
  Why is node's text not mapped by 2M pages?
      wideleaf inspect --map $(command -v node)
  Which programs and libraries have most to gain?
      wideleaf inspect -r /usr
  Which gain most by code and constants in one segment (align --merge)?
      wideleaf inspect -r --all -o MERGE,TEXT,CAUSE,FILE --sort MERGE /usr
  The same for a script, in bytes, largest gain first:
      wideleaf inspect -r -b -n -o GAIN,CAUSE,FILE /opt
  Everything about every library, as JSON:
      wideleaf inspect -r --json /usr/lib | jq '.files[] | {path, gain}'
  How wide is the code that Java has compiled, and what would make it wider?
      wideleaf inspect --pid $(pidof java)
  A picture of a file's segments and the leaves they could use:
      wideleaf inspect --svg cc1plus.svg $(gcc -print-prog-name=cc1plus)

Exit status: 0 if every file and process was read, 1 if one could not be, 2 for wrong
usage.";

/// Options of `wideleaf inspect`.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// ELF executables or libraries; with -r also directories
    #[arg(required_unless_present = "pid", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The files of this process's text, as a table, and the text that it has made at run time, as
    /// just-in-time compilers do: how wide it is, why not wider, and its runtime's switch
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Inspect all ELF files below directories; symbolic links are not followed
    #[arg(short, long)]
    recursive: bool,
    /// With -r, stay on the file system of each directory named
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Print a table with these columns, separated by commas
    #[arg(
        short,
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        ignore_case = true
    )]
    output: Vec<table::Column>,
    /// Sort the table by this column: amounts from large to small, all else
    /// from small to large; + in front: ascending, -: descending
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    sort: Option<table::Sort>,
    /// Turn the order of the table round
    #[arg(long)]
    reverse: bool,
    /// With -r or --pid, list files with nothing to gain as well
    #[arg(short, long)]
    all: bool,
    /// Print JSON (docs/tool/inspect.md has the schema)
    #[arg(short = 'J', long, conflicts_with_all = ["output", "map", "noheadings"])]
    json: bool,
    /// Print sizes in bytes
    #[arg(short, long)]
    bytes: bool,
    /// Print neither headings nor a summary
    #[arg(short, long)]
    noheadings: bool,
    /// Draw each file's segments in the terminal, with the leaves they could use
    #[arg(long)]
    map: bool,
    /// Draw the same to an SVG file; `-` is standard output, which then has nothing else
    #[arg(long, value_name = "SVG")]
    svg: Option<PathBuf>,
    /// Only answer for kernels with these base pages
    #[arg(long, value_name = "SIZE", value_delimiter = ',', ignore_case = true, value_parser = page_sizes())]
    page_size: Vec<PageSize>,
}

/// The parser of base page sizes, which lists them in the help.
fn page_sizes() -> impl TypedValueParser<Value = PageSize> {
    let names = PageSize::ALL.iter().map(|size| size.name());
    // Checked by then, but for the case of its letters.
    PossibleValuesParser::new(names).try_map(|name| name.to_uppercase().parse::<PageSize>())
}

/// Runs `wideleaf inspect`.
///
/// # Errors
///
/// If the SVG file or standard output cannot be written. Files that cannot be
/// read are reported on standard error and in the exit status.
pub fn run(args: Args) -> Result<ExitCode> {
    let processes = process::read(&args.pid)?;
    let files = [&args.files[..], &processes.files].concat();
    let mut found = collect(&files, args.recursive, args.one_file_system);
    let many = args.recursive || !args.pid.is_empty();
    let as_table = many || !args.output.is_empty() || args.sort.is_some();
    if as_table {
        table::sort(
            &mut found.entries,
            args.sort.unwrap_or_default(),
            args.reverse,
        );
    }
    let pages: Vec<u64> = args.page_size.iter().map(|size| size.bytes()).collect();
    if let Some(path) = &args.svg {
        let picture = svg::draw(&shown(&found, &args));
        match path.as_os_str() == "-" {
            true => write_bytes(picture.as_bytes())?,
            false => std::fs::write(path, picture)
                .with_context(|| format!("cannot write {}", path.display()))?,
        }
    }
    let quiet = args
        .svg
        .as_ref()
        .is_some_and(|path| path.as_os_str() == "-");
    if args.json && !quiet {
        json::write(&found, &pages, &processes.accounts)?;
    } else if !quiet {
        let mut text = Vec::new();
        match as_table {
            // Of processes that could not be read there is nothing to sum up.
            true if files.is_empty() => {}
            true => write_table(&mut text, &found, &args)?,
            false => write_reports(&mut text, &found, &args, &pages)?,
        }
        processes.write(&mut text, args.bytes)?;
        write_out(&String::from_utf8_lossy(&text))?;
    }
    for (path, error) in &found.errors {
        tell!("wideleaf: {}: {error}", printable_path(path));
    }
    for error in &processes.errors {
        tell!("wideleaf: inspect: {error}");
    }
    let all = found.errors.is_empty() && processes.errors.is_empty();
    Ok(match all {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The table's lines: with -r or --pid, unless asked otherwise, what has something
/// to gain.
fn shown<'f>(found: &'f Found, args: &Args) -> Vec<&'f Entry> {
    let entries = found.entries.iter();
    entries
        .filter(|entry| {
            let all = args.all || !args.recursive && args.pid.is_empty();
            all || entry.verdict.gain > 0
        })
        .collect()
}

fn write_table(out: &mut impl Write, found: &Found, args: &Args) -> std::io::Result<()> {
    let columns = match args.output.is_empty() {
        true => table::DEFAULT.to_vec(),
        false => args.output.clone(),
    };
    let shown = shown(found, args);
    table::write(out, &shown, &columns, args.bytes, !args.noheadings)?;
    if args.map {
        for entry in &shown {
            writeln!(out, "\n{}", printable_path(&entry.path))?;
            map::write(out, entry, report::width())?;
        }
    }
    if !args.noheadings {
        writeln!(out)?;
        table::write_summary(out, found, shown.len(), args.bytes)?;
    }
    Ok(())
}

fn write_reports(
    out: &mut impl Write,
    found: &Found,
    args: &Args,
    pages: &[u64],
) -> std::io::Result<()> {
    for (index, entry) in found.entries.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        report::write(out, entry, args.bytes, pages)?;
        if args.map && !entry.elf.segments.is_empty() {
            writeln!(out)?;
            map::write(out, entry, report::width())?;
        }
    }
    Ok(())
}
