// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab check`: the rows of matrix files as tests. A row that passed with the same inputs
//! is not run again; passes are kept in the cache folder.

use super::inputs;
use super::plan::{Entry, Planner};
use super::{INTERRUPTED, readable, stopped_by_signals, words};
use crate::screen::Screen;
use crate::stdout::{say, tell, write_out};
use crate::usage::STATUS;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use wideleaf_cache::Cache;
use wideleaf_kbuild::Interrupted;
use wideleaf_kit::events::{Event, Observer, Row};
use wideleaf_kit::table::{Table, left};
use wideleaf_lab::host;
use wideleaf_matrix::folder::{Folder, Planned, State};
use wideleaf_matrix::local::{self, Room};

const EXAMPLES: &str = "\
A set of a matrix file may have, besides what 'wideleaf lab matrix' takes:

  must-fail-with = \"Kernel panic\"   # or a list: the run must fail, and say one of them

A pass counts for the same inputs: options and expectations, kernels (series,
fragments, compiler, source), guest program, plugin, QEMU, disk, and the lab's
own sources. Rows run beside each other as CPUs and memory allow; a row whose
guests have several CPUs runs alone.

Examples:
  wideleaf lab check scripts/checks.toml --list
  wideleaf lab check scripts/checks.toml --only exec --all

Exit status:    0 all rows passed, 1 some did not, 2 wrong usage or a mistake
                in a file, 130 interrupted";

/// How long a row that no file has any more keeps its pass.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How many of the last lines of a run that failed are shown.
const LINES: usize = 40;

/// How often a row is looked at that another command runs.
const POLL: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Check {
    /// The matrix files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Run rows too that passed before with the same inputs
    #[arg(long)]
    all: bool,
    /// Show the rows, whether they passed before, and the kernels that they need; run nothing
    #[arg(long)]
    list: bool,
    /// Only rows whose name contains this; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Folder that gets a copy of each row's results, NAME.json
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A row that can be run.
struct Ready<'e> {
    entry: &'e Entry,
    planned: Planned,
}

/// The ends of rows, as they were printed.
#[derive(Default)]
struct Tally {
    passed: usize,
    /// Name and last lines of each row that failed.
    failed: Vec<(String, String)>,
}

impl Tally {
    fn fail(&mut self, name: &str, reason: &str, log: &str) -> Result<()> {
        say!("{name}: FAILED: {reason}")?;
        for line in log.lines() {
            say!("    {line}")?;
        }
        self.failed.push((name.into(), reason.into()));
        Ok(())
    }

