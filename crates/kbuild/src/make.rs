// SPDX-License-Identifier: GPL-2.0-only
//! Runs make: a log of everything, progress by the files it compiles, signals
//! passed on, the first error picked out.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A signal ended the work; what had been done is kept and taken up next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub i32);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "interrupted; the next run goes on from here")
    }
}

impl std::error::Error for Interrupted {}

/// make itself was killed, so its half-written files are still there.
#[derive(Debug)]
pub(crate) struct Killed(i32);

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "make was killed by signal {}", self.0)
    }
}

impl std::error::Error for Killed {}

/// Runs `make` to its end. Everything it writes goes to `log`; `compiled` is
/// called with the number of files compiled so far. make and all it starts
/// inherit `lock`.
pub(crate) fn run(
    make: &mut Command,
    lock: BorrowedFd<'_>,
    log: &mut File,
    log_path: &Path,
    compiled: &mut dyn FnMut(u64),
) -> Result<()> {
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    make.stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    let lock = lock.as_raw_fd();
    // SAFETY: prctl(2) and dup(2) are async-signal-safe and touch no memory of
    // ours; the caller borrows the file until the child has been waited for.
    unsafe {
        // If we are killed, make should end; and until the last of what it
        // started has, nobody else should take the folder for free.
        make.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
            nix::errno::Errno::result(nix::libc::dup(lock))?;
            Ok(())
        });
    }
    let forward = Forward::install()?;
    let mut child = make.spawn().context("cannot run make")?;
    forward.to(child.id() as i32);
    // Our copies of the pipe's writing end would keep it open.
    make.stdout(Stdio::null()).stderr(Stdio::null());
    let copied = copy(BufReader::new(reader), log, compiled);
    let status = child.wait().context("cannot wait for make")?;
    copied.with_context(|| format!("cannot write {}", log_path.display()))?;
    judge(status, forward.received(), log_path)
}

fn copy(reader: impl BufRead, log: &mut File, compiled: &mut dyn FnMut(u64)) -> Result<()> {
    let mut done = 0;
    for line in reader.split(b'\n') {
        let mut line = line?;
        if is_compiled(&line) {
            done += 1;
            compiled(done);
        }
        line.push(b'\n');
        log.write_all(&line)?;
    }
    Ok(())
}

/// kbuild's short lines for compiling and assembling, for the target or the host.
fn is_compiled(line: &[u8]) -> bool {
    [&b"  CC "[..], b"  AS ", b"  HOSTCC "]
        .iter()
        .any(|prefix| line.starts_with(prefix))
}

fn judge(status: ExitStatus, received: i32, log_path: &Path) -> Result<()> {
    if let Some(signal) = status.signal() {
        // make handles those it can, removes what it was writing, and then
        // lets itself be killed by them.
        if received == 0 || signal == Signal::SIGKILL as i32 {
            return Err(Killed(signal).into());
        }
    }
    if received != 0 {
        return Err(Interrupted(received).into());
    }
    if !status.success() {
        let log = std::fs::read(log_path).unwrap_or_default();
        bail!(
            "make failed ({status}); first error:\n{}\nfull log: {}",
            first_error(&String::from_utf8_lossy(&log)),
            log_path.display()
        );
    }
    Ok(())
}

/// The first line that a compiler, linker or make reports an error in, among
/// the twenty lines around it.
pub(crate) fn first_error(log: &str) -> String {
    const BEFORE: usize = 6;
    const AFTER: usize = 13;
    let lines: Vec<_> = log.lines().collect();
    let is_error = |line: &&str| line.contains("error:") || line.contains("*** ");
    let Some(at) = lines.iter().position(is_error) else {
        return lines[lines.len().saturating_sub(BEFORE + AFTER)..].join("\n");
    };
    let end = (at + AFTER + 1).min(lines.len());
    lines[at.saturating_sub(BEFORE)..end].join("\n")
}

/// The process group that signals are passed to; 0 is none.
static GROUP: AtomicI32 = AtomicI32::new(0);
/// The signal that came, or 0.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: i32) {
    RECEIVED.store(signal, Ordering::SeqCst);
    let group = GROUP.load(Ordering::SeqCst);
    if group != 0 {
        // SAFETY: kill(2) is async-signal-safe (POSIX.1-2017, 2.4.3).
        unsafe { nix::libc::kill(-group, signal) };
    }
}

/// Handlers are per process, so there is one make at a time in it. That costs
/// nothing: a make uses all CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// While it lives, signals that would end us go to make instead. The old
/// handlers come back with its end.
struct Forward {
    _guard: MutexGuard<'static, ()>,
    old: Vec<(Signal, SigAction)>,
}

