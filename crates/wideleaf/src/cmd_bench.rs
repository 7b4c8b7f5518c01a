// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf bench`: the exec benchmark on this machine.

use crate::stdout::{tell, write_json_pretty, write_out};
use crate::usage::{Usage, misuse};
use anyhow::Result;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_bench::exec::{Surroundings, Watcher, run as run_exec};
use wideleaf_bench::file;
use wideleaf_bench::options::{BadOptions, DEFAULT_SIZE, ExecOptions, Stride};
use wideleaf_bench::report::{ExecReport, Figure, PhaseReport};
use wideleaf_jobs::exec::hardware;
use wideleaf_kit::arch::Arch;
use wideleaf_kit::size::{long, parse, short};
use wideleaf_kit::table::{Table, left, right};
use wideleaf_lab::results::Results;

/// Arguments of `wideleaf bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Call an executable file of return stubs, cold and at random
    ///
    /// Maps the file, calls every stub once from an empty page cache, then random ones with
    /// everything mapped. Reports time, page faults, bytes read and, if the machine has them, the
    /// CPU's own counts of instruction TLB misses. Time includes mispredicted branches and cache
    /// misses; what the lab counts in a guest does not. 'lab run exec' does the same in a guest;
    /// --result writes what this machine counted for the same report.
    Exec(Exec),
    /// Make a stub file that `exec` or a disk image can use
    Create(Create),
}

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf bench exec
  wideleaf bench exec --size 64M --stride 4K --json
  wideleaf bench exec --dir /mnt/xfs --calls 1000000 --seed 7
  wideleaf bench exec --no-cold --align 2M
  wideleaf bench exec --result mine.json && wideleaf lab report lab.json mine.json -o both.html
  wideleaf bench exec -n | awk '$2 == \"major-faults\" { print $1, $3 }'")]
struct Exec {
    /// Use this stub file; it is made, and kept, if it does not exist
    #[arg(long, value_name = "PATH", conflicts_with = "dir")]
    file: Option<PathBuf>,

    /// Make a stub file in this folder and remove it afterwards
    #[arg(long, value_name = "PATH", default_value = "/var/tmp")]
    dir: PathBuf,

    /// Bytes of text [default: 512M, or the whole of an existing file]
    #[arg(long, value_parser = parse, value_name = "SIZE")]
    size: Option<u64>,

    /// Distance between two called stubs: `page`, or a multiple of 4K
    #[arg(long, default_value = "page")]
    stride: Stride,

    /// Number of random calls [default: 8 for each stub]
    #[arg(long, value_name = "N")]
    calls: Option<u64>,

    /// Seed of the random sequence
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Leave the cold sweep out
    #[arg(long)]
    no_cold: bool,

    /// Leave the random calls out
    #[arg(long)]
    no_random: bool,

    /// Map at a multiple of this instead of where the kernel likes
    #[arg(long, value_parser = parse, value_name = "SIZE")]
    align: Option<u64>,

    /// Write a results file too, which 'wideleaf lab report' shows beside what the lab modelled
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print no line of column names
    #[arg(short, long)]
    noheadings: bool,
}

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf bench create stubs --size 512M
  wideleaf bench create stubs-arm64 --arch arm64")]
struct Create {
    /// The file to make; it must not exist
    path: PathBuf,

    /// Its size, a multiple of 4K
    #[arg(long, value_parser = parse, default_value = "512M")]
    size: u64,

    /// Architecture of the stubs: arm64 or x86_64 [default: this machine's]
    #[arg(long, value_parser = arch)]
    arch: Option<Arch>,
}

/// Runs `wideleaf bench`.
pub fn run(args: Args) -> Result<ExitCode> {
    let done = match args.action {
        Action::Exec(args) => exec(&args),
        Action::Create(args) => create(&args),
    };
    done.map_err(as_usage)?;
    Ok(ExitCode::SUCCESS)
}

/// The request cannot be run, whatever the machine.
fn as_usage(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<BadOptions>() {
        Ok(bad) => Usage(bad.to_string()).into(),
        Err(other) => other,
    }
}

fn create(args: &Create) -> Result<()> {
    file::create(&args.path, host_or(args.arch)?, args.size)
}

/// By the name that this project has for it, that of uname(2) or that of Debian.
fn arch(text: &str) -> Result<Arch, String> {
    let other = match text {
        "amd64" => Some(Arch::X86_64),
        _ => Arch::of_machine(text),
    };
    let known = text.parse::<Arch>();
    known.or_else(|unknown| other.ok_or(unknown.to_string()))
}

fn host_or(arch: Option<Arch>) -> Result<Arch> {
    match arch.or(Arch::host()) {
        Some(arch) => Ok(arch),
        None => misuse!("no stubs for this machine; give --arch"),
    }
}

/// Says on stderr what is going on, for the file may be large.
struct Chatty;

impl Watcher for Chatty {
    fn progress(&mut self, text: &str) {
        tell!("wideleaf: {text}");
    }
}

