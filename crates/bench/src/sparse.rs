// SPDX-License-Identifier: GPL-2.0-only
//! Text of which only a part is executed: which bytes that reads, and which TLB entries what was
//! executed takes afterwards.
//!
//! The touches are a list of offsets into the file, each executed once, in that order. Each list
//! gets the file opened, mapped and read anew: what the kernel has learnt from one must not help
//! the next.

use crate::exec::{Alone, Phase, Surroundings, Watcher, measured};
use crate::file;
use crate::mapping::{Advice, Mapping};
use crate::options::{CALLS_PER_STUB, STUB_SPACING};
use crate::page_size;
use crate::report::PhaseReport;
use crate::sweep::{self, Targets};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How the file is mapped and touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// What the kernel is told of the mapping.
    pub advice: Option<Advice>,
    /// Whether it is data: mapped to be read, and a byte read where else a stub is executed.
    pub is_data: bool,
    /// Seconds of sleep after the touches, in which the kernel's threads may go on.
    pub settle_s: u32,
}

impl Access {
    fn map(self, stubs: &file::StubFile) -> Result<Mapping> {
        let mapping = match self.is_data {
            true => Mapping::of_data(&stubs.file, stubs.len)?,
            false => Mapping::new(&stubs.file, stubs.len, None)?,
        };
        if let Some(advice) = self.advice {
            mapping.advise(advice)?;
        }
        Ok(mapping)
    }

    /// # Safety
    ///
    /// Memory must be mapped at each of these addresses, executable and with a stub unless it is
    /// data.
    unsafe fn touch(self, addresses: &[u64]) {
        if !self.is_data {
            // SAFETY: the caller's promise.
            return unsafe { sweep::listed(addresses) };
        }
        for address in addresses {
            // SAFETY: the caller's promise.
            unsafe { (*address as *const u8).read_volatile() };
        }
    }
}

/// What one list of touches cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseReport {
    /// The pattern that gave the list.
    pub pattern: String,
    /// Bytes mapped.
    pub size: u64,
    /// Base page size in bytes.
    pub page_size: u64,
    /// Bytes of the base pages of which something was executed, each page counted once.
    pub executed_bytes: u64,
    /// Address of the mapping.
    pub address: u64,
    /// Each touch once, from an empty page cache.
    pub cold: PhaseReport,
    /// Random calls among the touches, eight per touch.
    pub random: PhaseReport,
    /// Bytes of the file in the page cache in the end.
    pub resident: u64,
}

/// Runs one list of touches, offsets into the stub file at `path`.
///
/// # Errors
///
/// A file that cannot be executed, an offset without a stub, or a system call that failed.
pub fn run(
    path: &Path,
    pattern: &str,
    touches: &[u64],
    seed: u64,
    access: Access,
    around: &Surroundings,
    watcher: &mut dyn Watcher,
) -> Result<SparseReport> {
    let stubs = file::open(path)?;
    check(touches, stubs.len).with_context(|| format!("{pattern}: {}", path.display()))?;
    watcher.progress(&format!("{pattern}: emptying the page cache"));
    around.evict.run(&stubs.file)?;
    let mapping = access.map(&stubs)?;
    let at = |offset: &u64| mapping.address() + offset;
    let once: Vec<u64> = touches.iter().map(at).collect();
    let often: Vec<u64> = random_calls(touches, seed).iter().map(at).collect();
    let phase = |watcher: &mut dyn Watcher, phase, calls: &[u64], settle| {
        measured(around, watcher, phase, calls.len() as u64, || {
            // SAFETY: check() made sure that there are stubs at all of them.
            unsafe { access.touch(calls) };
            thread::sleep(settle);
        })
    };
    let settle = Duration::from_secs(access.settle_s.into());
    // The measured functions' own faults must not count.
    watcher.leave();
    phase(&mut Alone, Phase::Cold, &[], Duration::ZERO)?;
    watcher.begin(Phase::Cold, &format!("{pattern}: cold"));
    let cold = phase(watcher, Phase::Cold, &once, settle)?;
    watcher.begin(Phase::Random, &format!("{pattern}: random calls"));
    let random = phase(watcher, Phase::Random, &often, Duration::ZERO)?;
    watcher.look(mapping.address(), stubs.len);
    let page_size = page_size();
    Ok(SparseReport {
        pattern: pattern.into(),
        size: stubs.len,
        page_size,
        executed_bytes: pages(touches, page_size) * page_size,
        address: mapping.address(),
        cold,
        random,
        resident: mapping.resident(page_size)?,
    })
}

