// SPDX-License-Identifier: GPL-2.0-only
//! Threads of one process, one on each CPU but the first, touch memory that is not mapped yet. On
//! the first CPU a thread is in MADV_DONTNEED meanwhile, so that the process has a TLB flush
//! pending when the others map pages.
//!
//! All of it is bounded by counts: in each round every thread touches as much, and memory is given
//! back once. The rounds begin together.

use super::{Case, NAME, Report, STEP, Task};
use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use std::sync::Barrier;
use std::thread::{available_parallelism, scope};
use wideleaf_bench::page_size;
use wideleaf_guest::kit::mapping::Mapping;
use wideleaf_guest::kit::page_cache::fault_around_bytes;
use wideleaf_guest::kit::shared_file::{SharedFile, value, word};
use wideleaf_guest::kit::{cgroup, marker, swap};
use wideleaf_guest::place::{Place, pin_to};
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Faults;

/// The registry's entry.
pub const WORK: Faults = Faults;

impl Work for Faults {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, port)
    }
}

/// Entries that are given back at once: so many that the other CPUs have their turns before all are
/// cleared. They map the zero page, which takes no memory.
const GIVEN_BACK: u64 = 1 << 14;

/// Newer than libc's musl (include/uapi/asm-generic/mman-common.h).
const MADV_POPULATE_READ: i32 = 22;

/// The memory that threads touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Private memory, for the first time.
    Anonymous,
    /// Pages of a file that are in the page cache.
    File,
    /// Private memory that was swapped out.
    Swap,
}

/// Swap is the last: the process stays in the cgroup whose memory is limited.
const KINDS: [(&str, Kind); 3] = [
    ("anonymous", Kind::Anonymous),
    ("file", Kind::File),
    ("swap", Kind::Swap),
];

fn job(task: &Task, port: &Port) -> Result<Report> {
    // Before this thread is kept on one of them.
    let cpus = available_parallelism().map_or(1, usize::from);
    ensure!(cpus > 1, "this job needs two CPUs: --cpus 2 or more");
    // With 4K pages a fault would map 16 pages of a file, and there would be as many fewer.
    fault_around_bytes(page_size())?;
    let mut report = Report::default();
    let kinds = KINDS
        .iter()
        .filter(|(_, kind)| task.swap || *kind != Kind::Swap);
    for (id, &(name, kind)) in (1..).zip(kinds) {
        port.begin(id, name)?;
        report.cases.push(Case {
            name: name.into(),
            faults: run(task, cpus, kind, id).context(name)?,
        });
    }
    Ok(report)
}

/// One kind of faults, as the phase `id`. Returns how many faults the threads took.
fn run(task: &Task, cpus: usize, kind: Kind, id: u8) -> Result<u64> {
    let size = task.rounds * STEP;
    let areas = (1..cpus)
        .map(|nth| Area::new(task, kind, nth as u64))
        .collect::<Result<Vec<_>>>()?;
    if kind == Kind::Swap {
        let all = size * areas.len() as u64;
        swap::on_zram(2 * all)?;
        // Half of what the threads touch.
        cgroup::enter(&cgroup::limited(NAME, &(all / 2).to_string())?)?;
    }
    let dropped = Mapping::anonymous(None, GIVEN_BACK * page_size(), libc::MAP_NORESERVE)?;
    refuse_huge_pages(dropped);
    let together = Barrier::new(cpus);
    let faults = scope(|scope| {
        let threads: Vec<_> = areas
            .iter()
            .map(|area| scope.spawn(|| area.touch(&together, task.rounds)))
            .collect();
        let given_back = give_back(dropped, &together, task.rounds, id);
        let joined = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
        });
        let faults = joined.sum::<Result<u64>>();
        given_back.and(faults)
    })?;
    areas.iter().try_for_each(|area| area.memory.unmap())?;
    dropped.unmap()?;
    Ok(faults)
}

/// Kernels without transparent huge pages refuse this advice, and need none.
fn refuse_huge_pages(memory: Mapping) {
    let _ = memory.advise(libc::MADV_NOHUGEPAGE);
}

/// Gives all entries of `memory` back, once in each round. The phase lasts for all rounds.
fn give_back(memory: Mapping, together: &Barrier, rounds: u64, id: u8) -> Result<()> {
    let mut done = pin_to(0);
    together.wait();
    marker::enter(id);
    for _ in 0..rounds {
        done = done.and_then(|()| memory.advise(MADV_POPULATE_READ));
        together.wait();
        done = done.and_then(|()| memory.advise(libc::MADV_DONTNEED));
    }
    together.wait();
    marker::leave();
    done
}