impl Forward {
    fn install() -> Result<Self> {
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        RECEIVED.store(0, Ordering::SeqCst);
        let action = SigAction::new(
            SigHandler::Handler(pass_on),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        let mut forward = Self {
            _guard: guard,
            old: Vec::new(),
        };
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            // SAFETY: the handler only touches atomics and calls kill(2).
            let old = unsafe { sigaction(signal, &action) }.context("cannot handle signals")?;
            forward.old.push((signal, old));
        }
        Ok(forward)
    }

    /// Names the group; a signal that came before is passed on now.
    fn to(&self, group: i32) {
        GROUP.store(group, Ordering::SeqCst);
        let received = self.received();
        if received != 0 {
            pass_on(received);
        }
    }

    fn received(&self) -> i32 {
        RECEIVED.load(Ordering::SeqCst)
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        GROUP.store(0, Ordering::SeqCst);
        for (signal, old) in &self.old {
            // SAFETY: puts back a handler that was in place before.
            let _ = unsafe { sigaction(*signal, old) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn make(script: &str) -> (Result<()>, u64, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = File::create(&path).unwrap();
        let mut files = 0;
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        let lock = File::open("/dev/null").unwrap();
        let result = run(&mut sh, lock.as_fd(), &mut log, &path, &mut |done| {
            files = done;
        });
        (result, files, std::fs::read_to_string(&path).unwrap())
    }

    #[test]
    fn logs_all_and_counts_what_is_compiled() {
        let (result, files, log) = make(
            "echo '  CC      mm/filemap.o'; echo warning >&2; echo '  AS      x.o'; echo '  LD      y'",
        );
        result.unwrap();
        assert_eq!(files, 2);
        assert_eq!(log.lines().count(), 4, "{log}");
    }

    #[test]
    fn a_failure_shows_the_first_error_and_the_log() {
        let (result, _, _) =
            make("echo 'mm/a.c:1:2: error: no such thing'; echo 'make: *** [a.o] Error 1'; exit 2");
        let text = result.unwrap_err().to_string();
        let (shown, rest) = text.split_once("full log: ").unwrap();
        assert!(shown.contains("mm/a.c:1:2: error: no such thing"), "{text}");
        assert!(rest.ends_with("/log"), "{text}");
    }

    #[test]
    fn the_first_error_comes_with_twenty_lines() {
        let mut lines: Vec<_> = (0..100).map(|n| format!("  CC      {n}.o")).collect();
        lines[40] = "x.c:9:1: error: unknown type name 'folio'".into();
        lines[60] = "make[2]: *** [x.o] Error 1".into();
        let shown = first_error(&lines.join("\n"));
        assert_eq!(shown.lines().count(), 20, "{shown}");
        assert!(shown.contains("unknown type name"), "{shown}");
        assert!(!shown.contains("***"), "{shown}");
        // A link error shows only in what ld said before make gave up.
        let shown = first_error("ld: undefined reference to `f'\nmake: *** [vmlinux] Error 1");
        assert!(shown.contains("undefined reference"), "{shown}");
    }

    #[test]
    fn a_signal_is_passed_on_and_told_apart() {
        // The script stands for make: it cleans up, then dies of the signal.
        let (result, _, log) = make(
            "trap 'echo cleaned; trap - TERM; kill -TERM $$' TERM; kill -TERM $PPID; \
             while :; do sleep 0.01; done",
        );
        let error = result.unwrap_err();
        assert_eq!(
            error.downcast_ref::<Interrupted>(),
            Some(&Interrupted(Signal::SIGTERM as i32)),
            "{error:#}"
        );
        assert!(log.contains("cleaned"), "{log}");
    }

    #[test]
    fn what_make_started_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let cache = wideleaf_cache::Cache::at(dir.path()).unwrap();
        let lock = cache.lock("tree", || ()).unwrap();
        let file = dir.path().join("locks/tree.lock");
        let path = dir.path().join("log");
        let mut log = File::create(&path).unwrap();
        // The orphan's output goes elsewhere, or we would wait for its end.
        let mut sh = Command::new("sh");
        sh.args([
            "-c",
            "exec >/dev/null 2>&1; sleep 100 & echo $! > \"$1\"",
            "sh",
        ])
        .arg(dir.path().join("pid"));
        run(&mut sh, lock.as_fd(), &mut log, &path, &mut |_| ()).unwrap();
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let held = std::fs::read_dir(format!("/proc/{}/fd", pid.trim()))
            .unwrap()
            .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .any(|target| target == file);
        let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
        assert!(held);
    }

    #[test]
    fn a_killed_make_is_not_a_clean_end() {
        let (result, _, _) = make("kill -KILL $$");
        assert!(result.unwrap_err().downcast_ref::<Killed>().is_some());
    }
}
