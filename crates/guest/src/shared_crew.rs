// SPDX-License-Identifier: GPL-2.0-only
//! Processes that begin together, and of which nobody ends before all have done their work: what
//! is counted in between is the work.

use crate::marker;
use crate::shared_file::{SharedFile, unmap, write_all};
use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe, read, write};
use std::os::fd::OwnedFd;

/// What each process does with its file.
#[derive(Clone, Debug)]
pub struct Work {
    /// Bytes of the file in front of the mapping.
    pub before: u64,
    /// Bytes of the mapping.
    pub len: u64,
    /// Bytes by which address and offset differ, modulo 2M.
    pub skew: u64,
    /// How often it maps, writes and unmaps.
    pub rounds: u64,
    /// Number of the first process' coverage record.
    pub id: u64,
}

/// The processes.
#[derive(Debug)]
pub struct Crew {
    pids: Vec<Pid>,
    /// Who reads a byte from the one may begin, from the other end. Of one pipe the first to be
    /// done would read the byte by which another is to begin.
    go: OwnedFd,
    leave: OwnedFd,
    /// The faults of each as native 64-bit numbers.
    done: OwnedFd,
    faults: std::cell::Cell<u64>,
}

impl Crew {
    /// A process for each file, ready to begin.
    pub fn fork(files: &[SharedFile], work: &Work) -> Result<Self> {
        let (wait, go) = pipe().context("pipe")?;
        let (stay, leave) = pipe().context("pipe")?;
        let (done, tell) = pipe().context("pipe")?;
        let (ready, say) = pipe().context("pipe")?;
        let mut pids = Vec::new();
        for (who, file) in files.iter().enumerate() {
            // SAFETY: there is one thread.
            match unsafe { fork() }.context("fork")? {
                ForkResult::Child => {
                    let status = match member(who as u64, file, work, [&say, &wait, &tell, &stay]) {
                        Ok(()) => 0,
                        Err(error) => {
                            eprintln!("process {who}: {error:#}");
                            1
                        }
                    };
                    // SAFETY: ends the process; there is nothing to clean up.
                    unsafe { libc::_exit(status) }
                }
                ForkResult::Parent { child } => pids.push(child),
            }
        }
        // What they hold ends with them: then reading ends too.
        drop((say, tell));
        for _ in &pids {
            ensure!(
                read(&ready, &mut [0]).context("read")? == 1,
                "a process could not begin"
            );
        }
        Ok(Self {
            pids,
            go,
            leave,
            done,
            faults: 0.into(),
        })
    }

    fn release(&self, pipe: &OwnedFd) -> Result<()> {
        let bytes = vec![0; self.pids.len()];
        write(pipe, &bytes).context("write").map(drop)
    }

    /// Lets them work until all are done.
    pub fn work(&self) -> Result<()> {
        self.release(&self.go)?;
        for _ in &self.pids {
            let mut faults = [0; 8];
            let len = read(&self.done, &mut faults).context("read")?;
            ensure!(len == faults.len(), "a process could not do its work");
            self.faults.update(|sum| sum + u64::from_ne_bytes(faults));
        }
        Ok(())
    }

    /// Lets them end. Gives the faults of all.
    pub fn end(self) -> Result<u64> {
        self.release(&self.leave)?;
        for pid in self.pids {
            let end = waitpid(pid, None).context("waitpid")?;
            ensure!(matches!(end, WaitStatus::Exited(_, 0)), "it ended: {end:?}");
        }
        Ok(self.faults.get())
    }
}

/// What one process does.
fn member(
    who: u64,
    file: &SharedFile,
    work: &Work,
    [say, wait, tell, stay]: [&OwnedFd; 4],
) -> Result<()> {
    // A first time unmeasured: the address, and the page tables above.
    let start = file.map(work.before, work.len, work.skew)?;
    unmap(start, work.len)?;
    write(say, &[0]).context("write")?;
    read(wait, &mut [0]).context("read")?;
    let before = faults()?;
    for round in 0..work.rounds {
        file.map_at(start, work.before, work.len)?;
        write_all(start, work.len, who, round);
        if who == 0 && round == 0 {
            marker::coverage(start, work.len, work.id);
        }
        unmap(start, work.len)?;
    }
    let count = faults()? - before;
    write(tell, &count.to_ne_bytes()).context("write")?;
    read(stay, &mut [0]).context("read")?;
    Ok(())
}

/// Of this process so far.
fn faults() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?;
    Ok((usage.minor_page_faults() + usage.major_page_faults()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_bench::page_size;

    #[test]
    fn all_write_and_their_faults_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let len = 16 * page_size();
        let files: Vec<_> = ["one", "other"]
            .map(|name| SharedFile::make(&dir.path().join(name), len, page_size()).unwrap())
            .into();
        let work = Work {
            before: 0,
            len,
            skew: 0,
            rounds: 2,
            id: 1,
        };
        let crew = Crew::fork(&files, &work).unwrap();
        crew.work().unwrap();
        assert!(crew.end().unwrap() >= 2 * 2);
        for (who, file) in files.iter().enumerate() {
            file.verify(0, len, who as u64, 2).unwrap();
        }
    }
}