    fn conclude(&self) -> Result<ExitCode> {
        for (name, reason) in &self.failed {
            say!("failed: {name}\n    {reason}")?;
        }
        say!("{} passed, {} failed", self.passed, self.failed.len())?;
        Ok(match self.failed.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

impl Check {
    /// Runs the check.
    ///
    /// # Errors
    ///
    /// If passes cannot be kept.
    pub fn run(&self) -> Result<ExitCode> {
        let rows = match self.rows() {
            Ok(rows) => rows,
            Err(text) => {
                tell!("wideleaf: {text}\nTry 'wideleaf lab check --help'.");
                return Ok(ExitCode::from(STATUS));
            }
        };
        let stop = stopped_by_signals()?;
        let screen = Screen::new();
        let cache = Cache::open()?;
        let mut planner = Planner::new(&cache, BTreeMap::new());
        planner.resolve(&rows, &screen)?;
        let mut tally = Tally::default();
        let mut entries = Vec::new();
        for row in rows {
            let name = row.name.clone();
            match planner.plan(row) {
                Ok(entry) => entries.push(entry),
                Err(error) => tally.fail(&name, &line(&error), "")?,
            }
        }
        let (kernels, lacking) = planner.count_kernels(entries.iter())?;
        say!("{kernels} kernels, {lacking} of them to be built")?;
        let folder = Folder::open(&cache.root().join("checks"))?;
        let mut ready = Vec::new();
        for entry in &entries {
            match inputs::planned(entry, &planner, &screen) {
                Ok(planned) => ready.push(Ready { entry, planned }),
                Err(error) => tally.fail(&entry.row.name, &line(&error), "")?,
            }
        }
        if self.list {
            drop(screen);
            return list(&ready, &folder);
        }
        let to_do = self.begin(&ready, &folder, &mut tally)?;
        let to_do = prepare(to_do, &planner, &stop, &screen, &mut tally)?;
        run(to_do, &folder, &stop, &screen, &mut tally)?;
        drop(screen);
        if stop.load(Ordering::SeqCst) {
            tell!("wideleaf: interrupted; rows that passed are kept");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        self.copy(&ready, &folder)?;
        folder.prune(KEPT)?;
        tally.conclude()
    }

    /// The rows of all files that are asked for.
    fn rows(&self) -> Result<Vec<wideleaf_matrix::file::Row>, String> {
        let mut rows: Vec<wideleaf_matrix::file::Row> = Vec::new();
        for file in &self.files {
            for row in words::read(file).map_err(|mistake| mistake.to_string())? {
                if rows.iter().any(|other| other.name == row.name) {
                    let (file, name) = (file.display(), &row.name);
                    return Err(format!(
                        "{file}:{}: another file has the row {name} too: give one a 'name'",
                        row.line
                    ));
                }
                rows.push(row);
            }
        }
        let all = rows.len();
        rows.retain(|row| {
            self.only.is_empty()
                || self
                    .only
                    .iter()
                    .any(|text| row.name.contains(text.as_str()))
        });
        match rows.is_empty() {
            true => Err(format!("--only: none of the {all} rows has such a name")),
            false => Ok(rows),
        }
    }

    /// Says which rows passed before; the others are to do, and have no pass from now on.
    fn begin<'r, 'e>(
        &self,
        ready: &'r [Ready<'e>],
        folder: &Folder,
        tally: &mut Tally,
    ) -> Result<Vec<&'r Ready<'e>>> {
        let mut to_do = Vec::new();
        for row in ready {
            let planned = &row.planned;
            folder.plan(planned)?;
            match state(folder, planned)? {
                State::Done { .. } if !self.all => {
                    let (when, _) = folder.when(&planned.key)?;
                    say!("{}: ok, passed before on {}", planned.name, date(when))?;
                    tally.passed += 1;
                }
                State::Running => to_do.push(row),
                _ => {
                    folder.forget(&planned.key)?;
                    to_do.push(row);
                }
            }
        }
        Ok(to_do)
    }

    fn copy(&self, ready: &[Ready<'_>], folder: &Folder) -> Result<()> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        std::fs::create_dir_all(output)
            .with_context(|| format!("cannot create {}", output.display()))?;
        for Ready { planned, .. } in ready {
            let from = folder.row(&planned.key).join("results.json");
            let to = output.join(format!("{}.json", planned.name));
            if planned.must_fail_with.is_empty() && from.exists() {
                std::fs::copy(&from, &to)
                    .with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
        Ok(())
    }
}

/// The state of a row. One that must fail leaves no results that could be read.
fn state(folder: &Folder, row: &Planned) -> Result<State> {
    match row.must_fail_with.is_empty() {
        true => folder.state(row, &readable),
        false => folder.state(row, &|_| Ok(())),
    }
}

/// Has kernels made. A row whose kernels cannot be had has failed.
fn prepare<'r, 'e>(
    to_do: Vec<&'r Ready<'e>>,
    planner: &Planner<'_>,
    stop: &AtomicBool,
    screen: &Screen,
    tally: &mut Tally,
) -> Result<Vec<&'r Ready<'e>>> {
    let mut good = Vec::new();
    for row in to_do {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        match planner.prepare(row.entry, screen) {
            Ok(()) => good.push(row),
            Err(error) if error.is::<Interrupted>() => stop.store(true, Ordering::SeqCst),
            Err(error) => tally.fail(&row.planned.name, &line(&error), "")?,
        }
    }
    Ok(good)
}

/// Runs these rows and says how each ended. One that another command runs is waited for: if it
/// passes there, it has passed.
fn run(
    to_do: Vec<&Ready<'_>>,
    folder: &Folder,
    stop: &AtomicBool,
    screen: &Screen,
    tally: &mut Tally,
) -> Result<()> {
    let program = std::env::current_exe()?;
    let room = Room::Machine {
        cpus: host::cpus(),
        memory: host::available_memory(),
    };
    let mut left: Vec<&Planned> = to_do.iter().map(|row| &row.planned).collect();
    screen.event(Event::Rows(left.len()));
    while !left.is_empty() {
        let ends = Mutex::new(Ends::default());
        let observer = |event: Event<'_>| {
            let Event::Row { row, now } = event else {
                return screen.event(event);
            };
            let mut ends = ends.lock().unwrap_or_else(|e| e.into_inner());
            ends.take(row, now);
            for text in std::mem::take(&mut ends.lines) {
                // Counted all the same.
                let _ = screen.print(&text);
            }
        };
        local::run(&left, folder, &program, room, stop, &observer)?;
        let ends = ends.into_inner().unwrap_or_else(|e| e.into_inner());
        tally.passed += ends.passed;
        for (name, reason) in ends.failed {
            let row = left.iter().find(|row| row.name == name);
            let log = row
                .map(|row| tail(&folder.log(&row.key)))
                .unwrap_or_default();
            tally.fail(&name, &reason, &log)?;
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
        left.retain(|row| ends.busy.contains(&row.name));
        for row in &left {
            while state(folder, row)? == State::Running && !stop.load(Ordering::SeqCst) {
                std::thread::sleep(POLL);
            }
        }
        left = run_elsewhere(left, folder, tally)?;
    }
    Ok(())
}

/// The rows that another command has not passed.
fn run_elsewhere<'r>(
    rows: Vec<&'r Planned>,
    folder: &Folder,
    tally: &mut Tally,
) -> Result<Vec<&'r Planned>> {
    let mut left = Vec::new();
    for row in rows {
        match state(folder, row)? {
            State::Done { .. } => {
                say!("{}: ok, by another command", row.name)?;
                tally.passed += 1;
            }
            _ => left.push(row),
        }
    }
    Ok(left)
}

/// How rows ended.
#[derive(Default)]
struct Ends {
    began: BTreeMap<String, Instant>,
    lines: Vec<String>,
    passed: usize,
    failed: Vec<(String, String)>,
    /// Another command runs them.
    busy: Vec<String>,
}

impl Ends {
    fn take(&mut self, row: &str, now: Row<'_>) {
        let seconds = self
            .began
            .get(row)
            .map_or(0, |since| since.elapsed().as_secs());
        match now {
            Row::Began(_) => drop(self.began.insert(row.into(), Instant::now())),
            Row::Done => {
                self.passed += 1;
                self.lines.push(format!("{row}: ok, {seconds} s\n"));
            }
            Row::Failed(reason) => {
                self.failed.push((row.into(), reason.into()));
            }
            Row::Left(_) => self.busy.push(row.into()),
        }
    }
}

/// The last lines of a run's log.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

fn list(ready: &[Ready<'_>], folder: &Folder) -> Result<ExitCode> {
    let mut table = Table::new(["STATE", "ROW", "COMMAND"].map(left));
    for Ready { planned, .. } in ready {
        let state = match state(folder, planned)? {
            State::Done { .. } => format!("passed {}", date(folder.when(&planned.key)?.0)),
            state => state.name().to_string(),
        };
        let command = format!("wideleaf lab run {}", shell_words::join(&planned.words));
        table.row([&state, &planned.name, &command]);
    }
    write_out(&table.render(true))?;
    Ok(ExitCode::SUCCESS)
}

/// An error in one line.
fn line(error: &anyhow::Error) -> String {
    format!("{error:#}").replace('\n', ", ")
}

/// `2026-11-25`
fn date(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time);
    time.map_or_else(|_| "?".into(), |time| time.strftime("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_and_said_as_steps_say_them() {
        let mut ends = Ends::default();
        ends.take("a", Row::Began(""));
        ends.take("a", Row::Done);
        ends.take("b", Row::Failed("it rained"));
        ends.take("c", Row::Left("another command runs it"));
        assert_eq!(ends.lines, ["a: ok, 0 s\n"]);
        assert_eq!(ends.passed, 1);
        assert_eq!(ends.failed, [("b".to_string(), "it rained".to_string())]);
        assert_eq!(ends.busy, ["c"]);
    }

    #[test]
    fn only_the_end_of_a_log_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let lines: Vec<_> = (0..100).map(|n| n.to_string()).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        let text = tail(&log);
        assert_eq!(text.lines().count(), LINES);
        assert_eq!(text.lines().next_back(), Some("99"));
        assert_eq!(tail(&dir.path().join("none")), "");
    }

    #[test]
    fn a_pass_is_dated() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_579_200);
        assert_eq!(date(time), "2026-11-25");
    }

    #[test]
    fn one_name_in_two_files_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "jobs = 'boot'").unwrap();
            path
        };
        let check = |files: Vec<PathBuf>, only: &[&str]| Check {
            files,
            all: false,
            list: false,
            only: only.iter().map(|text| text.to_string()).collect(),
            output: None,
        };
        let error = check(vec![file("a"), file("b")], &[]).rows().unwrap_err();
        assert!(error.contains("another file has the row"), "{error}");
        assert_eq!(check(vec![file("a")], &["boot"]).rows().unwrap().len(), 1);
        let error = check(vec![file("a")], &["storm"]).rows().unwrap_err();
        assert!(error.contains("none of the 1 rows"), "{error}");
    }
}
