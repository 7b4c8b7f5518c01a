// SPDX-License-Identifier: GPL-2.0-only
//! Kills a command after a given number of system calls.

// Each test takes what it needs of it.
#![allow(dead_code)]

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Runs the command and kills it after its first `calls` system calls: what a
/// process has done between two of them is its own memory's affair. Whether it
/// ended, with one of the statuses, before that.
pub fn killed_after(calls: usize, command: &mut Command, well: &[i32]) -> bool {
    let end = run(calls, command);
    if let Some((_, status)) = end {
        assert!(well.contains(&status), "{status}");
    }
    end.is_some()
}

/// As many system calls as any command begins with: the loader's, the runtime's and those of
/// reading the arguments. `--version` makes these, and then prints and ends by five others.
pub fn start() -> usize {
    let mut version = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    let end = run(usize::MAX, version.arg("--version").stdout(Stdio::null()));
    end.unwrap().0 - 10
}

/// From one call to the next at which a command is killed: `make soak` leaves none out.
pub fn stride() -> usize {
    match std::env::var_os("WIDELEAF_EVERY_CALL") {
        Some(_) => 1,
        None => 3,
    }
}

/// An empty folder, in memory where there is such: what a disk takes to write is no test's matter.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// System calls and exit status, if it ended by itself.
// waitpid(2) collects it, which also tells of its stops.
#[allow(clippy::zombie_processes)]
fn run(most: usize, command: &mut Command) -> Option<(usize, i32)> {
    // SAFETY: traceme is a system call and allocates nothing.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, None).unwrap();
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
    // The end of execve, then beginning and end of each call.
    for stops in 0..most.saturating_mul(2).saturating_add(1) {
        ptrace::syscall(pid, None).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(_, status) => return Some((stops / 2, status)),
            other => panic!("{other:?}"),
        }
    }
    let _ = kill(pid, Signal::SIGKILL);
    while !matches!(
        waitpid(pid, None).unwrap(),
        WaitStatus::Signaled(..) | WaitStatus::Exited(..)
    ) {}
    None
}
