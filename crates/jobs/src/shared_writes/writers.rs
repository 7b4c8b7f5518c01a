// SPDX-License-Identifier: GPL-2.0-only
//! Processes that map files of their own, write to all of the mapping, and unmap it.

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use wideleaf_guest::kit::mapping::Mapping;
use wideleaf_guest::kit::marker;
use wideleaf_guest::kit::shared_file::{SharedFile, read_all, write_all};
use wideleaf_guest::kit::together::{Member, Together};

/// How a process prepares the mapping that it then writes to: the kernel takes the right to write
/// away, or has never given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Maps it anew for each round.
    Nothing,
    /// Reads each page, which maps it read-only; then there is one round.
    Read,
    /// Writes to each page, a round that does not count, and fsync()s; then there is one round.
    WriteAndSync,
}

impl Before {
    /// The rounds of words that the file has when `rounds` of them counted.
    pub fn words(self, rounds: u64) -> u64 {
        rounds + u64::from(self == Self::WriteAndSync)
    }
}

/// What each process does with its file.
#[derive(Clone, Debug)]
pub struct Work {
    /// Bytes of the file in front of the mapping.
    pub before: u64,
    /// Bytes of the mapping.
    pub len: u64,
    /// Bytes by which address and offset differ, modulo 2M.
    pub skew: u64,
    /// How the mapping is prepared.
    pub first: Before,
    /// How often it maps, writes and unmaps; 1 unless nothing comes first.
    pub rounds: u64,
    /// Number of the first process' coverage record.
    pub id: u64,
}

/// A process for each file, ready to begin. Together they do the work, and say how many faults they
/// took for it.
pub fn fork(files: &[SharedFile], work: &Work) -> Result<Together> {
    Together::fork(files.len(), |who, member| {
        write(who as u64, &files[who], work, member)
    })
}

/// What one process does.
fn write(who: u64, file: &SharedFile, work: &Work, member: &Member) -> Result<()> {
    // A first time unmeasured: the address, and the page tables above.
    let mapping = file.map(work.before, work.len, work.skew)?;
    prepare(work.first, mapping, who, file)?;
    member.begin()?;
    let before = faults()?;
    for round in work.first.words(0)..work.first.words(work.rounds) {
        if work.first == Before::Nothing {
            file.map_at(mapping.start, work.before, work.len)?;
        }
        write_all(mapping, who, round);
        if who == 0 && round == work.first.words(0) {
            marker::coverage(mapping.start, work.len, work.id);
        }
        mapping.unmap()?;
    }
    member.done(faults()? - before)
}

fn prepare(first: Before, mapping: Mapping, who: u64, file: &SharedFile) -> Result<()> {
    match first {
        Before::Nothing => mapping.unmap(),
        Before::Read => {
            read_all(mapping);
            Ok(())
        }
        Before::WriteAndSync => {
            write_all(mapping, who, 0);
            file.file().sync_all().context("fsync")
        }
    }
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
    use wideleaf_guest::kit::alone::alone;

    #[test]
    fn all_write_and_their_faults_add_up() {
        alone(|| {
            let dir = tempfile::tempdir().unwrap();
            let len = 16 * page_size();
            let files: Vec<_> = ["one", "other"]
                .map(|name| SharedFile::make(&dir.path().join(name), len, page_size()).unwrap())
                .into();
            for (first, rounds) in [
                (Before::Nothing, 2),
                (Before::Read, 1),
                (Before::WriteAndSync, 1),
            ] {
                let work = Work {
                    before: 0,
                    len,
                    skew: 0,
                    first,
                    rounds,
                    id: 1,
                };
                let mut crew = fork(&files, &work).unwrap();
                // A read may have mapped pages writable.
                let least = if first == Before::Nothing { 2 * 2 } else { 0 };
                assert!(crew.work().unwrap() >= least, "{first:?}");
                crew.end().unwrap();
            }
            for (who, file) in files.iter().enumerate() {
                file.verify(0, len, who as u64, 2).unwrap();
            }
        });
    }
}
