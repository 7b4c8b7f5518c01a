// SPDX-License-Identifier: GPL-2.0-only
//! Processes that work side by side, are waited for, and are watched if that is asked.
//!
//! The parent touches no file while it waits, so that it can tell of the others' hanging.

use crate::kit::process::Process;
use crate::kit::watch::{Watch, hang};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How often a crew is looked after until its deadline.
const LOOK: Duration = Duration::from_millis(200);

/// How often all tasks of the guest are looked at, which costs more.
const LOOK_AT_TASKS: Duration = Duration::from_secs(2);

/// How long those may take to end that are left when something went wrong.
const FAREWELL: Duration = Duration::from_secs(3);

/// Processes, and what they tell.
#[derive(Debug)]
pub struct Crew {
    living: Vec<(Process, String)>,
    complaints: File,
    complain: File,
    hangs: Option<Hangs>,
}

/// The watch over all tasks of the guest.
#[derive(Debug)]
struct Hangs {
    patience: Duration,
    watch: Watch,
    looked: Instant,
}

impl Crew {
    /// Nobody yet.
    pub fn new() -> Result<Self> {
        let (read, write) = pipe().context("pipe")?;
        let complaints = File::from(read);
        // SAFETY: a plain system call on a descriptor of ours.
        Errno::result(unsafe {
            libc::fcntl(complaints.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK)
        })
        .context("fcntl")?;
        Ok(Self {
            living: Vec::new(),
            complaints,
            complain: File::from(write),
            hangs: None,
        })
    }

    /// Nobody yet. While they work, no task of the guest may sleep uninterruptibly for longer than
    /// `patience`.
    pub fn watched(patience: Duration) -> Result<Self> {
        let mut crew = Self::new()?;
        crew.hangs = Some(Hangs {
            patience,
            watch: Watch::new(patience),
            looked: Instant::now(),
        });
        Ok(crew)
    }

