// SPDX-License-Identifier: GPL-2.0-only
//! One run of the benchmark: evict, sweep cold, sweep warm, call at random, look at the mapping.

use crate::file::{self, StubFile};
use crate::mapping::Mapping;
use crate::options::{Cached, DEFAULT_SIZE, ExecOptions, Plan};
use crate::perf::Events;
use crate::report::{ColdReport, ExecReport, Faults, Figure, PhaseReport, Smaps};
use crate::{page_size, sweep, system};
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{io, thread};
use wideleaf_kit::arch::Arch;
use wideleaf_kit::size::short;

pub use crate::system::{Evict, ReadCounter, ReclaimCounter};

/// How long memory stays short after the first sweep: so that the kernel's threads see it.
const SHORT: Duration = Duration::from_secs(2);

/// The measured parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first sweep, from an empty page cache.
    Cold,
    /// Random calls after a full sweep.
    Random,
}

/// Somebody who watches from outside: the lab's plugin, or nobody.
///
/// `enter` and `leave` run inside the measured time, so they must be short.
pub trait Watcher {
    /// A phase begins now.
    fn enter(&mut self, _phase: Phase) {}
    /// It has ended.
    fn leave(&mut self) {}
    /// The mapping is as the last phase left it: the moment to look at its leaves.
    fn look(&mut self, _address: u64, _len: u64) {}
    /// A phase is what is done next; `text` says so to a human. Never called
    /// inside a phase.
    fn begin(&mut self, _phase: Phase, text: &str) {
        self.progress(text);
    }
    /// What is done next, for a human. Never called inside a phase.
    fn progress(&mut self, _text: &str) {}
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Watcher for Alone {}

/// What differs between a guest of the lab and any other machine.
#[derive(Debug)]
pub struct Surroundings {
    /// How to empty the page cache.
    pub evict: Evict,
    /// Where to see what was read.
    pub reads: ReadCounter,
    /// Whether to ask the CPU's own counters.
    pub perf_events: bool,
    /// Where to see what memory pressure did; `None`: not asked for.
    pub reclaim: Option<ReclaimCounter>,
    /// A child of this process that holds memory, and is killed two seconds after the first sweep.
    pub holder: Option<Pid>,
}

impl Surroundings {
    /// A machine that does other things too: only the file's own pages are evicted.
    #[must_use]
    pub fn native() -> Self {
        Self {
            evict: Evict::Fadvise,
            reads: ReadCounter::OwnProcess,
            perf_events: true,
            reclaim: None,
            holder: None,
        }
    }

    /// A guest whose disk serves only the benchmark, in this cgroup if in one. An emulated CPU
    /// has no counters.
    #[must_use]
    pub fn guest(disk: &str, cgroup: Option<PathBuf>) -> Self {
        Self {
            evict: Evict::DropCaches,
            reads: ReadCounter::BlockDevice(disk.to_owned()),
            perf_events: false,
            reclaim: Some(ReclaimCounter { cgroup }),
            holder: None,
        }
    }
}

/// Runs the benchmark.
///
/// # Errors
///
/// A request or file that cannot be run, or a system call that failed. Figures that this machine
/// cannot give are no error; they say so in the report.
pub fn run(
    options: &ExecOptions,
    around: &Surroundings,
    watcher: &mut dyn Watcher,
) -> Result<ExecReport> {
    if options.cached == Some(Cached::Written) {
        watcher.progress("writing the stub file");
        let arch = Arch::host().context("no stubs for this machine")?;
        file::create(&options.file, arch, options.size.unwrap_or(DEFAULT_SIZE))?;
    }
    let stubs = file::open(&options.file)?;
    let page_size = page_size();
    let plan = options.plan(stubs.len, page_size)?;
    if options.cold && options.cached != Some(Cached::Written) {
        watcher.progress("emptying the page cache");
        around.evict.run(&stubs.file)?;
    }
    if options.cached == Some(Cached::Read) {
        watcher.progress("reading the stub file");
        io::copy(&mut &stubs.file, &mut io::sink()).context("cannot read the stub file")?;
    }
    let mapping = Mapping::new(&stubs.file, plan.size, plan.align)
        .with_context(|| options.file.display().to_string())?;
    let mut run = Measurement {
        plan,
        page_size,
        around,
        watcher,
        stubs: &stubs,
        mapping: &mapping,
        threads: options.threads,
        settle: Duration::from_secs(options.settle_s.into()),
    };
    run.rehearse()?;
    let cold = options.cold.then(|| run.cold()).transpose()?;
    let random = options.random.then(|| run.random()).transpose()?;
    run.watcher.look(mapping.address(), plan.size);
    Ok(report(options, &run, cold, random))
}

struct Measurement<'a> {
    plan: Plan,
    page_size: u64,
    around: &'a Surroundings,
    watcher: &'a mut dyn Watcher,
    stubs: &'a StubFile,
    mapping: &'a Mapping,
    threads: u32,
    settle: Duration,
}