fn exec(args: &Exec) -> Result<()> {
    let mut options = ExecOptions {
        size: args.size,
        stride: args.stride,
        calls: args.calls,
        seed: args.seed,
        cold: !args.no_cold,
        random: !args.no_random,
        align: args.align,
        ..Default::default()
    };
    let size = args.size.unwrap_or(DEFAULT_SIZE);
    let report = match &args.file {
        Some(path) => {
            if !path.exists() {
                check(&options, size)?;
                announce(size, path);
                file::create(path, host_or(None)?, size)?;
            }
            options.file = path.clone();
            measure(&options)?
        }
        None => {
            check(&options, size)?;
            announce(size, &args.dir);
            let stubs = file::create_unnamed(&args.dir, host_or(None)?, size)?;
            options.file = stubs.path();
            let report = measure(&options)?;
            ExecReport {
                file: format!("{} (removed)", args.dir.display()),
                ..report
            }
        }
    };
    for warning in &report.warnings {
        tell!("wideleaf: warning: {warning}");
    }
    if args.json {
        write_json_pretty(&report)?;
    } else {
        tell!("{}", headline(&report));
        write_out(&table(&report, !args.noheadings))?;
    }
    // Last, so that what was measured is shown even if the file cannot be written.
    match &args.result {
        Some(path) => Results::of_hardware(hardware::counted(&report)?).write(path),
        None => Ok(()),
    }
}

/// Before a file is written that the request could not use.
fn check(options: &ExecOptions, size: u64) -> Result<()> {
    Ok(options.plan(size, wideleaf_bench::page_size()).map(drop)?)
}

fn announce(size: u64, place: &Path) {
    tell!(
        "wideleaf: writing {} of stubs to {}",
        long(size),
        place.display()
    );
}

fn measure(options: &ExecOptions) -> Result<ExecReport> {
    run_exec(options, &Surroundings::native(), &mut Chatty)
}

fn headline(report: &ExecReport) -> String {
    format!(
        "exec text: {} of return stubs every {}, {}, {}, {} pages, mapped at a multiple of {}",
        long(report.size),
        short(report.stride),
        report.filesystem,
        report.arch,
        short(report.page_size),
        short(report.address_alignment),
    )
}

/// One figure a line: phase, figure, value, and a note where there is no value.
fn table(report: &ExecReport, headings: bool) -> String {
    let mut table = Table::new([left("PHASE"), left("FIGURE"), right("VALUE"), left("NOTE")]);
    if let Some(cold) = &report.cold {
        phase_rows(&mut table, "cold", &cold.phase);
        table.row(row(
            "cold",
            "cached-before",
            &Figure::Value(cold.resident_before),
        ));
    }
    if let Some(random) = &report.random {
        phase_rows(&mut table, "random", random);
    }
    if let Some(smaps) = &report.smaps {
        table.row(row("mapped", "resident", &Figure::Value(smaps.rss)));
        table.row(row("mapped", "file-pmd", &smaps.file_pmd_mapped));
        table.row(row("mapped", "shmem-pmd", &smaps.shmem_pmd_mapped));
    }
    table.render(headings)
}

fn phase_rows(table: &mut Table, phase: &str, report: &PhaseReport) {
    let mut push = |name: &str, figure: &Figure| table.row(row(phase, name, figure));
    push("calls", &Figure::Value(report.calls));
    push("minor-faults", &Figure::Value(report.faults.minor));
    push("major-faults", &Figure::Value(report.faults.major));
    push("read-bytes", &report.read_bytes);
    push("nanoseconds", &Figure::Value(report.nanoseconds));
    for (name, figure) in &report.events {
        push(name, figure);
    }
}

fn row(phase: &str, name: &str, figure: &Figure) -> [String; 4] {
    let (value, note) = match figure {
        Figure::Value(value) => (value.to_string(), String::new()),
        Figure::Missing { .. } => ("-".into(), figure.to_string()),
    };
    [phase.into(), name.into(), value, note]
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_bench::report::Faults;

    fn report() -> ExecReport {
        let mut phase = PhaseReport {
            calls: 16,
            faults: Faults {
                minor: 12,
                major: 4,
            },
            read_bytes: Figure::Value(65_536),
            read_requests: None,
            nanoseconds: 123_456,
            events: Default::default(),
            reclaim: Default::default(),
        };
        phase
            .events
            .insert("itlb-misses".into(), Figure::missing("no PMU"));
        ExecReport {
            file: "/x".into(),
            filesystem: "xfs".into(),
            arch: Arch::Arm64,
            page_size: 4096,
            size: 65_536,
            stride: 4096,
            stubs: 16,
            seed: 1,
            address: 0x20_0000,
            address_alignment: 0x20_0000,
            align: None,
            cold: None,
            random: Some(phase),
            smaps: None,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn every_line_has_three_words_and_a_missing_figure_says_why() {
        let text = table(&report(), false);
        for line in text.lines() {
            assert!(line.split_whitespace().count() >= 3, "{line}");
            assert_eq!(line, line.trim_end());
        }
        let words = |name: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            line.split_whitespace().map(String::from).collect()
        };
        assert_eq!(words("major-faults"), ["random", "major-faults", "4"]);
        assert_eq!(
            words("itlb-misses")[2..],
            ["-", "not", "available:", "no", "PMU"]
        );
    }

    #[test]
    fn headings_can_be_left_out() {
        assert!(table(&report(), true).starts_with("PHASE"));
        assert!(table(&report(), false).starts_with("random"));
    }

    #[test]
    fn the_headline_says_what_ran() {
        let line = headline(&report());
        for word in [
            "64 KiB",
            "every 4K",
            "xfs",
            "arm64",
            "4K pages",
            "multiple of 2M",
        ] {
            assert!(line.contains(word), "`{line}` lacks `{word}`");
        }
    }
}