    /// Forks a process that does `work`; what it returns as an error fails the crew.
    pub fn start(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<Pid> {
        let mut complain = &self.complain;
        let process = Process::fork(|| {
            // Shown in the kernel's reports.
            let _ = fs::write("/proc/self/comm", name);
            match work() {
                Ok(()) => 0,
                Err(error) => {
                    let _ = complain.write_all(format!("{name}: {error:#}\n").as_bytes());
                    1
                }
            }
        })?;
        let pid = process.pid();
        self.living.push((process, name.to_owned()));
        Ok(pid)
    }

    /// Waits until all have ended, however long that takes. If one fails, the others are killed.
    pub fn finish(mut self) -> Result<()> {
        while let Some((process, name)) = self.living.first() {
            let ended = ended_well(process.wait()?, name);
            let _ = self.living.remove(0);
            ended?;
            self.listen()?;
        }
        Ok(())
    }

    /// Waits until all have ended, looking after them; at `deadline` they must have.
    pub fn finish_by(mut self, deadline: Instant) -> Result<()> {
        loop {
            self.look()?;
            // To look may take long where this task hardly runs: it is the others that count.
            if self.living.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let living = self.living.iter();
                let names: Vec<_> = living
                    .map(|(process, name)| format!("{name} ({})", process.pid()))
                    .collect();
                return Err(hang(format!(
                    "still running long after the end: {}",
                    names.join(", ")
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether it still lives.
    #[must_use]
    pub fn lives(&self, pid: Pid) -> bool {
        self.living.iter().any(|(living, _)| living.pid() == pid)
    }

    /// Ends one with SIGKILL. Says how long that took, and fails if it takes longer than
    /// `patience`.
    pub fn kill(&mut self, pid: Pid, patience: Duration) -> Result<Duration> {
        let since = Instant::now();
        kill(pid, Signal::SIGKILL).context("kill")?;
        loop {
            let is_late = since.elapsed() > patience;
            self.reap(Some(pid))?;
            if !self.lives(pid) {
                return Ok(since.elapsed());
            }
            if is_late {
                return Err(hang(format!("SIGKILL does not end process {pid}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes note of who ended and how, of complaints, and of tasks that hang.
    pub fn look(&mut self) -> Result<()> {
        self.reap(None)?;
        self.listen()?;
        self.hangs.as_mut().map_or(Ok(()), Hangs::look)
    }

    /// Fails with what they complained of.
    pub fn listen(&mut self) -> Result<()> {
        let mut text = String::new();
        // It ends in EAGAIN; what came before is in the text.
        let _ = self.complaints.read_to_string(&mut text);
        if !text.is_empty() {
            bail!("{}", text.trim_end());
        }
        Ok(())
    }

    /// Waits for who has ended. `killed` may end by SIGKILL.
    fn reap(&mut self, killed: Option<Pid>) -> Result<()> {
        let mut ended = Vec::new();
        for (process, name) in &self.living {
            let pid = process.pid();
            match waitpid(pid, Some(WaitPidFlag::WNOHANG)).context("waitpid")? {
                WaitStatus::StillAlive => continue,
                WaitStatus::Signaled(_, Signal::SIGKILL, _) if killed == Some(pid) => {}
                status => ended_well(status, name)?,
            }
            ended.push(pid);
        }
        self.living
            .retain(|(process, _)| !ended.contains(&process.pid()));
        Ok(())
    }
}

/// Status 1 comes with words, which are read next.
fn ended_well(status: WaitStatus, name: &str) -> Result<()> {
    match status {
        WaitStatus::Exited(_, 0 | 1) => Ok(()),
        other => bail!("{name}: ended by {other:?}"),
    }
}

impl Hangs {
    fn look(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK_AT_TASKS {
            return Ok(());
        }
        self.looked = Instant::now();
        let hung = self.watch.look();
        if hung.is_empty() {
            return Ok(());
        }
        Err(hang(format!(
            "blocked for more than {} s: {}",
            self.patience.as_secs(),
            hung.join(", ")
        )))
    }
}

/// A process that is left when something went wrong is killed; one that does not end is left
/// behind.
impl Drop for Crew {
    fn drop(&mut self) {
        for (process, _) in &self.living {
            let _ = kill(process.pid(), Signal::SIGKILL);
        }
        let since = Instant::now();
        while !self.living.is_empty() && since.elapsed() < FAREWELL {
            self.living.retain(|(process, _)| {
                let status = waitpid(process.pid(), Some(WaitPidFlag::WNOHANG));
                status == Ok(WaitStatus::StillAlive)
            });
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::alone::alone;
    use crate::kit::process::{exit, sleep};
    use nix::sys::wait::{Id, waitid};

    #[test]
    fn an_error_of_one_is_the_crews() {
        alone(|| {
            for wait in [Crew::finish, |crew: Crew| {
                crew.finish_by(Instant::now() + FAREWELL)
            }] {
                let mut crew = Crew::new().unwrap();
                crew.start("good", || Ok(())).unwrap();
                crew.start("bad", || bail!("no luck")).unwrap();
                assert_eq!(wait(crew).unwrap_err().to_string(), "bad: no luck");
                let mut crew = Crew::new().unwrap();
                crew.start("good", || Ok(())).unwrap();
                wait(crew).unwrap();
            }
        });
    }

    #[test]
    fn nobody_is_left_when_one_fails() {
        alone(|| {
            let mut crew = Crew::new().unwrap();
            crew.start("bad", || bail!("no luck")).unwrap();
            let idler = crew.start("idler", || sleep()).unwrap();
            assert!(crew.finish().is_err());
            assert_eq!(kill(idler, None), Err(Errno::ESRCH));
        });
    }

    #[test]
    fn a_status_of_its_own_is_an_error() {
        alone(|| {
            let mut crew = Crew::new().unwrap();
            crew.start("odd", || exit(9)).unwrap();
            let error = crew.finish().unwrap_err().to_string();
            assert!(error.starts_with("odd: ended by Exited("), "{error}");
        });
    }

    #[test]
    fn one_that_does_not_end_is_named_and_killed() {
        alone(|| {
            let mut crew = Crew::new().unwrap();
            let pid = crew.start("idler", || sleep()).unwrap();
            let error = crew.finish_by(Instant::now()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("idler ({pid})")), "{error}");
            assert_eq!(kill(pid, None), Err(Errno::ESRCH));
        });
    }

    #[test]
    fn all_that_had_ended_did_so_in_time() {
        alone(|| {
            let mut crew = Crew::new().unwrap();
            let pid = crew.start("good", || Ok(())).unwrap();
            waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
            crew.finish_by(Instant::now() - FAREWELL).unwrap();
        });
    }

    #[test]
    fn a_killed_process_lives_no_more() {
        alone(|| {
            let mut crew = Crew::new().unwrap();
            let pid = crew.start("idler", || sleep()).unwrap();
            assert!(crew.lives(pid));
            crew.kill(pid, FAREWELL).unwrap();
            assert!(!crew.lives(pid));
            crew.finish().unwrap();
        });
    }
}
