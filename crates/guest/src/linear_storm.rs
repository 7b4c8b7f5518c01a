// SPDX-License-Identifier: GPL-2.0-only
//! Permissions of the linear map change in every way at once, while others read through it; then
//! it is to become as wide as it was.
//!
//! Processes make secret memory and socket filters and drop them in random order. Others own files
//! in the page cache and buffers, and have the kernel copy them: it reads and writes them through
//! its linear map. Each byte that comes back is checked.

use crate::linear;
use crate::linear_change::{Filter, LONGEST, Secret, allow_secrets, compile};
use crate::linear_fail;
use crate::port::Port;
use crate::protocol::{LinearReport, LinearStormOptions, Message};
use crate::storm_inject::{Injection, make_it_fail, make_workers_fail};
use crate::storm_stage::map;
use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What one process has at a time at most.
const SECRETS: usize = 8;
const FILTERS: usize = 48;

/// Pages of a secret area at most.
const SECRET_PAGES: usize = 64;

/// Share of the guest's free memory that is owned and checked, and how much at most.
const OWNED_SHARE: u64 = 3;
const OWNED_MOST: u64 = 1 << 30;

/// How long writing all of it may take before the changes begin all the same.
const FILLING: Duration = Duration::from_secs(120);

/// Bytes that are copied at once.
const PIECE: usize = 64 << 10;

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
    over: AtomicU64,
}

