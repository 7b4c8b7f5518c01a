// SPDX-License-Identifier: GPL-2.0-only
//! Kills a command after a given number of system calls.

use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs the command and kills it after its first `calls` system calls: what a
/// process has done between two of them is its own memory's affair. Whether it
/// ended, with one of the statuses, before that.
// waitpid(2) collects it, which also tells of its stops.
#[allow(clippy::zombie_processes)]
pub fn killed_after(calls: usize, command: &mut Command, well: &[i32]) -> bool {
    // SAFETY: traceme is a system call and allocates nothing.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, None).unwrap();
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
    // The end of execve, then beginning and end of each call.
    for _ in 0..1 + 2 * calls {
        ptrace::syscall(pid, None).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(_, status) => {
                assert!(well.contains(&status), "{status}");
                return true;
            }
            other => panic!("{other:?}"),
        }
    }
    let _ = kill(pid, Signal::SIGKILL);
    while !matches!(
        waitpid(pid, None).unwrap(),
        WaitStatus::Signaled(..) | WaitStatus::Exited(..)
    ) {}
    false
}
