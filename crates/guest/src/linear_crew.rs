// SPDX-License-Identifier: GPL-2.0-only
//! Processes that have permissions of the linear map changed, and others that see whether it still
//! shows them their memory.
//!
//! Some make secret memory and socket filters and drop them in random order. Others own files in
//! the page cache, which they check and write again.

use crate::linear;
use crate::linear_change::{Filter, LONGEST, Secret, allow_secrets, compile};
use crate::linear_owned::{Owned, PIECE, through_pipe};
use crate::protocol::LinearReport;
use crate::storm_inject::make_it_fail;
use crate::storm_stage::map;
use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What one process has at a time at most.
const SECRETS: usize = 8;
const FILTERS: usize = 48;

/// Pages of a secret area at most.
const SECRET_PAGES: usize = 64;

/// Share of the guest's free memory that is owned and checked at most.
const OWNED_SHARE: u64 = 3;

/// How long writing all of it may take before the changes begin all the same.
const FILLING: Duration = Duration::from_secs(120);

/// How long the kernel takes to free what was dropped, and to begin to look.
const QUIET: Duration = Duration::from_secs(3);

/// What all processes count.
#[derive(Debug, Default)]
struct Counts {
    secrets: AtomicU64,
    filters: AtomicU64,
    refused: AtomicU64,
    checked_bytes: AtomicU64,
    written_bytes: AtomicU64,
    /// Owners whose memory is written.
    ready: AtomicU64,
    /// Owners are to end.
    over: AtomicU64,
    /// Who changes permissions is to end.
    enough: AtomicU64,
}

/// What those who change permissions do.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// How often each makes or drops something, if it is not told to stop before.
    pub rounds: u64,
    /// Whether they make secret memory, besides filters.
    pub secrets: bool,
    /// Whether their allocations may fail.
    pub fail_allocations: bool,
}

impl Changes {
    /// All kinds, and none may fail.
    pub const UNTIL_STOPPED: Self = Self {
        rounds: u64::MAX,
        secrets: true,
        fail_allocations: false,
    };
}

/// The owners, and what all count.
#[derive(Debug)]
pub struct Crew {
    counts: &'static Counts,
    owners: Vec<(Pid, String)>,
    cpus: u64,
    seed: u64,
}

impl Crew {
    /// Starts the owners, one for each CPU, who own `most` bytes or less together, and waits until
    /// these are written.
    pub fn begin(seed: u64, most: u64) -> Result<Self> {
        allow_secrets()?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let mut crew = Self {
            counts: shared()?,
            owners: Vec::new(),
            cpus,
            seed,
        };
        let (counts, owned) = (crew.counts, (free_memory()? / OWNED_SHARE).min(most));
        for nth in 0..cpus {
            let rng = crew.rng(nth);
            let work = || own(owned / cpus, counts, rng);
            crew.owners.push(start(&format!("owner-{nth}"), work)?);
        }
        let begun = Instant::now();
        while counts.ready.load(Relaxed) < cpus && begun.elapsed() < FILLING {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(crew)
    }

    /// Starts those who change permissions, two for each CPU.
    pub fn change(&self, changes: Changes) -> Result<Changers> {
        let counts = self.counts;
        counts.enough.store(0, Relaxed);
        let mut processes = Vec::new();
        for nth in 0..2 * self.cpus {
            let rng = self.rng(nth + self.cpus);
            let work = || change(changes, counts, rng);
            processes.push(start(&format!("changer-{nth}"), work)?);
        }
        Ok(Changers { counts, processes })
    }

    /// Ends the owners, who check all that they have once more.
    pub fn end(&mut self) -> Result<()> {
        self.counts.over.store(1, Relaxed);
        end(std::mem::take(&mut self.owners))
    }

    /// Adds what all did.
    pub fn count(&self, report: &mut LinearReport) {
        let counts = self.counts;
        for (name, count) in [
            ("secrets", &counts.secrets),
            ("filters", &counts.filters),
            ("refused", &counts.refused),
            ("checked_bytes", &counts.checked_bytes),
            ("written_bytes", &counts.written_bytes),
        ] {
            report.counts.insert(name.into(), count.load(Relaxed));
        }
    }

    fn rng(&self, nth: u64) -> Rng {
        Rng::with_seed(self.seed ^ (nth << 32))
    }
}

/// Those who change permissions.
#[derive(Debug)]
pub struct Changers {
    counts: &'static Counts,
    processes: Vec<(Pid, String)>,
}

impl Changers {
    /// Waits until all have done their rounds.
    pub fn end(self) -> Result<()> {
        end(self.processes)
    }

