// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf stage` and `wideleaf unstage`: aligned copies on huge pages in the
//! place of programs and libraries.

use crate::screen::Late;
use crate::stdout::{name, printable_path, say, tell, write_json, write_out};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use wideleaf_kit::size::bytes;
use wideleaf_kit::table::{Table, left, right};
use wideleaf_stage::{Health, Listing, Request, Stage, affected, apt_hook, drop_in, unit};

const EXAMPLES: &str = "\
Examples:
  Have the compiler's text on 2M pages, for all processes started from now on:
      wideleaf stage $(gcc -print-prog-name=cc1plus)
  A program and the libraries that it loads, in at most 256M of memory:
      wideleaf stage --libs --size 256M --memory 256M /usr/bin/node
  What is staged, and has any original been upgraded since?
      wideleaf stage --list
  The same at each boot, before a service starts, and off while apt replaces files:
      wideleaf stage --libs --size 256M --print unit /usr/bin/node
      wideleaf stage --print drop-in --service myapp /usr/bin/node
      wideleaf stage --print apt /usr/bin/node
  Back to the originals:
      wideleaf unstage --all

A staged file cannot be written or replaced, which package managers do: unstage it first.
Processes that run keep what they have, before and after.
Containers see the files of an image through an overlay, which does not show copies.

Exit status: 0 if everything named is staged (with --list: and is well), 1 if not, 2 for wrong usage.";

const UNSTAGE_EXAMPLES: &str = "\
Examples:
      wideleaf unstage /usr/bin/node
      wideleaf unstage --all

Processes that use a copy keep it, and its memory, until they end; `stage --list` counts it. The
copy's mount moves to /run/wideleaf/in-use, by which name perf and debuggers find it then. Below a
shared mount, as systemd's root is, the kernel moves none: the file is left staged, unless --force.

Exit status: 0 if it is not staged any more, 1 if not, 2 for wrong usage.";

/// Options of `wideleaf stage`.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Programs or shared libraries
    #[arg(required_unless_present = "list", value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Stage the libraries that the programs load at their start, too
    #[arg(long)]
    libs: bool,
    /// Limit of the tmpfs; if not given, what the copies need
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_kit::size::parse)]
    size: Option<u64>,
    /// Charge the copies to a control group of their own with this limit
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_kit::size::parse)]
    memory: Option<u64>,
    /// Stage files whose text has no block of 2M, too
    #[arg(long)]
    always: bool,
    /// List what is staged
    #[arg(short, long, conflicts_with_all = ["programs", "libs", "size", "memory", "always"])]
    list: bool,
    /// Print a systemd unit, a drop-in for a service or a hook for apt; stage nothing
    #[arg(long, value_name = "WHAT")]
    print: Option<Print>,
    /// The service that the drop-in is for
    #[arg(long, value_name = "NAME", required_if_eq("print", "drop-in"))]
    service: Option<String>,
    /// Print JSON (docs/tool/stage.md has the schema)
    #[arg(short = 'J', long)]
    json: bool,
    /// Print sizes in bytes
    #[arg(short, long)]
    bytes: bool,
    /// Folder for the journal and the tmpfs
    #[arg(long, value_name = "DIR", default_value = "/run/wideleaf")]
    run_dir: PathBuf,
}

/// Options of `wideleaf unstage`.
#[derive(clap::Args)]
#[command(after_long_help = UNSTAGE_EXAMPLES)]
pub struct UnstageArgs {
    /// Files that are staged
    #[arg(required_unless_present_any = ["all", "dpkg"], value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Everything that is staged
    #[arg(short, long, conflicts_with = "programs")]
    all: bool,
    /// Also unstage files whose processes would lose the name of their text
    #[arg(short, long)]
    force: bool,
    /// The files of the packages that apt lists on standard input (for a hook, see stage --print apt)
    #[arg(long, conflicts_with_all = ["programs", "all"])]
    dpkg: bool,
    /// Folder for the journal and the tmpfs
    #[arg(long, value_name = "DIR", default_value = "/run/wideleaf")]
    run_dir: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    /// A unit that stages the programs at boot
    Unit,
    /// A drop-in that has --service start after that
    DropIn,
    /// A hook that unstages the files of a package while dpkg replaces them
    Apt,
}

