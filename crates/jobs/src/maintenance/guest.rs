// SPDX-License-Identifier: GPL-2.0-only
//! Memory that is mapped, protected, moved, shared and given back in every way that makes the
//! kernel change live page-table entries: work for the lab's referee.
//!
//! Each step has a process of its own, because several end in an access that must be refused: the
//! point is that the kernel's tables refuse it, and that no TLB could have granted it.

use super::{NAME, Report, Task};
use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use std::fs::File;
use std::os::fd::AsRawFd;
use wideleaf_bench::page_size;
use wideleaf_guest::kit::huge_pages::allow_large_folios;
use wideleaf_guest::kit::mapping::{Mapping, RW};
use wideleaf_guest::kit::process::{Process, exit};
use wideleaf_guest::place::Place;
use wideleaf_guest::place::pin_to;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Maintenance;

/// The registry's entry.
pub const WORK: Maintenance = Maintenance;

impl Work for Maintenance {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, _: &Task, _: &Place<'_>, _: &Port) -> Result<Report> {
        Ok(Report { steps: run()? })
    }
}

/// How a step's process has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    Segfault,
    /// There is no such memory here.
    NotHere,
}

/// The exit status that says so.
const NOT_HERE: i32 = 77;

type Step = (&'static str, fn() -> Result<()>, End);

const STEPS: [Step; 13] = [
    ("write-protected memory", protect, End::Segfault),
    ("unmapped memory", unmap, End::Segfault),
    ("moved memory", relocate, End::Segfault),
    ("the end of a mapping", shorten, End::Segfault),
    ("copy on write", copy_on_write, End::Well),
    (
        "copy on write of cold memory",
        cold_copy_on_write,
        End::Well,
    ),
    (
        "copy on write within a system call",
        copy_in_system_call,
        End::Well,
    ),
    ("addresses used again", reuse, End::Well),
    ("contiguous groups", contiguous, End::Well),
    ("page tables without pages", empty_tables, End::Well),
    ("tables of huge pages", shared_tables, End::Segfault),
    ("another CPU's memory", other_cpu, End::Segfault),
    ("kernel stacks", stacks, End::Well),
];

/// Enough for several contiguous groups of any page size.
const SIZE: u64 = 8 << 20;

/// Runs all steps.
fn run() -> Result<u32> {
    allow_large_folios();
    // Pages of hugetlbfs, where the kernel has it.
    let _ = std::fs::write("/proc/sys/vm/nr_hugepages", "4");
    let mut steps = 0;
    for (name, step, end) in STEPS {
        let found = in_child(step).with_context(|| name.to_string())?;
        ensure!(
            found == end || found == End::NotHere,
            "{name}: expected {end:?}, found {found:?}"
        );
        steps += u32::from(found == end);
    }
    Ok(steps)
}

fn in_child(step: fn() -> Result<()>) -> Result<End> {
    let child = Process::fork(|| i32::from(step().is_err()))?;
    match child.wait()? {
        WaitStatus::Exited(_, 0) => Ok(End::Well),
        WaitStatus::Exited(_, NOT_HERE) => Ok(End::NotHere),
        WaitStatus::Signaled(_, Signal::SIGSEGV, _) => Ok(End::Segfault),
        other => bail!("{other:?}"),
    }
}

/// Anonymous memory, written to once a page. Nothing unmaps it: its process ends soon.
fn written(len: u64) -> Result<Mapping> {
    let memory = Mapping::anonymous(None, len, 0)?;
    write(memory);
    Ok(memory)
}

fn write(memory: Mapping) {
    for address in (memory.start..memory.start + memory.len).step_by(4096) {
        // SAFETY: inside of the mapping; where it is not writable the process is to die.
        unsafe { (address as *mut u8).write_volatile(1) };
    }
}

fn read(memory: Mapping) {
    for address in (memory.start..memory.start + memory.len).step_by(4096) {
        // SAFETY: as above.
        unsafe { (address as *const u8).read_volatile() };
    }
}

fn protect() -> Result<()> {
    let memory = written(SIZE)?;
    memory.protect(libc::PROT_READ)?;
    read(memory);
    write(memory);
    Ok(())
}

fn unmap() -> Result<()> {
    let memory = written(SIZE)?;
    let part = memory.part(SIZE / 4, SIZE / 2);
    part.unmap()?;
    read(part);
    Ok(())
}

fn relocate() -> Result<()> {
    let memory = written(SIZE)?;
    let to = Mapping::anonymous(None, SIZE, 0)?;
    // A part, and not at a whole table's place: entries move one by one.
    let page = 64 << 10;
    memory.part(0, page).relocate(to.start + page)?;
    read(to);
    read(memory.part(0, page));
    Ok(())
}

fn shorten() -> Result<()> {
    let memory = written(SIZE)?;
    let tail = memory.part(SIZE / 2, SIZE / 2);
    tail.unmap()?;
    read(tail.part(tail.len - (64 << 10), 64 << 10));
    Ok(())
}

fn copy_on_write() -> Result<()> {
    shared_writes(|_| Ok(()))
}

fn cold_copy_on_write() -> Result<()> {
    shared_writes(|memory| memory.advise(libc::MADV_COLD))
}

/// Writes to memory that a child has too.
fn shared_writes(before: fn(Mapping) -> Result<()>) -> Result<()> {
    let memory = written(SIZE)?;
    beside_a_child(|| {
        before(memory)?;
        read(memory);
        before(memory)?;
        write(memory);
        Ok(())
    })
}

/// The kernel takes a copy of a page for itself and then reads there, with no return from an
/// exception between: FUTEX_WAIT pins the page, and compares a word of it.
fn copy_in_system_call() -> Result<()> {
    const NOT_THE_VALUE: u32 = 0xffff_ffff;
    let memory = written(16 * page_size())?;
    beside_a_child(|| {
        read(memory);
        for offset in (0..memory.len).step_by(page_size() as usize) {
            let word = memory.start + offset;
            let timeout = std::ptr::null::<libc::timespec>();
            // SAFETY: a word of this process' own memory; the kernel only compares it.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word,
                    libc::FUTEX_WAIT,
                    NOT_THE_VALUE,
                    timeout,
                )
            };
            let result = Errno::result(result);
            ensure!(result == Err(Errno::EAGAIN), "futex: {result:?}");
        }
        Ok(())
    })
}

