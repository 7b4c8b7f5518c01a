// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf inspect`: which leaves could map a file's text, and why not wider.

mod collect;
mod json;
mod map;
mod outlook;
mod picture;
mod report;
mod svg;
mod table;

use anyhow::{Context, Result};
use clap::ValueEnum;
use collect::Found;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  Why is node's text not mapped by 2M pages?
      wideleaf inspect --map $(command -v node)
  Which programs and libraries have most to gain?
      wideleaf inspect -r /usr
  The same for a script, in bytes, largest gain first:
      wideleaf inspect -r -b -n -o GAIN,CAUSE,FILE /opt
  Everything about every library, as JSON:
      wideleaf inspect -r --json /usr/lib | jq '.files[] | {path, gain}'
  A picture of a file's segments and the leaves they could use:
      wideleaf inspect --svg cc1plus.svg $(gcc -print-prog-name=cc1plus)

Exit status: 0 if every file was read, 1 if one could not be, 2 for wrong usage.";

/// Options of `wideleaf inspect`.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// ELF executables or libraries; with -r also directories
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
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
    /// Sort the table by this column: sizes from large to small, text from A to Z
    #[arg(long, value_name = "COLUMN", ignore_case = true)]
    sort: Option<table::Column>,
    /// Turn the order of the table round
    #[arg(long)]
    reverse: bool,
    /// With -r, list files with nothing to gain as well
    #[arg(short, long)]
    all: bool,
    /// Print JSON (docs/tool.md has the schema)
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
    /// Draw the same to an SVG file
    #[arg(long, value_name = "SVG")]
    svg: Option<PathBuf>,
    /// Only answer for kernels with these base pages
    #[arg(long, value_name = "SIZE", value_delimiter = ',', ignore_case = true)]
    page_size: Vec<PageSize>,
}

/// Base page sizes of the kernels that the policy knows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PageSize {
    #[value(name = "4K")]
    K4,
    #[value(name = "16K")]
    K16,
    #[value(name = "64K")]
    K64,
}

impl PageSize {
    fn bytes(self) -> u64 {
        match self {
            PageSize::K4 => 4 << 10,
            PageSize::K16 => 16 << 10,
            PageSize::K64 => 64 << 10,
        }
    }
}

/// Runs `wideleaf inspect`.
///
/// # Errors
///
/// If the SVG file or standard output cannot be written. Files that cannot be
/// read are reported on standard error and in the exit status.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut found = collect::collect(&args.files, args.recursive, args.one_file_system);
    let as_table = args.recursive || !args.output.is_empty() || args.sort.is_some();
    if as_table {
        table::sort(&mut found.entries, args.sort, args.reverse);
    }
    let pages: Vec<u64> = args.page_size.iter().map(|size| size.bytes()).collect();
    if let Some(path) = &args.svg {
        let picture = svg::draw(&shown(&found, &args));
        std::fs::write(path, picture)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = if args.json {
        json::write(&mut out, &found, &pages)
    } else if as_table {
        write_table(&mut out, &found, &args)
    } else {
        write_reports(&mut out, &found, &args, &pages)
    };
    match written.and_then(|()| out.flush()) {
        // The reader has seen enough: `wideleaf inspect -r /usr | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        result => result.context("cannot write to standard output")?,
    }
    for (path, error) in &found.errors {
        eprintln!("wideleaf: {}: {error}", collect::printable(path));
    }
    Ok(match found.errors.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What the table lists: with -r, unless asked otherwise, what has something
/// to gain.
fn shown<'f>(found: &'f Found, args: &Args) -> Vec<&'f collect::Entry> {
    let entries = found.entries.iter();
    entries
        .filter(|entry| !args.recursive || args.all || entry.verdict.gain > 0)
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
            writeln!(out, "\n{}", collect::printable(&entry.path))?;
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
