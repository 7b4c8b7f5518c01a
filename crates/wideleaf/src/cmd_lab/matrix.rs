// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab matrix`: many runs listed in a file.

pub mod check;
mod inputs;
mod plan;
#[cfg(test)]
mod sources;
mod words;

use crate::screen::Screen;
use crate::stdout::{say, tell, write_json, write_out};
use crate::usage::STATUS;
use anyhow::Result;
use plan::{Entry, Planner};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wideleaf_cache::Cache;
use wideleaf_kbuild::Interrupted;
use wideleaf_kit::events::{Event, Observer, Row};
use wideleaf_kit::table::{Table, left};
use wideleaf_lab::host;
use wideleaf_lab::results::Results;
use wideleaf_matrix::attempt::{self, Outcome};
use wideleaf_matrix::folder::{Folder, Planned, State};
use wideleaf_matrix::local::{self, Room};
use wideleaf_matrix::slurm::Slurm;

const EXAMPLES: &str = "\
A matrix file (TOML) lists what is multiplied out into rows, each of which is
one 'wideleaf lab run':

  bases = [\"6.12\", \"7.3\"]
  machines = \"all\"                 # arm64, x86_64
  page-sizes = \"all\"               # those that the machine has

  [[set]]
  jobs = [\"exec\", \"program\"]

  [[set]]
  name = \"exec-8M\"                 # results: 6.12-arm64-64K.exec-8M.json
  jobs = \"exec\"
  variants = [\"pristine\", \"reads\", \"patched\"]
  options = { read-ahead = \"8M\" }  # of 'lab run'; a list of tables: more rows

A row that is done is not done again as long as its options and kernels are the
same; one that failed is left alone without --failed. After any end of a
matrix, the same command goes on where it was.

Examples:
  wideleaf lab matrix docs/measured.toml -o results --list
  wideleaf lab matrix docs/measured.toml -o results
  wideleaf lab matrix docs/measured.toml -o results --only 7.3-arm64 --failed
  wideleaf lab matrix my.toml -o /shared/results --on slurm --sbatch '--partition=short'

Exit status:    0 all rows are done, 1 some are not, 2 wrong usage or a mistake
                in the file, 130 interrupted";

/// How long Slurm may give no answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// Exit status of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Where rows run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// This machine
    Here,
    /// The nodes of a Slurm cluster
    Slurm,
}

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Matrix {
    /// The matrix file
    file: PathBuf,
    /// Folder that keeps the results, one file a row, and what is left to do
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Show the rows and what has become of them, and run nothing
    #[arg(long, visible_alias = "dry-run")]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Do the rows that failed, and no others
    #[arg(long)]
    failed: bool,
    /// Do rows again that were measured with another guest program, plugin or QEMU
    #[arg(long)]
    outdated: bool,
    /// Only rows whose name contains this; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Build from the newest sources, not those that the folder began with: rows
    /// of other sources are done again
    #[arg(long)]
    newest: bool,
    /// Rows that run at once [default: as many as this machine's CPUs and memory hold]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Where rows run
    #[arg(long, value_enum, default_value_t = On::Here)]
    on: On,
    /// Further options for sbatch; may be repeated
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// With --on slurm: submit and return; the same command collects
    #[arg(long)]
    no_wait: bool,
    /// Seconds between two looks at Slurm's queue
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    poll: u32,
}

/// The command of a cluster's node for one row.
#[derive(clap::Args)]
pub struct MatrixRow {
    /// The results folder
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// The row
    key: String,
}

fn readable(path: &Path) -> Result<()> {
    Results::read(path).map(drop)
}

/// Set by the first signal that would end us; the second one does.
fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let status = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

impl Matrix {
    /// Runs the matrix.
    ///
    /// # Errors
    ///
    /// If the results folder cannot be used, or Slurm is not there.
    pub fn run(&self) -> Result<ExitCode> {
        let misuse = |text: &str| {
            tell!("wideleaf: {text}\nTry 'wideleaf lab matrix --help'.");
            Ok(ExitCode::from(STATUS))
        };
        if self.on == On::Here && (self.no_wait || !self.sbatch.is_empty()) {
            return misuse("--sbatch and --no-wait are for --on slurm");
        }
        let rows = match words::read(&self.file) {
            Ok(rows) => rows,
            Err(mistake) => return misuse(&mistake.to_string()),
        };
        if let Some(row) = rows.iter().find(|row| !row.must_fail_with.is_empty()) {
            let text = "'must-fail-with' is for checks, which have no results: run it by \
                        'wideleaf lab check'";
            return misuse(&format!("{}:{}: {text}", self.file.display(), row.line));
        }
        let all = rows.len();
        let asked = |name: &str| {
            self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
        };
        let rows: Vec<_> = rows.into_iter().filter(|row| asked(&row.name)).collect();
        if rows.is_empty() {
            return misuse(&format!("--only: none of the {all} rows has such a name"));
        }
        if self.list {
            return self.show(rows);
        }
        self.work(rows)
    }

    /// Shows the rows; nothing is written or fetched.
    fn show(&self, rows: Vec<wideleaf_matrix::file::Row>) -> Result<ExitCode> {
        let folder = Folder::at(&self.output);
        let cache = Cache::open()?;
        let planner = Planner::new(&cache, folder.sources()?);
        let entries: Result<Vec<_>> = rows.into_iter().map(|row| planner.look(row)).collect();
        self.report(&entries?, &folder)?;
        Ok(ExitCode::SUCCESS)
    }

    fn work(&self, rows: Vec<wideleaf_matrix::file::Row>) -> Result<ExitCode> {
        let stop = stopped_by_signals()?;
        let folder = Folder::open(&self.output)?;
        let program = std::env::current_exe()?;
        let screen = Screen::new();
        let cluster = self.cluster(&folder, &program, &stop, &screen);
        if self.on == On::Slurm {
            cluster.require()?;
        }
        let cache = Cache::open()?;
        let sources = match self.newest {
            true => Default::default(),
            false => folder.sources()?,
        };
        let mut planner = Planner::new(&cache, sources);
        planner.resolve(&rows, &screen)?;
        folder.keep_sources(planner.sources())?;
        let entries: Result<Vec<_>> = rows.into_iter().map(|row| planner.plan(row)).collect();
        let entries = entries?;
        let queued = match self.on {
            On::Slurm => cluster.queued(
                &entries
                    .iter()
                    .filter_map(Entry::planned)
                    .collect::<Vec<_>>(),
            )?,
            On::Here => Default::default(),
        };
        let (mut to_do, mut under_way) = (Vec::new(), Vec::new());
        for row in entries.iter().filter_map(Entry::planned) {
            match folder.state(row, &readable)? {
                _ if queued.contains(&row.key) => under_way.push(row),
                state if self.wants(&state) => to_do.push(row),
                State::Done { .. } => folder.link(row)?,
                _ => {}
            }
        }
        let to_do = self.prepare(&planner, &entries, to_do, &folder, &stop, &screen)?;
        screen.event(Event::Rows(to_do.len() + under_way.len()));
        let result = match self.on {
            _ if stop.load(Ordering::SeqCst) => Ok(()),
            On::Here => local::run(&to_do, &folder, &program, self.room(), &stop, &screen),
            On::Slurm => cluster.submit(&to_do).and_then(|()| {
                if self.no_wait {
                    return Ok(());
                }
                cluster.wait(&[under_way, to_do].concat())
            }),
        };
        drop(screen);
        self.report(&entries, &folder)?;
        result?;
        self.conclude(&entries, &folder, &stop)
    }

    fn cluster<'a>(
        &self,
        folder: &'a Folder,
        program: &'a Path,
        stop: &'a AtomicBool,
        observer: &'a dyn Observer,
    ) -> Slurm<'a> {
        let ours = |name: &str| name == "XDG_CACHE_HOME" || name.starts_with("WIDELEAF_");
        let options = self
            .sbatch
            .iter()
            .flat_map(|text| shell_words::split(text).unwrap_or_else(|_| vec![text.clone()]));
        Slurm {
            folder,
            program,
            environment: std::env::vars().filter(|(name, _)| ours(name)).collect(),
            options: options.collect(),
            at_once: self.jobs.map(|jobs| jobs as usize),
            poll: Duration::from_secs(self.poll.into()),
            patience: PATIENCE,
            bin: PathBuf::new(),
            stop,
            observer,
            readable: &readable,
        }
    }

    fn room(&self) -> Room {
        match self.jobs {
            Some(jobs) => Room::Rows(jobs as usize),
            None => Room::Machine {
                cpus: host::cpus(),
                memory: host::available_memory(),
            },
        }
    }

    /// Whether a row in this state is to be done.
    fn wants(&self, state: &State) -> bool {
        match state {
            State::Failed { .. } => self.failed,
            State::ToDo | State::Queued { .. } => !self.failed,
            State::Done { outdated } => *outdated && self.outdated && !self.failed,
            State::Running => false,
        }
    }

    /// Has kernels and disks made, so that rows find them; gives the rows that can be run.
    fn prepare<'e>(
        &self,
        planner: &Planner<'_>,
        entries: &'e [Entry],
        to_do: Vec<&'e Planned>,
        folder: &Folder,
        stop: &AtomicBool,
        screen: &Screen,
    ) -> Result<Vec<&'e Planned>> {
        let mut good = Vec::new();
        for row in to_do {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            folder.plan(row)?;
            let entry = entries.iter().find(|entry| entry.row.name == row.name);
            match entry.map_or(Ok(()), |entry| planner.prepare(entry, screen)) {
                Ok(()) => good.push(row),
                Err(error) if error.is::<Interrupted>() => {
                    stop.store(true, Ordering::SeqCst);
                }
                Err(error) => {
                    let reason = &format!("{error:#}").replace('\n', ", ");
                    folder.fail(&row.key, reason)?;
                    let (row, now) = (&row.name, Row::Failed(reason));
                    screen.event(Event::Row { row, now });
                }
            }
        }
        Ok(good)
    }

    fn report(&self, entries: &[Entry], folder: &Folder) -> Result<()> {
        let states: Result<Vec<_>> = entries
            .iter()
            .map(|entry| entry.state(folder, &readable))
            .collect();
        let states = states?;
        if self.json {
            let pairs = entries.iter().zip(&states);
            let rows: Vec<_> = pairs.map(|(e, s)| document(e, s, folder)).collect();
            return write_json(&json!({ "output": self.output, "rows": rows }));
        }
        if self.list {
            let mut table = Table::new(["STATE", "ROW", "COMMAND"].map(left));
            for (entry, state) in entries.iter().zip(&states) {
                let command = format!("wideleaf lab run {}", shell_words::join(&entry.row.words));
                table.row([state.name(), &entry.row.name, &command]);
            }
            write_out(&table.render(true))?;
        }
        for (entry, state) in entries.iter().zip(&states) {
            if let (State::Failed { reason }, Some(row)) = (state, entry.planned()) {
                let log = folder.log(&row.key);
                say!("failed: {}: {reason} (log: {})", row.name, log.display())?;
            }
        }
        say!("{}", summary(&states))
    }

    fn conclude(&self, entries: &[Entry], folder: &Folder, stop: &AtomicBool) -> Result<ExitCode> {
        let mut undone = 0;
        for entry in entries {
            if !matches!(entry.state(folder, &readable)?, State::Done { .. }) {
                undone += 1;
            }
        }
        if stop.load(Ordering::SeqCst) {
            tell!("wideleaf: interrupted; the same command goes on from here");
            if self.on == On::Slurm {
                tell!("wideleaf: submitted rows go on in Slurm; scancel ends them");
            }
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Ok(match undone {
            0 => ExitCode::SUCCESS,
            _ if self.no_wait => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

/// `72 rows: 70 done, 1 failed, 1 to do`
fn summary(states: &[State]) -> String {
    let of = |name: &str| states.iter().filter(|state| state.name() == name).count();
    let names = ["done", "outdated", "failed", "running", "queued", "to do"];
    let counts: Vec<_> = names
        .iter()
        .map(|name| (of(name), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let rows = if states.len() == 1 { "row" } else { "rows" };
    format!("{} {rows}: {}", states.len(), counts.join(", "))
}

fn document(entry: &Entry, state: &State, folder: &Folder) -> serde_json::Value {
    let [base, arch, page_size] = &entry.row.machine;
    let mut row = json!({
        "name": entry.row.name,
        "base": base,
        "arch": arch,
        "page_size": page_size,
        "arguments": entry.row.words,
        "state": state.name(),
    });
    match state {
        State::Failed { reason } => row["reason"] = reason.as_str().into(),
        State::Queued { job } => row["job"] = job.as_str().into(),
        _ => {}
    }
    if let Some(planned) = entry.planned() {
        let path = folder.row(&planned.key);
        row["key"] = planned.key.as_str().into();
        row["log"] = path.join("log").to_string_lossy().into();
        if matches!(state, State::Done { .. }) {
            row["results"] = path.join("results.json").to_string_lossy().into();
        }
    }
    row
}

impl MatrixRow {
    /// Runs the row.
    ///
    /// # Errors
    ///
    /// If the results folder cannot be used.
    pub fn run(&self) -> Result<ExitCode> {
        let stop = stopped_by_signals()?;
        let folder = Folder::open(&self.output)?;
        let row = folder.planned(&self.key)?;
        if folder.state(&row, &readable)? == (State::Done { outdated: false }) {
            return Ok(ExitCode::SUCCESS);
        }
        let outcome = attempt::attempt(&folder, &row, &std::env::current_exe()?, &stop)?;
        match outcome {
            Outcome::Done => return Ok(ExitCode::SUCCESS),
            Outcome::Failed(reason) => tell!("wideleaf: {}: {reason}", row.name),
            Outcome::Busy => tell!("wideleaf: {}: another command runs it", row.name),
            Outcome::Stopped => tell!("wideleaf: {}: stopped", row.name),
        }
        Ok(ExitCode::FAILURE)
    }
}
