// SPDX-License-Identifier: GPL-2.0-only
//! Processes that have permissions of the linear map changed, and others that see whether it still
//! shows them their memory.
//!
//! Some make secret memory and socket filters and drop them in random order. Others own files in
//! the page cache, which they check and write again.

use crate::kit::counts::Counts;
use crate::kit::crew::Crew;
use crate::kit::inject::make_it_fail;
use crate::kit::linear;
use crate::kit::linear::LinearReport;
use crate::kit::linear_change::{Filter, LONGEST, Secret, allow_secrets, compile};
use crate::kit::linear_owned::{Owned, PIECE, through_pipe};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use std::collections::BTreeMap;
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

/// What all processes count, by its place among the counts.
#[derive(Clone, Copy, Debug)]
enum Count {
    Secrets,
    Filters,
    Refused,
    CheckedBytes,
    WrittenBytes,
    /// Owners whose memory is written.
    Ready,
    /// Owners are to end.
    Over,
    /// Those who change permissions are to end.
    Enough,
}

impl From<Count> for usize {
    fn from(count: Count) -> Self {
        count as Self
    }
}

/// Those that are told.
const TOLD: [(&str, Count); 5] = [
    ("secrets", Count::Secrets),
    ("filters", Count::Filters),
    ("refused", Count::Refused),
    ("checked_bytes", Count::CheckedBytes),
    ("written_bytes", Count::WrittenBytes),
];

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
pub struct Owners {
    counts: Counts,
    crew: Crew,
    cpus: u64,
    seed: u64,
}

impl Owners {
    /// Starts the owners, one for each CPU, who own `most` bytes or less together, and waits until
    /// these are written.
    pub fn begin(seed: u64, most: u64) -> Result<Self> {
        allow_secrets()?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let mut owners = Self {
            counts: Counts::new(Count::Enough as usize + 1)?,
            crew: Crew::new()?,
            cpus,
            seed,
        };
        let (counts, owned) = (owners.counts, (free_memory()? / OWNED_SHARE).min(most));
        for nth in 0..cpus {
            let rng = owners.rng(nth);
            let work = || own(owned / cpus, counts, rng);
            owners.crew.start(&format!("owner-{nth}"), work)?;
        }
        let begun = Instant::now();
        while counts.get(Count::Ready) < cpus && begun.elapsed() < FILLING {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(owners)
    }

    /// Starts those who change permissions, two for each CPU.
    pub fn change(&self, changes: Changes) -> Result<Changers> {
        let counts = self.counts;
        counts.set(Count::Enough, 0);
        let mut crew = Crew::new()?;
        for nth in 0..2 * self.cpus {
            let rng = self.rng(nth + self.cpus);
            let work = || change(changes, counts, rng);
            crew.start(&format!("changer-{nth}"), work)?;
        }
        Ok(Changers { counts, crew })
    }

    /// Ends the owners, who check all that they have once more, and adds what all did.
    pub fn end(self, report: &mut LinearReport) -> Result<()> {
        self.counts.set(Count::Over, 1);
        self.crew.finish()?;
        for (name, count) in TOLD {
            report.counts.insert(name.into(), self.counts.get(count));
        }
        Ok(())
    }

    fn rng(&self, nth: u64) -> Rng {
        Rng::with_seed(self.seed ^ (nth << 32))
    }
}

/// Those who change permissions.
#[derive(Debug)]
pub struct Changers {
    counts: Counts,
    crew: Crew,
}

impl Changers {
    /// Waits until all have done their rounds.
    pub fn end(self) -> Result<()> {
        self.crew.finish()
    }

    /// Lets each end its round and drop what it has.
    pub fn stop(self) -> Result<()> {
        self.counts.set(Count::Enough, 1);
        self.crew.finish()
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

fn free_memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo: no MemAvailable")? << 10)
}

/// Makes and drops, at random.
fn change(changes: Changes, counts: Counts, mut rng: Rng) -> Result<()> {
    let page = wideleaf_bench::page_size() as usize;
    // They must not grow later: a process whose own allocations fail is ended by Rust.
    let mut secrets = Vec::with_capacity(SECRETS + 1);
    let mut filters = Vec::with_capacity(FILTERS + 1);
    if changes.fail_allocations {
        make_it_fail(true)?;
    }
    for round in 0..changes.rounds {
        if counts.get(Count::Enough) > 0 {
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
                counts.add(Count::Secrets, u64::from(made));
                secrets.extend(secret);
                made
            }
            _ => {
                let filter = Filter::new(rng.u16(1..=LONGEST))?;
                let made = filter.is_some();
                counts.add(Count::Filters, u64::from(made));
                filters.extend(filter);
                made
            }
        };
        ensure!(
            made || changes.fail_allocations,
            "round {round}: no memory, though none was made to fail"
        );
        counts.add(Count::Refused, u64::from(!made));
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
fn own(bytes: u64, counts: Counts, mut rng: Rng) -> Result<()> {
    let mut owned = Owned::filled(bytes, &mut rng)?;
    counts.add(Count::Ready, 1);
    let checked = |bytes| counts.add(Count::CheckedBytes, bytes);
    while counts.get(Count::Over) == 0 {
        owned.check(rng.usize(..owned.pieces()))?;
        checked(PIECE as u64);
        owned.write(rng.usize(..owned.pieces()), rng.u64(..))?;
        counts.add(Count::WrittenBytes, PIECE as u64);
        through_pipe(&mut rng)?;
    }
    checked(owned.check_all()?);
    Ok(())
}