    /// Lets each end its round and drop what it has.
    pub fn stop(self) -> Result<()> {
        self.counts.enough.store(1, Relaxed);
        end(self.processes)
    }
}

/// Waits until the map is as wide as at boot, where the kernel tells; else for a while.
pub fn settle(boot: &BTreeMap<String, u64>, patience: Duration) -> Duration {
    let since = Instant::now();
    std::thread::sleep(QUIET);
    while linear::narrower(boot, &linear::leaves()) > 0 && since.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(100));
    }
    since.elapsed()
}

/// Memory that all processes count in.
fn shared() -> Result<&'static Counts> {
    let (len, protection) = (size_of::<Counts>(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let start = map(None, len as u64, protection, flags, None)?;
    // SAFETY: new memory, which nobody unmaps; all zeroes are counters of 0.
    Ok(unsafe { &*(start as *const Counts) })
}

fn free_memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo: no MemAvailable")? << 10)
}

/// Forks a process; what its work returns as an error fails the storm.
fn start(name: &str, work: impl FnOnce() -> Result<()>) -> Result<(Pid, String)> {
    // SAFETY: there is one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            let _ = std::fs::write("/proc/self/comm", name);
            let status = match work() {
                Ok(()) => 0,
                Err(error) => {
                    // On the console, where the lab shows the last lines.
                    eprintln!("{name}: {error:#}");
                    1
                }
            };
            // SAFETY: ends the process.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => Ok((child, name.into())),
    }
}

fn end(processes: Vec<(Pid, String)>) -> Result<()> {
    for (pid, name) in processes {
        match waitpid(pid, None).context("waitpid")? {
            WaitStatus::Exited(_, 0) => {}
            other => bail!("{name}: {other:?}; why is on the console"),
        }
    }
    Ok(())
}

/// Makes and drops, at random.
fn change(changes: Changes, counts: &Counts, mut rng: Rng) -> Result<()> {
    let page = wideleaf_bench::page_size() as usize;
    let (mut secrets, mut filters) = (Vec::new(), Vec::new());
    if changes.fail_allocations {
        make_it_fail(true)?;
    }
    for round in 0..changes.rounds {
        if counts.enough.load(Relaxed) > 0 {
            break;
        }
        let made = match rng.u8(..8) {
            0 => {
                compile(rng.bool());
                true
            }
            1..=3 if changes.secrets => {
                let secret = Secret::new(rng.usize(1..=SECRET_PAGES) * page, rng.u64(..))?;
                let made = secret.is_some();
                counts.secrets.fetch_add(u64::from(made), Relaxed);
                secrets.extend(secret);
                made
            }
            _ => {
                let filter = Filter::new(rng.u16(1..=LONGEST))?;
                let made = filter.is_some();
                counts.filters.fetch_add(u64::from(made), Relaxed);
                filters.extend(filter);
                made
            }
        };
        ensure!(
            made || changes.fail_allocations,
            "round {round}: no memory, though none was made to fail"
        );
        counts.refused.fetch_add(u64::from(!made), Relaxed);
        while secrets.len() > SECRETS {
            let secret: Secret = secrets.swap_remove(rng.usize(..secrets.len()));
            secret.check()?;
        }
        while filters.len() > FILTERS {
            filters.swap_remove(rng.usize(..filters.len()));
        }
    }
    secrets.iter().try_for_each(Secret::check)
}

/// Owns memory, and checks and changes it until the storm is over; then all of it once more.
fn own(bytes: u64, counts: &Counts, mut rng: Rng) -> Result<()> {
    let mut owned = Owned::filled(bytes, &mut rng)?;
    counts.ready.fetch_add(1, Relaxed);
    let checked = |bytes| counts.checked_bytes.fetch_add(bytes, Relaxed);
    while counts.over.load(Relaxed) == 0 {
        owned.check(rng.usize(..owned.pieces()))?;
        checked(PIECE as u64);
        owned.write(rng.usize(..owned.pieces()), rng.u64(..))?;
        counts.written_bytes.fetch_add(PIECE as u64, Relaxed);
        through_pipe(&mut rng)?;
    }
    checked(owned.check_all()?);
    Ok(())
}