/// Runs `wideleaf stage`.
///
/// # Errors
///
/// Why nothing was staged.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(what) = args.print {
        return print(what, &args);
    }
    let stage = Stage::new(args.run_dir.clone());
    if args.list {
        return list(&stage.list()?, &args);
    }
    let request = Request {
        programs: args.programs.clone(),
        libs: args.libs,
        size: args.size,
        memory: args.memory,
        always: args.always,
    };
    let mut late = Late::new();
    let summary = stage.stage(&request, &mut |path| {
        late.show(|| format!("copying {}", printable_path(path)));
    })?;
    drop(late);
    if args.json {
        let mut value = serde_json::to_value(&summary)?;
        value["schema"] = json!("wideleaf-stage-1");
        names(&mut value["staged"], summary.staged.iter().map(|s| &s.path));
        names(
            &mut value["skipped"],
            summary.skipped.iter().map(|s| &s.path),
        );
        names(&mut value["notes"], summary.notes.iter().map(|s| &s.path));
        write_json(&value)?;
    } else {
        let mut table = files_table();
        for file in &summary.staged {
            table.row([
                "staged".to_string(),
                bytes(file.usable, args.bytes),
                bytes(file.memory, args.bytes),
                printable_path(&file.path),
            ]);
        }
        write_out(&table.render(true))?;
    }
    for skipped in summary.skipped.iter().chain(&summary.notes) {
        tell!(
            "wideleaf: stage: {}: {}",
            printable_path(&skipped.path),
            skipped.why
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `wideleaf unstage`.
///
/// # Errors
///
/// If something is not staged, or cannot be unmounted.
pub fn unstage(args: UnstageArgs) -> Result<ExitCode> {
    if args.programs.is_empty() && !args.all && !args.dpkg {
        bail!("name what to unstage, or --all");
    }
    let stage = Stage::new(args.run_dir);
    let mut programs = args.programs;
    if args.dpkg {
        let affected = affected(std::io::stdin()).context("cannot ask dpkg for files")?;
        let staged = stage.list()?.files.into_iter();
        let staged = staged.filter(|f| f.health != Health::InUse);
        let staged = staged.map(|f| f.staged.path);
        programs = staged.filter(|path| affected.contains(path)).collect();
        if programs.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    for path in stage.unstage(&programs, args.force)? {
        say!("{}", printable_path(&path))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Paths as all commands write them in JSON.
fn names<'a>(entries: &mut serde_json::Value, paths: impl Iterator<Item = &'a PathBuf>) {
    let entries = entries.as_array_mut().into_iter().flatten();
    for (entry, path) in entries.zip(paths) {
        name(entry, "path", path);
    }
}

fn files_table() -> Table {
    Table::new([
        left("STATE"),
        right("2M-TEXT"),
        right("MEMORY"),
        left("FILE"),
    ])
}

fn list(listing: &Listing, args: &Args) -> Result<ExitCode> {
    let well = |health| matches!(health, Health::Staged | Health::InUse);
    let well = listing.files.iter().all(|f| well(f.health));
    if args.json {
        let mut value = serde_json::to_value(listing)?;
        value["schema"] = json!("wideleaf-stage-list-1");
        names(
            &mut value["files"],
            listing.files.iter().map(|f| &f.staged.path),
        );
        write_json(&value)?;
    } else if !listing.files.is_empty() {
        let mut table = files_table();
        for file in &listing.files {
            table.row([
                state(file.health).to_string(),
                bytes(file.staged.usable, args.bytes),
                bytes(file.staged.memory, args.bytes),
                printable_path(&file.staged.path),
            ]);
        }
        write_out(&table.render(true))?;
        let limit = match listing.memory {
            Some(memory) => format!(", memory limit {}", bytes(memory, args.bytes)),
            None => String::new(),
        };
        say!(
            "\n{} of {} used{limit}",
            bytes(listing.used, args.bytes),
            bytes(listing.size, args.bytes)
        )?;
    }
    for file in &listing.files {
        let path = printable_path(&file.staged.path);
        let advice = match file.health {
            Health::Staged => continue,
            Health::OriginalChanged => {
                "the original is another file now; new processes still get the copy of the old one: unstage it, or stage it again"
            }
            Health::NotMounted => {
                "is not staged any more: it was replaced or unmounted; unstage it, or stage it again"
            }
            Health::InUse => {
                tell!("wideleaf: stage: {path}: {}", in_use(file.processes));
                continue;
            }
            Health::Unknown => "the original below the copy cannot be looked at (run as root)",
            Health::Unfinished => {
                "was left by a command that was killed; the next stage or unstage undoes it"
            }
        };
        tell!("wideleaf: stage: {path}: {advice}");
    }
    if !listing.here && !listing.files.is_empty() {
        tell!(
            "wideleaf: stage: this was staged in another mount namespace: states are as seen from here"
        );
    }
    Ok(match well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn in_use(processes: usize) -> String {
    match processes {
        0 => {
            "is unstaged, and nothing uses the copy any more: the next stage or unstage removes it"
                .to_owned()
        }
        n => format!("is unstaged; processes that use the copy and its memory still: {n}"),
    }
}

fn state(health: Health) -> &'static str {
    match health {
        Health::Staged => "staged",
        Health::OriginalChanged => "original changed",
        Health::NotMounted => "not mounted",
        Health::Unknown => "unknown",
        Health::Unfinished => "unfinished",
        Health::InUse => "in use",
    }
}

fn print(what: Print, args: &Args) -> Result<ExitCode> {
    let wideleaf = std::env::current_exe()?;
    let text = match what {
        Print::Unit => unit(&wideleaf, &arguments(args)?),
        Print::DropIn => drop_in(args.service.as_deref().unwrap_or_default()),
        Print::Apt => apt_hook(&wideleaf),
    };
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The same command line, for a unit, with full paths.
fn arguments(args: &Args) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for (given, name) in [(args.libs, "--libs"), (args.always, "--always")] {
        words.extend(given.then(|| name.to_string()));
    }
    for (size, name) in [(args.size, "--size"), (args.memory, "--memory")] {
        words.extend(size.map(|size| format!("{name}={size}")));
    }
    for program in &args.programs {
        let path = std::path::absolute(program)?;
        match path.to_str() {
            Some(path) => words.push(path.to_string()),
            None => bail!(
                "{}: its name is not UTF-8, as systemd wants it",
                printable_path(program)
            ),
        }
    }
    Ok(words)
}