/// Calls `f` while a child has all memory too.
fn beside_a_child(f: impl FnOnce() -> Result<()>) -> Result<()> {
    let child = Process::idle()?;
    f()?;
    child.end()
}

/// The page tables of an address go and come.
fn reuse() -> Result<()> {
    // Whole tables' worth of addresses, of which little is used.
    let hole = Mapping::anonymous(None, 2 << 30, libc::MAP_NORESERVE)?;
    for _ in 0..4 {
        let part = hole.part(1 << 30, 256 << 10);
        write(part);
        part.advise(libc::MADV_DONTNEED)?;
        hole.unmap()?;
        Mapping::anonymous(Some(hole.start), hole.len, libc::MAP_NORESERVE)?;
        write(part);
    }
    Ok(())
}

/// One page of a group is made different, and alike again.
fn contiguous() -> Result<()> {
    let memory = written(SIZE)?;
    let small = written(1 << 20)?;
    for memory in [memory, small] {
        for page in [memory.part(0, 64 << 10), memory.part(256 << 10, 64 << 10)] {
            page.protect(libc::PROT_READ)?;
            read(page);
            page.protect(RW)?;
            write(page);
            page.advise(libc::MADV_DONTNEED)?;
            write(page);
        }
        // Part of a group where pages are small.
        let page = memory.part(128 << 10, 4 << 10);
        if page.protect(libc::PROT_READ).is_ok() {
            read(page);
            page.protect(RW)?;
            page.advise(libc::MADV_DONTNEED)?;
            write(page);
        }
        write(memory);
    }
    Ok(())
}

