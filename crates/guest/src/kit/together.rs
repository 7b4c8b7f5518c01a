// SPDX-License-Identifier: GPL-2.0-only
//! A crew that begins at one moment, and of which nobody ends before all have done their work: what
//! is counted in between is the work.

use crate::kit::crew::Crew;
use anyhow::{Context, Result};
use nix::unistd::{pipe, read, write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What a process says in place of its number that has failed.
const FAILED: u64 = u64::MAX;

/// How long a process that has failed takes to complain.
const PATIENCE: Duration = Duration::from_secs(3);

/// The processes.
#[derive(Debug)]
pub struct Together {
    crew: Crew,
    number: usize,
    /// A process that reads a byte from the one may begin, from the other end. Of one pipe the
    /// first to be done would read the byte by which another is to begin.
    go: OwnedFd,
    leave: OwnedFd,
    /// What each says as a native 64-bit number.
    done: OwnedFd,
}

/// What one of them says and hears.
#[derive(Debug)]
pub struct Member {
    ready: OwnedFd,
    go: OwnedFd,
    done: OwnedFd,
    leave: OwnedFd,
}

impl Member {
    /// Says that it is ready, and waits until all may begin.
    pub fn begin(&self) -> Result<()> {
        write(&self.ready, &[0]).context("write")?;
        read(&self.go, &mut [0]).context("read").map(drop)
    }

    /// Says that it has failed to those that wait for either.
    fn give_up(&self) {
        let _ = write(&self.ready, &[1]);
        let _ = write(&self.done, &FAILED.to_ne_bytes());
    }

    /// Says that it has done its work, with a number for the sum, and waits until all have.
    pub fn done(&self, number: u64) -> Result<()> {
        write(&self.done, &number.to_ne_bytes()).context("write")?;
        read(&self.leave, &mut [0]).context("read").map(drop)
    }
}

impl Together {
    /// `number` processes that are ready. `work` gets the number of its process; it calls
    /// [`Member::begin`] and [`Member::done`], once each.
    pub fn fork(number: usize, work: impl Fn(usize, &Member) -> Result<()>) -> Result<Self> {
        let (wait, go) = pipe().context("pipe")?;
        let (stay, leave) = pipe().context("pipe")?;
        let (done, tell) = pipe().context("pipe")?;
        let (ready, say) = pipe().context("pipe")?;
        let member = Member {
            ready: say,
            go: wait,
            done: tell,
            leave: stay,
        };
        let mut crew = Crew::new()?;
        for nth in 0..number {
            crew.start(&format!("member-{nth}"), || {
                work(nth, &member).inspect_err(|_| member.give_up())
            })?;
        }
        // What they hold ends with them: then reading ends too.
        drop(member);
        let mut this = Self {
            crew,
            number,
            go,
            leave,
            done,
        };
        for _ in 0..number {
            let mut failed = [1];
            if read(&ready, &mut failed).context("read")? != 1 || failed != [0] {
                return Err(this.failed("a process could not begin"));
            }
        }
        Ok(this)
    }

    fn release(&self, pipe: &OwnedFd) -> Result<()> {
        let bytes = vec![0; self.number];
        write(pipe, &bytes).context("write").map(drop)
    }

    /// Lets them work until all are done. Gives the sum of what they said.
    pub fn work(&mut self) -> Result<u64> {
        self.release(&self.go)?;
        let mut sum = 0;
        for _ in 0..self.number {
            let mut number = FAILED.to_ne_bytes();
            let len = read(&self.done, &mut number).context("read")?;
            let number = u64::from_ne_bytes(number);
            if len != size_of::<u64>() || number == FAILED {
                return Err(self.failed("a process could not do its work"));
            }
            sum += number;
        }
        Ok(sum)
    }

    /// Lets them end.
    pub fn end(self) -> Result<()> {
        self.release(&self.leave)?;
        self.crew.finish()
    }

    /// What one of them complained of, or else `what`.
    fn failed(&mut self, what: &'static str) -> anyhow::Error {
        let since = Instant::now();
        loop {
            match self.crew.listen() {
                Err(complaint) => return complaint.context(what),
                Ok(()) if since.elapsed() > PATIENCE => return anyhow::Error::msg(what),
                Ok(()) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::alone::alone;
    use crate::kit::counts::Counts;
    use anyhow::ensure;

    #[test]
    fn nobody_begins_before_all_are_ready_nor_ends_before_all_are_done() {
        alone(|| {
            let counts = Counts::new(2).unwrap();
            let mut crew = Together::fork(3, |nth, member| {
                counts.add(0_usize, 1);
                member.begin()?;
                ensure!(
                    counts.get(0_usize) == 3,
                    "{} are ready",
                    counts.get(0_usize)
                );
                counts.add(1_usize, 1);
                member.done(nth as u64)?;
                ensure!(counts.get(1_usize) == 3, "{} are done", counts.get(1_usize));
                Ok(())
            })
            .unwrap();
            assert_eq!((counts.get(0_usize), counts.get(1_usize)), (3, 0));
            assert_eq!(crew.work().unwrap(), 3);
            crew.end().unwrap();
        });
    }

    #[test]
    fn one_that_fails_before_or_at_work_says_why() {
        alone(|| {
            let one_of_three = |nth: usize, why: &'static str| match nth {
                1 => Err(anyhow::Error::msg(why)),
                _ => Ok(()),
            };
            let error = Together::fork(3, |nth, member| {
                one_of_three(nth, "overslept")?;
                member.begin()
            });
            let error = error.unwrap_err();
            let expected = "a process could not begin: member-1: overslept";
            assert_eq!(format!("{error:#}"), expected);
            let crew = Together::fork(3, |nth, member| {
                member.begin()?;
                one_of_three(nth, "broken tools")?;
                member.done(0)
            });
            let error = crew.unwrap().work().unwrap_err();
            let expected = "a process could not do its work: member-1: broken tools";
            assert_eq!(format!("{error:#}"), expected);
        });
    }
}