impl Measurement<'_> {
    /// Touches everything that a measured phase uses apart from the stubs: the same functions,
    /// at the same depth of the stack, with nothing to call. Otherwise their own faults would be
    /// counted, and how many these are depends on where the kernel has put the stack.
    fn rehearse(&mut self) -> Result<()> {
        let Plan { stride, seed, .. } = self.plan;
        let address = self.mapping.address();
        self.watcher.leave();
        for phase in [Phase::Cold, Phase::Random] {
            // SAFETY: no stub is called.
            measured(self.around, &mut Alone, phase, 0, || unsafe {
                sweep::in_order(address, stride, 0);
                sweep::random(address, stride, 0, 0, seed);
            })?;
        }
        Ok(())
    }

    fn cold(&mut self) -> Result<ColdReport> {
        let resident_before = self.mapping.resident(self.page_size)?;
        self.watcher.begin(Phase::Cold, "cold sweep");
        let Plan { stride, stubs, .. } = self.plan;
        let (address, settle) = (self.mapping.address(), self.settle);
        let (others, holder) = (1..self.threads, self.around.holder);
        let mut freed = Ok(());
        // SAFETY: plan() made sure that all stubs lie in the mapping.
        let sweep = || unsafe { sweep::in_order(address, stride, stubs) };
        let phase = measured(self.around, self.watcher, Phase::Cold, stubs, || {
            thread::scope(|scope| {
                others.for_each(|_| drop(scope.spawn(sweep)));
                sweep();
            });
            if let Some(holder) = holder {
                thread::sleep(SHORT);
                freed = end(holder);
            }
            thread::sleep(settle);
        })?;
        freed?;
        Ok(ColdReport {
            phase,
            resident_before,
        })
    }

    fn random(&mut self) -> Result<PhaseReport> {
        self.watcher.progress("warm sweep");
        let Plan {
            stride,
            stubs,
            calls,
            seed,
            ..
        } = self.plan;
        let address = self.mapping.address();
        // SAFETY: plan() made sure that all stubs lie in the mapping.
        unsafe { sweep::in_order(address, stride, stubs) };
        if self.around.holder.is_some() {
            // Pages that reclaim took are back now, and may become wide.
            thread::sleep(self.settle);
        }
        self.watcher.begin(Phase::Random, "random calls");
        measured(self.around, self.watcher, Phase::Random, calls, || {
            // SAFETY: as above; a target is always one of the stubs.
            unsafe { sweep::random(address, stride, stubs, calls, seed) };
        })
    }
}

/// Kills a child, and waits until all that it had is free.
fn end(child: Pid) -> Result<()> {
    kill(child, Signal::SIGKILL).context("kill")?;
    waitpid(child, None).context("waitpid").map(drop)
}

/// Does the work and counts what happens meanwhile.
pub(crate) fn measured(
    around: &Surroundings,
    watcher: &mut dyn Watcher,
    phase: Phase,
    calls: u64,
    work: impl FnOnce(),
) -> Result<PhaseReport> {
    let mut events = if around.perf_events {
        Events::open()
    } else {
        Events::none()
    };
    let reclaim = || around.reclaim.as_ref().map(ReclaimCounter::read);
    let reclaim_before = reclaim().transpose()?;
    let read_before = around.reads.read();
    events.start();
    let began = Instant::now();
    let before = system::faults()?;
    watcher.enter(phase);
    work();
    watcher.leave();
    let after = system::faults()?;
    let elapsed = began.elapsed();
    events.stop();
    let reads = match (read_before, around.reads.read()) {
        (Ok(before), Ok(after)) => Ok(after.since(before)),
        (Err(reason), _) | (_, Err(reason)) => Err(reason),
    };
    Ok(PhaseReport {
        calls,
        faults: Faults {
            minor: after.minor - before.minor,
            major: after.major - before.major,
        },
        read_requests: reads.as_ref().ok().and_then(|reads| reads.requests),
        read_bytes: reads.map_or_else(|reason| reason, |reads| Figure::Value(reads.bytes)),
        nanoseconds: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        events: events.read(),
        reclaim: match (reclaim_before, reclaim().transpose()?) {
            (Some(before), Some(after)) => grown(&before, &after),
            _ => BTreeMap::new(),
        },
    })
}

/// How much each counter has grown.
fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |name: &String| before.get(name).copied().unwrap_or(0);
    let grown = after
        .iter()
        .map(|(name, value)| (name.clone(), value - since(name)));
    grown.collect()
}

fn report(
    options: &ExecOptions,
    run: &Measurement<'_>,
    cold: Option<ColdReport>,
    random: Option<PhaseReport>,
) -> ExecReport {
    let mut warnings = Vec::new();
    let filesystem = system::filesystem(&options.file).unwrap_or_else(|error| {
        warnings.push(format!("file system unknown: {error:#}"));
        "?".into()
    });
    if let Some(cold) = &cold
        && cold.resident_before > 0
        && options.cached.is_none()
    {
        warnings.push(still_cached(
            &filesystem,
            cold.resident_before,
            run.plan.size,
        ));
    }
    let address = run.mapping.address();
    let smaps: Option<Smaps> = system::smaps(address)
        .map_err(|error| warnings.push(format!("coverage unknown to the kernel: {error:#}")))
        .ok();
    ExecReport {
        file: options.file.display().to_string(),
        filesystem,
        arch: run.stubs.arch,
        page_size: run.page_size,
        size: run.plan.size,
        stride: run.plan.stride,
        stubs: run.plan.stubs,
        seed: run.plan.seed,
        address,
        address_alignment: 1 << address.trailing_zeros(),
        align: run.plan.align,
        cold,
        random,
        smaps,
        warnings,
    }
}

fn still_cached(filesystem: &str, resident: u64, size: u64) -> String {
    let reason = match filesystem {
        "tmpfs" | "ramfs" | "rootfs" => "it has no other place for its files; use a disk",
        _ => "someone else may have the file open or mapped",
    };
    format!(
        "the cold sweep was not cold: {} of {} stayed in the page cache; file system {filesystem}: {reason}",
        short(resident),
        short(size)
    )
}
