// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf run`: starts a program with its text mapped by wide leaves, by the
//! best means that this machine allows; without any, as it is.

use crate::stdout::tell;
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use wideleaf_kit::names::printable;
use wideleaf_kit::size::{bytes, parse, short};
use wideleaf_run::{By, Done, Error, Lookout, Means, Request, TUNABLE, Unfit, Wide, exec, widen};

/// Arguments of `wideleaf run`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Means, best first; the first that works is taken:
  fill       the file itself, read anew into folios of 2M of the page cache, where
             its file system has such and no other process maps it; once, for all
             processes that map it later (see `wideleaf fill`)
  namespace  a copy on a tmpfs with huge=always, aligned if need be, mounted over
             the program in a mount namespace of its own; without root also in
             a user namespace, in which setuid programs have no privileges
  collapse   MADV_COLLAPSE of the file's text, in the page cache, before it runs
  tunable    GLIBC_TUNABLES=glibc.elf.thp=1 for libraries, where glibc has it
  none       as it is

The program takes this process's place: process number, signals, standard
streams, file descriptors, argv[0] and exit status are its own. If nothing can
be done it runs as it is, and a line on standard error says why.

With --libs the first run of a program is watched for the libraries that it
loads while it runs (dlopen), by a process of ours that ends with it, after ten
minutes at the latest. Later runs of --libs take them too, also those of
wideleaf stage and fill. They are remembered by the program's build-id in
$XDG_STATE_HOME/wideleaf/loads.json [~/.local/state/wideleaf/loads.json].

Exit status: the program's; 126 it cannot be run, 127 there is none; 2 usage.

Examples:
  wideleaf run cc1plus -O2 -quiet big.cc -o /dev/null
  wideleaf run --verbose --libs -- node --version
  wideleaf run --libs --learn -- java -jar server.jar
  wideleaf run --with $(gcc -print-prog-name=cc1plus) -- make -j8
  wideleaf run --means collapse --limit 64M postgres -D /srv/db")]
pub struct Args {
    /// Only these means, in this order [default: fill,namespace,collapse,tunable]
    #[arg(long, value_name = "MEANS", value_delimiter = ',', value_parser = means())]
    means: Vec<Means>,
    /// The program's libraries, too: those that it loads at its start, and those that an earlier
    /// run with --libs has loaded later
    #[arg(long)]
    libs: bool,
    /// Watch this run for libraries that the program loads, although an earlier run was watched
    #[arg(long, requires = "libs")]
    learn: bool,
    /// This program, too, which the command starts, or this library, which it
    /// loads: all its processes share one copy; may be repeated
    #[arg(long, value_name = "FILE")]
    with: Vec<OsString>,
    /// Take no more memory than this [default: a quarter of what is free, of the
    /// machine and in its control groups]
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    limit: Option<u64>,
    /// Have the kernel reclaim page cache and compact memory for it, too: nothing is free in
    /// whole blocks where page cache fills the machine
    #[arg(long)]
    reclaim: bool,
    /// Say on standard error which means was taken and what it covers
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Do not say why nothing could be done
    #[arg(short, long)]
    quiet: bool,
    /// The program, searched for in PATH, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// The parser of means, which lists them in the help.
pub fn means() -> impl TypedValueParser<Value = Means> {
    PossibleValuesParser::new(Means::ALL.map(Means::name))
        .try_map(|name| Means::named(&name).ok_or("no such means"))
}

/// As env(1), nice(1) and a shell have it.
const CANNOT_RUN: u8 = 126;
const NOT_THERE: u8 = 127;

/// Runs `wideleaf run`: returns only if the program cannot be started.
pub fn run(args: Args) -> Result<ExitCode> {
    let name = &args.command[0];
    let request = Request {
        program: name,
        with: &args.with,
        libs: args.libs,
        means: &args.means,
        limit: args.limit,
        reclaim: args.reclaim,
    };
    let lookout = args.libs.then(|| lookout(&args)).flatten();
    match widen(&request) {
        Ok(done) if args.verbose => line(name, &words(done)),
        Ok(Done::Wide(wide)) if unasked(&args) && dear(&wide) => line(name, &cost(&wide)),
        Ok(_) => {}
        Err(_) if args.quiet => {}
        Err(why) => line(name, &format!("{why}; it runs as it is{}", remedy(&why))),
    }
    let watched = lookout.is_some_and(|lookout| lookout.leave());
    if watched && !args.quiet {
        line(name, NOTED);
    }
    let error = exec(&args.command);
    line(name, not_started(name, error));
    Ok(ExitCode::from(match error {
        Errno::ENOENT => NOT_THERE,
        _ => CANNOT_RUN,
    }))
}

/// The remedy for a program that cannot be helped itself.
fn remedy(why: &Error) -> &'static str {
    match why {
        Error::Program(Unfit::Script) => {
            ": name the interpreter of a script by --with, as --with python3"
        }
        _ => "",
    }
}

