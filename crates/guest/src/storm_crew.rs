// SPDX-License-Identifier: GPL-2.0-only
//! The processes of a storm, and who watches over them.
//!
//! The parent touches no file while it waits, so that it can tell of the others' hanging.

use crate::detailed::Detailed;
use crate::protocol::Failure;
use crate::storm_stage::{Count, Stage};
use crate::storm_watch::{Watch, blocked_tasks};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How often the crew is looked after.
const LOOK: Duration = Duration::from_millis(200);

/// How often all tasks of the guest are looked at, which costs more.
const LOOK_AT_TASKS: Duration = Duration::from_secs(2);

/// Processes that play a scenario, and what they tell.
#[derive(Debug)]
pub struct Crew<'a> {
    stage: &'a Stage,
    living: Vec<(Pid, String)>,
    complaints: File,
    complain: File,
    watch: Watch,
    looked: Instant,
}

impl<'a> Crew<'a> {
    /// Nobody yet.
    pub fn new(stage: &'a Stage) -> Result<Self> {
        let (read, write) = pipe().context("pipe")?;
        let complaints = File::from(read);
        // SAFETY: a plain system call on a descriptor of ours.
        Errno::result(unsafe {
            libc::fcntl(complaints.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK)
        })
        .context("fcntl")?;
        Ok(Self {
            stage,
            living: Vec::new(),
            complaints,
            complain: File::from(write),
            watch: Watch::new(Duration::from_secs(stage.options.hung_s.into())),
            looked: Instant::now(),
        })
    }

    /// Forks a process that does `work`; what it returns as an error fails the storm.
    pub fn start(&mut self, name: &str, work: impl FnOnce(&Stage) -> Result<()>) -> Result<Pid> {
        // SAFETY: the parent has one thread, so the child may do whatever it could.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => {
                // Shown in the kernel's reports.
                let _ = fs::write("/proc/self/comm", name);
                let status = match work(self.stage) {
                    Ok(()) => 0,
                    Err(error) => {
                        let _ = self
                            .complain
                            .write_all(format!("{name}: {error:#}\n").as_bytes());
                        1
                    }
                };
                // SAFETY: ends the process.
                unsafe { libc::_exit(status) }
            }
            ForkResult::Parent { child } => {
                self.living.push((child, name.to_owned()));
                Ok(child)
            }
        }
    }

    /// Waits until all have ended, which must be soon after the deadline.
    pub fn finish(mut self) -> Result<()> {
        let patience = Duration::from_secs(self.stage.options.hung_s.into());
        while !self.living.is_empty() {
            self.look()?;
            if Instant::now() > self.stage.deadline + 2 * patience {
                let names: Vec<_> = self
                    .living
                    .iter()
                    .map(|(pid, name)| format!("{name} ({pid})"))
                    .collect();
                return Err(hang(format!(
                    "still running long after the end: {}",
                    names.join(", ")
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether it still lives.
    pub fn lives(&self, pid: Pid) -> bool {
        self.living.iter().any(|(living, _)| *living == pid)
    }

    /// Ends one with SIGKILL; fails if it has not ended within the time for that.
    pub fn kill(&mut self, pid: Pid) -> Result<()> {
        let since = Instant::now();
        kill(pid, Signal::SIGKILL).context("kill")?;
        while self.lives(pid) {
            self.reap(Some(pid))?;
            if since.elapsed() > Duration::from_secs(self.stage.options.hung_s.into()) {
                return Err(hang(format!("SIGKILL does not end process {pid}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.stage.count(Count::Killed, 1);
        self.stage
            .most(Count::LongestWaitMs, since.elapsed().as_millis() as u64);
        Ok(())
    }

    /// Takes note of who ended and how, of complaints, and of tasks that hang.
    pub fn look(&mut self) -> Result<()> {
        self.reap(None)?;
        let mut text = String::new();
        // It ends in EAGAIN; what came before is in the text.
        let _ = self.complaints.read_to_string(&mut text);
        if !text.is_empty() {
            bail!("{}", text.trim_end());
        }
        if self.looked.elapsed() >= LOOK_AT_TASKS {
            self.looked = Instant::now();
            let hung = self.watch.look();
            if !hung.is_empty() {
                let seconds = self.stage.options.hung_s;
                return Err(hang(format!(
                    "blocked for more than {seconds} s: {}",
                    hung.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Waits for who has ended. `killed` may end by SIGKILL.
    fn reap(&mut self, killed: Option<Pid>) -> Result<()> {
        let mut ended = Vec::new();
        for (pid, name) in &self.living {
            match waitpid(*pid, Some(WaitPidFlag::WNOHANG)).context("waitpid")? {
                WaitStatus::StillAlive => {}
                // Status 1 comes with words, which are read next.
                WaitStatus::Exited(_, 0 | 1) => ended.push(*pid),
                WaitStatus::Signaled(_, Signal::SIGKILL, _) if killed == Some(*pid) => {
                    ended.push(*pid)
                }
                other => bail!("{name}: ended by {other:?}"),
            }
        }
        self.living.retain(|(pid, _)| !ended.contains(pid));
        Ok(())
    }
}

/// Whoever is left when something went wrong goes too; one that cannot be ended is left behind.
impl Drop for Crew<'_> {
    fn drop(&mut self) {
        for (pid, _) in &self.living {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        let since = Instant::now();
        while !self.living.is_empty() && since.elapsed() < Duration::from_secs(3) {
            self.living.retain(|(pid, _)| {
                waitpid(*pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive)
            });
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// An error with the stacks of all blocked tasks.
pub fn hang(what: String) -> anyhow::Error {
    Detailed(Failure {
        what,
        details: blocked_tasks(),
    })
    .into()
}