/// The memory of one thread.
#[derive(Debug)]
struct Area {
    /// Number of the thread, and of its CPU.
    nth: u64,
    kind: Kind,
    memory: Mapping,
}

impl Area {
    fn new(task: &Task, kind: Kind, nth: u64) -> Result<Self> {
        let size = task.rounds * STEP;
        let memory = match kind {
            Kind::File => {
                let path = task.folder.join(format!("file-{nth}"));
                SharedFile::make(&path, size, page_size())?.map(0, size, 0)?
            }
            Kind::Anonymous | Kind::Swap => Mapping::anonymous(None, size, 0)?,
        };
        refuse_huge_pages(memory);
        Ok(Self { nth, kind, memory })
    }

    /// The thread's work. Returns how many faults it took while it touched pages. It comes to all
    /// barriers even if something fails: others wait there.
    fn touch(&self, together: &Barrier, rounds: u64) -> Result<u64> {
        let pages = STEP / page_size();
        let all = |round: u64| round * pages..(round + 1) * pages;
        let mut done = pin_to(self.nth as usize);
        if self.kind == Kind::Swap {
            // Its faults are not counted.
            (0..rounds).flat_map(all).for_each(|page| self.write(page));
        }
        together.wait();
        let before = faults();
        for round in 0..rounds {
            together.wait();
            for page in all(round) {
                done = done.and_then(|()| self.touch_page(page));
            }
        }
        let after = faults();
        together.wait();
        done.and_then(|()| Ok(after? - before?))
    }

    fn touch_page(&self, page: u64) -> Result<()> {
        match self.kind {
            Kind::Anonymous => self.write(page),
            Kind::File => drop(self.read(page)),
            Kind::Swap => {
                let (read, written) = (self.read(page), value(self.nth, 0, page));
                ensure!(
                    read == written,
                    "page {page} of thread {} came back from swap as {read:#x}, and was {written:#x}",
                    self.nth
                );
                // Dirty: it is written again when it is swapped out again.
                self.write(page);
            }
        }
        Ok(())
    }

    fn read(&self, page: u64) -> u64 {
        // SAFETY: inside of a mapping of this thread's.
        unsafe { word(self.memory.start, page, 0).read_volatile() }
    }

    fn write(&self, page: u64) {
        // SAFETY: as above, which is writable.
        unsafe { word(self.memory.start, page, 0).write_volatile(value(self.nth, 0, page)) };
    }
}

/// Of this thread so far.
fn faults() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).context("getrusage")?;
    Ok((usage.minor_page_faults() + usage.major_page_faults()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_that_is_touched_first_is_a_fault_and_all_end_together() {
        let dir = tempfile::tempdir().unwrap();
        let task = Task {
            folder: dir.path().into(),
            rounds: 2,
            swap: false,
        };
        let cpus = available_parallelism().map_or(1, usize::from);
        let pins = move || pin_to(0).is_ok() && pin_to(cpus - 1).is_ok();
        // Tests may be kept on some CPUs of a machine.
        if cpus == 1 || !std::thread::spawn(pins).join().unwrap() {
            return;
        }
        let pages = (cpus as u64 - 1) * task.rounds * STEP / page_size();
        let anonymous = run(&task, cpus, Kind::Anonymous, 1).unwrap();
        assert!((pages..pages + 32).contains(&anonymous), "{anonymous}");
        // Here a fault maps pages around it.
        let file = run(&task, cpus, Kind::File, 2).unwrap();
        assert!((1..pages + 32).contains(&file), "{file}");
    }

    #[test]
    fn a_page_that_comes_back_from_swap_as_another_is_told() {
        let area = Area {
            nth: 2,
            kind: Kind::Swap,
            memory: Mapping::anonymous(None, STEP, 0).unwrap(),
        };
        let error = area.touch_page(3).unwrap_err().to_string();
        assert!(error.starts_with("page 3 of thread 2 came back"), "{error}");
        area.write(3);
        area.touch_page(3).unwrap();
    }

    #[test]
    fn a_thread_that_fails_keeps_nobody_waiting() {
        let area = Area {
            // No such CPU.
            nth: 1 << 20,
            kind: Kind::Anonymous,
            memory: Mapping::anonymous(None, STEP, 0).unwrap(),
        };
        assert!(area.touch(&Barrier::new(1), 1).is_err());
    }
}