/// Plays it.
pub fn run(options: &LinearStormOptions, port: &Port) -> Result<LinearReport> {
    let counts = shared()?;
    allow_secrets()?;
    let mut report = LinearReport::default();
    linear::rest();
    linear::take(&mut report, "boot");
    let injection = match options.fail_allocations {
        true => Some(Injection::of_tasks()?),
        false => None,
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut owners = Vec::new();
    let owned = (free_memory()? / OWNED_SHARE).min(OWNED_MOST) / cpus;
    for nth in 0..cpus {
        let rng = Rng::with_seed(options.seed ^ (nth << 32));
        owners.push(start(&format!("owner-{nth}"), || own(owned, counts, rng))?);
    }
    let begun = Instant::now();
    while counts.ready.load(Relaxed) < cpus && begun.elapsed() < FILLING {
        std::thread::sleep(Duration::from_millis(10));
    }
    if options.fail_allocations {
        make_workers_fail()?;
    }
    let mut changers = Vec::new();
    for nth in 0..2 * cpus {
        let rng = Rng::with_seed(options.seed ^ ((nth + cpus) << 32));
        let work = || change(options, counts, rng);
        changers.push(start(&format!("changer-{nth}"), work)?);
    }
    end(changers)?;
    linear::take(&mut report, "storm");
    if let Some(injection) = injection {
        let failed = injection.end()?;
        report.counts.insert("failed_allocations".into(), failed);
        // Only decoration.
        let _ = port.send(&Message::Progress {
            text: "each allocation of a change fails once".into(),
        });
        linear_fail::each(&mut report)?;
    }
    counts.over.store(1, Relaxed);
    end(owners)?;
    // Only decoration.
    let _ = port.send(&Message::Progress {
        text: "the map settles".into(),
    });
    let waited = settle(options, &report);
    linear::take(&mut report, "settled");
    for (name, count) in [
        ("secrets", &counts.secrets),
        ("filters", &counts.filters),
        ("refused", &counts.refused),
        ("checked_bytes", &counts.checked_bytes),
        ("written_bytes", &counts.written_bytes),
    ] {
        report.counts.insert(name.into(), count.load(Relaxed));
    }
    report
        .counts
        .insert("settled_ms".into(), waited.as_millis() as u64);
    Ok(report)
}

/// Waits until the map is as wide as at boot, where the kernel tells; else for a while.
fn settle(options: &LinearStormOptions, report: &LinearReport) -> Duration {
    let since = Instant::now();
    std::thread::sleep(QUIET);
    let boot = &report.moments[0].leaves;
    let patience = Duration::from_secs(options.settle_s.into());
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
fn change(options: &LinearStormOptions, counts: &Counts, mut rng: Rng) -> Result<()> {
    let page = wideleaf_bench::page_size() as usize;
    let (mut secrets, mut filters) = (Vec::new(), Vec::new());
    if options.fail_allocations {
        make_it_fail(true)?;
    }
    for round in 0..options.rounds {
        let made = match rng.u8(..8) {
            0 => {
                compile(rng.bool());
                true
            }
            1..=3 => {
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
            made || options.fail_allocations,
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

/// A file in the page cache, what each of its pieces holds, and a pipe.
struct Owned {
    file: File,
    /// By which each piece was last written.
    keys: Vec<u64>,
    buffer: Vec<u64>,
}

impl Owned {
    fn new(bytes: u64) -> Result<Self> {
        let file = memfd_create(c"owned", MFdFlags::empty()).context("memfd_create")?;
        Ok(Self {
            file: file.into(),
            keys: vec![0; (bytes as usize / PIECE).max(1)],
            buffer: vec![0; PIECE / 8],
        })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: words are bytes too.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.as_mut_ptr().cast(), PIECE) }
    }

    /// Has the kernel write a piece.
    fn write(&mut self, piece: usize, key: u64) -> Result<()> {
        self.keys[piece] = key;
        for (nth, word) in self.buffer.iter_mut().enumerate() {
            *word = word_of(key, nth);
        }
        let at = (piece * PIECE) as u64;
        let file = self.file.try_clone()?;
        file.write_all_at(self.bytes(), at).context("write")
    }

    /// Has the kernel read a piece, and checks each byte.
    fn check(&mut self, piece: usize) -> Result<()> {
        let (at, file) = ((piece * PIECE) as u64, self.file.try_clone()?);
        file.read_exact_at(self.bytes(), at).context("read")?;
        compare(&self.buffer, self.keys[piece]).with_context(|| format!("piece {piece}"))
    }
}

fn word_of(key: u64, nth: usize) -> u64 {
    (key ^ nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn compare(buffer: &[u64], key: u64) -> Result<()> {
    for (nth, &found) in buffer.iter().enumerate() {
        let word = word_of(key, nth);
        ensure!(found == word, "byte {}: {found:#x}, not {word:#x}", nth * 8);
    }
    Ok(())
}

/// Owns memory, and checks and changes it until the storm is over; then all of it once more.
fn own(bytes: u64, counts: &Counts, mut rng: Rng) -> Result<()> {
    let mut owned = Owned::new(bytes)?;
    let pieces = owned.keys.len();
    let checked = || counts.checked_bytes.fetch_add(PIECE as u64, Relaxed);
    for piece in 0..pieces {
        owned.write(piece, rng.u64(..))?;
    }
    counts.ready.fetch_add(1, Relaxed);
    while counts.over.load(Relaxed) == 0 {
        owned.check(rng.usize(..pieces))?;
        checked();
        owned.write(rng.usize(..pieces), rng.u64(..))?;
        counts.written_bytes.fetch_add(PIECE as u64, Relaxed);
        through_pipe(&mut rng)?;
    }
    for piece in 0..pieces {
        owned.check(piece)?;
        checked();
    }
    Ok(())
}

/// Gives pages of this process to a pipe, out of which the kernel copies them.
fn through_pipe(rng: &mut Rng) -> Result<()> {
    let (read, write) = nix::unistd::pipe().context("pipe")?;
    let key = rng.u64(..);
    let mut sent: Vec<_> = (0..512).map(|nth| word_of(key, nth)).collect();
    let part = libc::iovec {
        iov_base: sent.as_mut_ptr().cast(),
        iov_len: 4096,
    };
    // SAFETY: the pages stay as they are until they are read below.
    let given = unsafe { libc::vmsplice(write.as_raw_fd(), &part, 1, 0) };
    if given != 4096 {
        // A kernel that does not splice; then write.
        File::from(write).write_all(
            &sent
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<_>>(),
        )?;
    }
    let mut got = vec![0; 4096];
    File::from(read).read_exact(&mut got).context("a pipe")?;
    let got: Vec<_> = got
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    compare(&got, key).context("through a pipe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_checked() {
        let mut owned = Owned::new(3 * PIECE as u64).unwrap();
        for piece in 0..3 {
            owned.write(piece, 7 + piece as u64).unwrap();
        }
        (0..3).for_each(|piece| owned.check(piece).unwrap());
        owned.file.write_all_at(&[0], PIECE as u64 + 77).unwrap();
        owned.check(0).unwrap();
        let error = format!("{:#}", owned.check(1).unwrap_err());
        assert!(error.starts_with("piece 1: byte 72: "), "{error}");
        through_pipe(&mut Rng::with_seed(1)).unwrap();
    }
}