/// Tables are freed that hold no entry any more, so that nothing but the tables is flushed.
fn empty_tables() -> Result<()> {
    // What one table of entries translates.
    let unit = page_size() / 8 * page_size();
    // At both ends something stays, and with it the table above.
    let area = Mapping::anonymous(None, 8 * unit, libc::MAP_NORESERVE)?;
    // Where there are no huge pages this is refused.
    let _ = area.advise(libc::MADV_NOHUGEPAGE);
    write(area.part(0, 4096));
    write(area.part(7 * unit, 4096));
    let hole = area.part(2 * unit, 4 * unit);
    for _ in 0..4 {
        let hole = Mapping::anonymous(Some(hole.start), hole.len, libc::MAP_NORESERVE)?;
        let _ = hole.advise(libc::MADV_NOHUGEPAGE);
        let part = hole.part(2 * unit, 256 << 10);
        write(part);
        part.advise(libc::MADV_DONTNEED)?;
        hole.unmap()?;
    }
    Ok(())
}

/// A file of huge pages is mapped twice, so that both mappings have one table; then one goes.
fn shared_tables() -> Result<()> {
    const GIB: u64 = 1 << 30;
    let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = std::fs::read_to_string(free).unwrap_or_default();
    // With larger pages a shared table translates more than a guest's address space is good for.
    if page_size() != 4096 || free.trim().parse().unwrap_or(0) < 1 {
        exit(NOT_HERE)
    }
    let (wait, go) = nix::unistd::pipe().context("pipe")?;
    let other_process = Process::fork(|| {
        // The parent's end alone keeps it waiting.
        let _ = nix::unistd::close(go.as_raw_fd());
        let _ = nix::unistd::read(&wait, &mut [0]);
        0
    })?;
    let file = memfd_create(c"huge", MFdFlags::MFD_HUGETLB).context("memfd_create")?;
    let file = File::from(file);
    file.set_len(GIB)?;
    let room = Mapping::anonymous(None, 4 * GIB, libc::MAP_NORESERVE)?;
    let first = room.start.next_multiple_of(GIB);
    let map = |at: u64| {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        Mapping::new(Some(first + at), GIB, RW, flags, Some((&file, 0)))
    };
    let (one, other) = (map(0)?, map(GIB)?);
    write(one.part(0, 4096));
    read(other.part(0, 4096));
    other.unmap()?;
    // Another process runs, so that QEMU's own TLB forgets: it would grant what an old entry does.
    // One of before, because fork() flushes all.
    drop(go);
    other_process.wait()?;
    read(one.part(0, 4096));
    read(other.part(0, 4096));
    Ok(())
}

/// Memory goes that another thread uses on another CPU, if there is one.
fn other_cpu() -> Result<()> {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    static USED: AtomicBool = AtomicBool::new(false);
    static GONE: AtomicBool = AtomicBool::new(false);
    // Where there is one CPU both stay on it.
    let _ = pin_to(0);
    let memory = written(SIZE)?;
    let part = memory.part(SIZE / 2, 64 << 10);
    let other = std::thread::spawn(move || {
        let _ = pin_to(1);
        read(part);
        USED.store(true, SeqCst);
        while !GONE.load(SeqCst) {
            std::thread::yield_now();
        }
        read(part);
    });
    while !USED.load(SeqCst) {
        std::thread::yield_now();
    }
    part.unmap()?;
    GONE.store(true, SeqCst);
    let _ = other.join();
    Ok(())
}

/// More processes at a time than the kernel keeps stacks for.
fn stacks() -> Result<()> {
    let children: Vec<_> = (0..32).map(|_| Process::idle()).collect::<Result<_>>()?;
    children.iter().try_for_each(Process::end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::alone::alone;

    #[test]
    fn every_step_ends_as_it_should_here_too() {
        alone(|| {
            for (name, step, end) in STEPS {
                let found = in_child(step).unwrap();
                assert!(found == end || found == End::NotHere, "{name}: {found:?}");
            }
        });
    }
}
