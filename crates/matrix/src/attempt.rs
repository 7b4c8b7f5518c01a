// SPDX-License-Identifier: GPL-2.0-only
//! One row: `wideleaf lab run` as a process of its own, and what becomes of its results.

use crate::folder::{Folder, Planned};
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wideleaf_kit::scratch::Scratch;

/// Room that is taken in the results folder before a row begins, and given back when its results
/// are written: a run of an hour must not end where there is no place for them. The largest
/// results seen have 2 MB.
const RESERVE: i64 = 8 << 20;

/// How long a run may take to clean up when it is told to end.
const GRACE: Duration = Duration::from_secs(20);

/// How the names of rows' temporary folders begin.
const KIND: &str = "wideleaf-row";

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are results.
    Done,
    /// It failed, for this reason.
    Failed(String),
    /// Somebody else runs this row.
    Busy,
    /// It was told to stop; the row is as it was before.
    Stopped,
}

/// Runs `row` by `program`, until `stop` is set. Must be called from a thread that outlives the
/// run, because the kernel ends the run with this thread.
///
/// # Errors
///
/// If the results folder cannot be written to. The row is not done then, and others are as they
/// were; where there were results already, the error names the file that has them.
pub fn attempt(
    folder: &Folder,
    row: &Planned,
    program: &Path,
    stop: &AtomicBool,
) -> Result<Outcome> {
    attempt_in(&std::env::temp_dir(), folder, row, program, stop)
}

/// [`attempt`] with its temporary folder below `temporary`.
fn attempt_in(
    temporary: &Path,
    folder: &Folder,
    row: &Planned,
    program: &Path,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let Some(_lock) = folder.lock(&row.key)? else {
        return Ok(Outcome::Busy);
    };
    let reserve = Reserve::take(&folder.row(&row.key))?;
    let log = folder.log(&row.key);
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    folder.begin(&row.key)?;
    // What matrices left that were killed.
    wideleaf_kit::scratch::sweep(temporary, KIND);
    let scratch = Scratch::new(temporary, KIND)
        .with_context(|| format!("cannot create a folder in {}", temporary.display()))?;
    let results = scratch.path().join("results.json");
    let since = Instant::now();
    let mut command = Command::new(program);
    command
        .args(["lab", "run"])
        .args(&row.words)
        .arg("--json")
        .arg(&results);
    let mut child =
        spawn(&mut command, output).with_context(|| format!("cannot run {}", program.display()))?;
    let status = wait(&mut child, stop)?;
    drop(reserve);
    if !status.success() && stop.load(Ordering::SeqCst) {
        return Ok(Outcome::Stopped);
    }
    if let Some(reason) = fault(row, &log, status) {
        folder.fail(&row.key, &reason)?;
        return Ok(Outcome::Failed(reason));
    }
    if !row.must_fail_with.is_empty() {
        // The run left none, or what it found before it failed.
        std::fs::write(&results, "{}").with_context(|| results.display().to_string())?;
    }
    let kept = folder.finish(row, &results, since.elapsed().as_secs_f64());
    if let Err(error) = kept {
        return Err(match keep(&results, temporary) {
            Ok(path) => error.context(format!(
                "the results of {} are left in {}",
                row.name,
                path.display()
            )),
            Err(lost) => error.context(format!("the results of {} are lost: {lost:#}", row.name)),
        });
    }
    Ok(Outcome::Done)
}

/// Moves results out of the row's folder, which goes with the row.
fn keep(results: &Path, temporary: &Path) -> Result<PathBuf> {
    let kept = tempfile::Builder::new()
        .prefix("wideleaf-kept-")
        .tempdir_in(temporary)?;
    std::fs::rename(results, kept.path().join("results.json"))?;
    Ok(kept.keep().join("results.json"))
}

/// A file that keeps room.
struct Reserve(PathBuf);

