// SPDX-License-Identifier: GPL-2.0-only
//! One process that this one forks: a copy of it, which does something and ends.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pause};

/// A process that was forked. Dropping it ends nothing.
#[derive(Debug)]
#[must_use]
pub struct Process(Pid);

impl Process {
    /// Forks one that does `work` and then ends with the status that this returns. This process
    /// must have one thread.
    pub fn fork(work: impl FnOnce() -> i32) -> Result<Self> {
        #[cfg(any(test, feature = "testing"))]
        super::alone::must_be();
        // SAFETY: there is one thread, so the child may do whatever the parent could.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => exit(work()),
            ForkResult::Parent { child } => Ok(Self(child)),
        }
    }

    /// Forks one that does nothing, and has all memory that this one has.
    pub fn idle() -> Result<Self> {
        Self::fork(|| sleep())
    }

    /// Its number.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.0
    }

    /// Waits for its end. Says how that was.
    pub fn wait(&self) -> Result<WaitStatus> {
        waitpid(self.0, None).context("waitpid")
    }

    /// Ends it by SIGKILL, and waits for that.
    pub fn end(&self) -> Result<()> {
        kill(self.0, Signal::SIGKILL).context("kill")?;
        self.wait().map(drop)
    }
}

/// Ends this process; there is nothing to clean up.
pub fn exit(status: i32) -> ! {
    // SAFETY: it ends the process.
    unsafe { libc::_exit(status) }
}

/// Keeps what this process has until it is killed.
pub fn sleep() -> ! {
    loop {
        pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::alone::alone;

    #[test]
    fn a_process_ends_as_it_says_or_as_it_is_told() {
        alone(|| {
            let process = Process::fork(|| 7).unwrap();
            let pid = process.pid();
            assert_eq!(process.wait().unwrap(), WaitStatus::Exited(pid, 7));
            let process = Process::idle().unwrap();
            process.end().unwrap();
            assert!(process.end().is_err());
        });
    }
}