/// Whether there is a stub at each of them.
fn check(touches: &[u64], len: u64) -> Result<()> {
    ensure!(
        !touches.is_empty(),
        "nothing to call: more of it, or a larger file"
    );
    let wrong = touches
        .iter()
        .find(|offset| **offset >= len || !offset.is_multiple_of(STUB_SPACING));
    match wrong {
        Some(offset) => bail!("no stub at offset {offset} of {len} bytes"),
        None => Ok(()),
    }
}

/// Eight calls per touch, drawn from the touches.
fn random_calls(touches: &[u64], seed: u64) -> Vec<u64> {
    let count = touches.len() as u64;
    // xorshift never leaves 0.
    Targets::new(count, seed.max(1))
        .take((count * CALLS_PER_STUB) as usize)
        .map(|target| touches[target as usize])
        .collect()
}

/// How many pages the offsets lie in.
fn pages(offsets: &[u64], page_size: u64) -> u64 {
    let pages: BTreeSet<u64> = offsets.iter().map(|offset| offset / page_size).collect();
    pages.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::create;
    use wideleaf_kit::arch::Arch;

    fn stub_file(size: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stubs");
        create(&path, Arch::host().unwrap(), size).unwrap();
        (dir, path)
    }

    fn run_on(path: &Path, touches: &[u64]) -> Result<SparseReport> {
        run_with(path, touches, Access::default())
    }

    fn run_with(path: &Path, touches: &[u64], access: Access) -> Result<SparseReport> {
        run(
            path,
            "test",
            touches,
            1,
            access,
            &Surroundings::native(),
            &mut Alone,
        )
    }

    #[test]
    fn a_page_executed_twice_counts_once() {
        let (_dir, path) = stub_file(1 << 20);
        let page = page_size();
        let report = run_on(&path, &[5 * page, 0, 5 * page]).unwrap();
        assert_eq!(report.executed_bytes, 2 * page);
        assert_eq!((report.cold.calls, report.random.calls), (3, 24));
        assert!(report.resident >= 2 * page);
    }

    #[test]
    fn data_is_read_and_advice_is_given() {
        let (_dir, path) = stub_file(1 << 20);
        for advice in Advice::ALL.iter().copied().map(Some) {
            let access = Access {
                advice,
                is_data: true,
                settle_s: 0,
            };
            let report = match run_with(&path, &[0, 8192], access) {
                // A host without huge pages.
                Err(_) if advice == Some(Advice::HugePage) => continue,
                report => report.unwrap(),
            };
            assert_eq!((report.cold.calls, report.random.calls), (2, 16));
        }
    }

    #[test]
    fn what_is_no_stub_is_not_called() {
        let (_dir, path) = stub_file(1 << 20);
        for (touches, word) in [
            (&[100][..], "100"),
            (&[1 << 20], "1048576"),
            (&[], "nothing"),
        ] {
            let error = format!("{:#}", run_on(&path, touches).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn random_calls_are_of_the_touches_and_repeat() {
        let touches = [0, 8192, 4096];
        let calls = random_calls(&touches, 7);
        assert_eq!(calls.len(), 24);
        assert!(calls.iter().all(|call| touches.contains(call)));
        assert_eq!(calls, random_calls(&touches, 7));
        assert_ne!(calls, random_calls(&touches, 8));
    }
}