impl Reserve {
    fn take(folder: &Path) -> Result<Self> {
        let reserve = Self(folder.join("reserve"));
        let take = || {
            let file = File::create(&reserve.0)?;
            nix::fcntl::posix_fallocate(&file, 0, RESERVE)?;
            anyhow::Ok(())
        };
        take().with_context(|| {
            format!(
                "{}: no room for the results of another row ({} MiB): make some, \
                 and the same command goes on",
                folder.display(),
                RESERVE >> 20
            )
        })?;
        Ok(reserve)
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts the run in a process group of its own, so that the terminal's signals reach it through
/// us only; if we are killed, it is told to end.
fn spawn(command: &mut Command, output: File) -> std::io::Result<Child> {
    let parent = nix::unistd::getpid();
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0);
    // SAFETY: prctl(2) and getppid(2) are async-signal-safe, and nothing else runs between fork
    // and exec.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
            // The parent may have died before the call above.
            if nix::unistd::getppid() != parent {
                return Err(std::io::Error::from(nix::errno::Errno::ESRCH));
            }
            Ok(())
        });
    }
    command.spawn()
}

fn wait(child: &mut Child, stop: &AtomicBool) -> Result<ExitStatus> {
    let group = Pid::from_raw(child.id() as i32);
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a run")? {
            return Ok(status);
        }
        match told {
            None if stop.load(Ordering::SeqCst) => {
                // The run alone: it ends its own children in the right order.
                let _ = kill(group, Signal::SIGTERM);
                told = Some(Instant::now());
            }
            Some(since) if since.elapsed() > GRACE => {
                let _ = killpg(group, Signal::SIGKILL);
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Why the row has failed; `None` if its run ended as it must.
fn fault(row: &Planned, log: &Path, status: ExitStatus) -> Option<String> {
    let words = &row.must_fail_with;
    if words.is_empty() {
        return (!status.success()).then(|| reason(log, status));
    }
    let expected = words.join("' or '");
    if status.success() {
        return Some(format!("it passed; it must fail with '{expected}'"));
    }
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // Not any failure: a run that crashes or is killed has proved nothing.
    let is_verdict = status.code() == Some(1) && words.iter().any(|words| text.contains(words));
    (!is_verdict).then(|| format!("it must fail with '{expected}': {}", reason(log, status)))
}

/// Why a run failed: what it said last about it.
fn reason(log: &Path, status: ExitStatus) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let verdict = lines().rfind(|line| line.starts_with("FAIL ") || line.starts_with("wideleaf: "));
    let said = verdict.or_else(|| lines().next_back()).unwrap_or_default();
    let said = said.strip_prefix("wideleaf: ").unwrap_or(said);
    match (status.code(), status.signal()) {
        (Some(1), _) if !said.is_empty() => said.to_string(),
        (_, Some(signal)) => format!("killed by signal {signal}: {said}"),
        (code, _) => format!("exit status {}: {said}", code.unwrap_or(-1)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::folder::State;
    use crate::folder::tests::planned;
    use wideleaf_kit::script::script;

    /// A folder, and a program in the place of wideleaf: `$RESULTS` is where it should write.
    pub(crate) fn played(commands: &str) -> (tempfile::TempDir, Folder, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("wideleaf");
        let text = format!("#!/bin/sh\nfor RESULTS; do :; done\n{commands}\n");
        script(&program, &text);
        let folder = Folder::open(&dir.path().join("results")).unwrap();
        (dir, folder, program)
    }

    fn run(script: &str) -> (Result<Outcome>, State) {
        let (_dir, folder, program) = played(script);
        let row = planned("a");
        folder.plan(&row).unwrap();
        let outcome = attempt(&folder, &row, &program, &AtomicBool::new(false));
        let state = folder.state(&row, &|_| Ok(())).unwrap();
        assert!(!folder.row(&row.key).join("reserve").exists());
        (outcome, state)
    }

    #[test]
    fn it_is_lab_run_with_the_rows_words() {
        let (outcome, state) =
            run("[ \"$1 $2 $3 $4 $5\" = 'lab run --job a --json' ] && echo '{}' > \"$RESULTS\"");
        assert_eq!(outcome.unwrap(), Outcome::Done);
        assert_eq!(state, State::Done { outdated: false });
    }

    #[test]
    fn a_row_removes_what_killed_matrices_left_and_nothing_in_use() {
        let (dir, folder, program) = played("echo '{}' > \"$RESULTS\"");
        let alive = Scratch::new(dir.path(), KIND).unwrap();
        // With a lock file that nobody holds.
        let dead = PathBuf::from(format!("{}x", alive.path().display()));
        std::fs::create_dir(&dead).unwrap();
        std::fs::copy(alive.join("lock"), dead.join("lock")).unwrap();
        let row = planned("a");
        folder.plan(&row).unwrap();
        let stop = AtomicBool::new(false);
        attempt_in(dir.path(), &folder, &row, &program, &stop).unwrap();
        assert!(!dead.exists());
        assert!(alive.path().exists());
    }

    #[test]
    fn a_failure_says_what_the_run_said() {
        for (script, said) in [
            (
                "echo 'wideleaf: no room' >&2; echo trailer >&2; exit 1",
                "no room",
            ),
            (
                "echo '{}' > \"$RESULTS\"; echo 'FAIL x<=1: 2'; exit 1",
                "FAIL x<=1: 2",
            ),
            ("echo boo; exit 101", "exit status 101: boo"),
            ("kill -KILL $$", "killed by signal 9: "),
        ] {
            let (outcome, state) = run(script);
            let reason = said.to_string();
            assert_eq!(
                outcome.unwrap(),
                Outcome::Failed(reason.clone()),
                "{script}"
            );
            assert_eq!(state, State::Failed { reason });
        }
    }

    #[test]
    fn a_run_that_must_fail_passes_by_its_words_alone() {
        for (script, fault) in [
            ("echo 'Kernel panic - not syncing' >&2; exit 1", None),
            (
                "echo '{}' > \"$RESULTS\"",
                Some("it passed; it must fail with 'panic'"),
            ),
            (
                "echo 'wideleaf: no room' >&2; exit 1",
                Some("it must fail with 'panic': no room"),
            ),
            (
                "echo panic; exit 101",
                Some("it must fail with 'panic': exit status 101: panic"),
            ),
            (
                "echo panic; kill -KILL $$",
                Some("it must fail with 'panic': killed by signal 9: panic"),
            ),
        ] {
            let (_dir, folder, program) = played(script);
            let row = Planned {
                must_fail_with: vec!["panic".into()],
                ..planned("a")
            };
            folder.plan(&row).unwrap();
            let outcome = attempt(&folder, &row, &program, &AtomicBool::new(false)).unwrap();
            let state = folder.state(&row, &|_| Ok(())).unwrap();
            match fault {
                None => {
                    assert_eq!(outcome, Outcome::Done, "{script}");
                    assert_eq!(state, State::Done { outdated: false });
                }
                Some(reason) => {
                    let reason = reason.to_string();
                    assert_eq!(outcome, Outcome::Failed(reason.clone()));
                    assert_eq!(state, State::Failed { reason });
                }
            }
        }
    }

    #[test]
    fn a_run_that_is_stopped_leaves_the_row_to_do() {
        let (_dir, folder, program) = played("trap 'kill $!; exit 143' TERM; sleep 60 & wait");
        let row = planned("a");
        folder.plan(&row).unwrap();
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| attempt(&folder, &row, &program, &stop));
            while folder.state(&row, &|_| Ok(())).unwrap() != State::Running {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::SeqCst);
            thread.join().unwrap().unwrap()
        });
        assert_eq!(outcome, Outcome::Stopped);
        assert_eq!(folder.state(&row, &|_| Ok(())).unwrap(), State::ToDo);
    }

    #[test]
    fn results_that_cannot_be_kept_are_left_where_they_are() {
        let (_dir, folder, program) = played("echo '{\"a\": 1}' > \"$RESULTS\"; rm -r \"$STOLEN\"");
        let row = planned("a");
        folder.plan(&row).unwrap();
        // The row's folder vanishes during the run.
        let text = std::fs::read_to_string(&program).unwrap();
        let stolen = folder.row(&row.key);
        let text = text.replace("$STOLEN", stolen.to_str().unwrap());
        std::fs::write(&program, text).unwrap();
        let error = attempt(&folder, &row, &program, &AtomicBool::new(false)).unwrap_err();
        let text = error.to_string();
        let path = text.rsplit(' ').next().unwrap();
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            "{\"a\": 1}\n",
            "{text}"
        );
        std::fs::remove_dir_all(Path::new(path).parent().unwrap()).unwrap();
    }
}