/// Why the program does not start, with the remedy if the file shows it.
fn not_started(name: &OsStr, error: Errno) -> &'static str {
    // Without a slash execvp(3) has looked for it in PATH.
    let is_path = name.as_bytes().contains(&b'/');
    let metadata = Path::new(name).metadata().ok();
    match metadata.filter(|_| is_path && error == Errno::EACCES) {
        Some(file) if file.is_dir() => "is a directory: name a program",
        Some(file) if file.is_file() && file.mode() & 0o111 == 0 => {
            "is not executable: chmod +x makes it so"
        }
        _ => error.desc(),
    }
}

const NOTED: &str = "the libraries that it loads while it runs are noted, and taken the next time";

/// Whether this run is to be watched; says what is wrong with what earlier ones have left.
fn lookout(args: &Args) -> Option<Lookout> {
    let (lookout, error) = Lookout::wanted(&args.command[0], args.learn);
    if let Some(error) = error.filter(|_| !args.quiet) {
        line(&args.command[0], &error.to_string());
    }
    lookout
}

/// Neither the means nor the programs that share the copies were chosen by the caller.
fn unasked(args: &Args) -> bool {
    !args.quiet && args.means.is_empty() && args.with.is_empty()
}

/// Copies are paid for at each start.
fn dear(wide: &Wide) -> bool {
    matches!(wide.by, By::Copies { .. })
}

/// Wide text has saved real programs up to a tenth of their CPU time: docs/tool/try.md.
const GAIN: u32 = 10;

/// The cost of copies, against what they can gain.
fn cost(wide: &Wide) -> String {
    format!(
        "copies took {} ms of CPU time, as they do at each start: a run that takes less than about \
         {:.1} s of it loses by them (wideleaf stage and run --with pay once)",
        wide.cpu.as_millis(),
        (wide.cpu * GAIN).as_secs_f64()
    )
}

/// Says something of the program, in one line whatever names hold.
fn line(name: &OsStr, text: &str) {
    let line = format!("{}: {text}", name.display());
    tell!("wideleaf: run: {}", printable(&line));
}

/// The result.
fn words(done: Done) -> String {
    match done {
        Done::AsIs => "as it is".to_owned(),
        Done::NotThere => "cannot be started".to_owned(),
        Done::Staged => "its copy is on huge pages already (wideleaf stage --list)".to_owned(),
        Done::Tunable => format!("GLIBC_TUNABLES={TUNABLE}=1, for its libraries"),
        Done::Wide(wide) => wide_words(wide),
    }
}

fn wide_words(wide: Wide) -> String {
    let how = match wide.by {
        By::Filled { read: 0 } => "its own folios in the page cache",
        By::Filled { .. } => "its own folios in the page cache, read anew",
        By::Copies { user: true } => {
            "copies on a huge tmpfs in user and mount namespaces of its own"
        }
        By::Copies { user: false } => "copies on a huge tmpfs in a mount namespace of its own",
        By::Cache => "MADV_COLLAPSE in the page cache",
    };
    let size = |n| bytes(n, false);
    format!(
        "{how}: leaves of {} map {} of the {} in whole blocks, of {} of text; {} ms of CPU time",
        short(wide.pmd),
        size(wide.wide),
        size(wide.possible),
        size(wide.text),
        wide.cpu.as_millis()
    )
}
