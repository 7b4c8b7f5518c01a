// SPDX-License-Identifier: GPL-2.0-only
//! Memory that is mapped, protected, moved, shared and given back in every way that makes the
//! kernel change live page-table entries: work for the lab's referee.
//!
//! Each step has a process of its own, because several end in an access that must be refused: the
//! point is that the kernel's tables refuse it, and that no TLB could have granted it.

use crate::place::pin_to;
use crate::protocol::Outcome;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::ptr::null_mut;

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
const SIZE: usize = 8 << 20;

/// Runs all steps.
pub fn run() -> Result<Outcome> {
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
    Ok(Outcome::Maintenance { steps })
}

/// Anonymous memory in folios of the contpte leaf's size: 64K with 4K pages, 2M with others. What
/// a kernel does not have it does not need.
pub fn allow_large_folios() {
    for size in ["64", "2048"] {
        let path = format!("/sys/kernel/mm/transparent_hugepage/hugepages-{size}kB/enabled");
        let _ = std::fs::write(path, "always");
    }
}

fn in_child(step: fn() -> Result<()>) -> Result<End> {
    // SAFETY: there is one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            let status = i32::from(step().is_err());
            // SAFETY: ends the process; there is nothing to clean up.
            unsafe { libc::_exit(status) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).context("waitpid")? {
            WaitStatus::Exited(_, 0) => Ok(End::Well),
            WaitStatus::Exited(_, NOT_HERE) => Ok(End::NotHere),
            WaitStatus::Signaled(_, Signal::SIGSEGV, _) => Ok(End::Segfault),
            other => bail!("{other:?}"),
        },
    }
}

/// A mapping that nothing unmaps: its process ends soon.
struct Memory {
    start: *mut u8,
    len: usize,
}

impl Memory {
    /// Anonymous memory, written to once a page.
    fn new(len: usize) -> Result<Self> {
        let memory = Self::at(null_mut(), len, 0)?;
        memory.write();
        Ok(memory)
    }

    fn at(address: *mut u8, len: usize, flags: i32) -> Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: a fixed address is one that this process mapped and has no use for.
        let start = unsafe { libc::mmap(address.cast(), len, protection, flags, -1, 0) };
        ensure!(start != libc::MAP_FAILED, "mmap: {}", last_error());
        Ok(Self {
            start: start.cast(),
            len,
        })
    }

    /// The part from `offset` on.
    fn part(&self, offset: usize, len: usize) -> Self {
        Self {
            start: self.start.wrapping_add(offset),
            len,
        }
    }

    fn write(&self) {
        for offset in (0..self.len).step_by(4096) {
            // SAFETY: inside of the mapping; where it is not writable the process is to die.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
    }

    fn read(&self) {
        for offset in (0..self.len).step_by(4096) {
            // SAFETY: as above.
            unsafe { self.start.add(offset).read_volatile() };
        }
    }

    fn protect(&self, protection: i32) -> Result<()> {
        // SAFETY: memory of this process, accessed by raw pointers only.
        check(unsafe { libc::mprotect(self.start.cast(), self.len, protection) })
    }

    fn advise(&self, advice: i32) -> Result<()> {
        // SAFETY: as above.
        check(unsafe { libc::madvise(self.start.cast(), self.len, advice) })
    }

    fn unmap(&self) -> Result<()> {
        // SAFETY: as above.
        check(unsafe { libc::munmap(self.start.cast(), self.len) })
    }
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn check(result: i32) -> Result<()> {
    ensure!(result == 0, "{}", last_error());
    Ok(())
}

fn protect() -> Result<()> {
    let memory = Memory::new(SIZE)?;
    memory.protect(libc::PROT_READ)?;
    memory.read();
    memory.write();
    Ok(())
}

fn unmap() -> Result<()> {
    let memory = Memory::new(SIZE)?;
    let part = memory.part(SIZE / 4, SIZE / 2);
    part.unmap()?;
    part.read();
    Ok(())
}

fn relocate() -> Result<()> {
    let memory = Memory::new(SIZE)?;
    let to = Memory::at(null_mut(), SIZE, 0)?;
    let (from, flags) = (
        memory.start.cast(),
        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
    );
    // A part, and not at a whole table's place: entries move one by one.
    let page = 64 << 10;
    // SAFETY: both are this process' own.
    let moved = unsafe { libc::mremap(from, page, page, flags, to.start.wrapping_add(page)) };
    ensure!(moved != libc::MAP_FAILED, "mremap: {}", last_error());
    to.read();
    memory.part(0, page).read();
    Ok(())
}

fn shorten() -> Result<()> {
    let memory = Memory::new(SIZE)?;
    let tail = memory.part(SIZE / 2, SIZE / 2);
    tail.unmap()?;
    tail.part(tail.len - (64 << 10), 64 << 10).read();
    Ok(())
}

fn copy_on_write() -> Result<()> {
    shared_writes(|_| Ok(()))
}

fn cold_copy_on_write() -> Result<()> {
    shared_writes(|memory| memory.advise(libc::MADV_COLD))
}

/// Writes to memory that a child has too.
fn shared_writes(before: fn(&Memory) -> Result<()>) -> Result<()> {
    let memory = Memory::new(SIZE)?;
    beside_a_child(|| {
        before(&memory)?;
        memory.read();
        before(&memory)?;
        memory.write();
        Ok(())
    })
}

/// The kernel takes a copy of a page for itself and then reads there, with no return from an
/// exception between: FUTEX_WAIT pins the page, and compares a word of it.
fn copy_in_system_call() -> Result<()> {
    const NOT_THE_VALUE: u32 = 0xffff_ffff;
    let memory = Memory::new(16 * page_size())?;
    beside_a_child(|| {
        memory.read();
        for offset in (0..memory.len).step_by(page_size()) {
            let word = memory.start.wrapping_add(offset);
            let timeout = null_mut::<libc::timespec>();
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
            let error = last_error();
            ensure!(
                result == -1 && error.raw_os_error() == Some(libc::EAGAIN),
                "futex: {result}, {error}"
            );
        }
        Ok(())
    })
}

/// Calls `f` while a child has all memory too.
fn beside_a_child(f: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: there is one thread.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => loop {
            nix::unistd::pause();
        },
        ForkResult::Parent { child } => {
            f()?;
            nix::sys::signal::kill(child, Signal::SIGKILL).context("kill")?;
            waitpid(child, None).context("waitpid")?;
            Ok(())
        }
    }
}

/// The page tables of an address go and come.
fn reuse() -> Result<()> {
    // Whole tables' worth of addresses, of which little is used.
    let hole = Memory::at(null_mut(), 2 << 30, libc::MAP_NORESERVE)?;
    for _ in 0..4 {
        let part = hole.part(1 << 30, 256 << 10);
        part.write();
        part.advise(libc::MADV_DONTNEED)?;
        hole.unmap()?;
        Memory::at(hole.start, hole.len, libc::MAP_FIXED | libc::MAP_NORESERVE)?;
        part.write();
    }
    Ok(())
}

/// One page of a group is made different, and alike again.
fn contiguous() -> Result<()> {
    let memory = Memory::new(SIZE)?;
    let small = Memory::new(1 << 20)?;
    for memory in [memory, small] {
        for page in [memory.part(0, 64 << 10), memory.part(256 << 10, 64 << 10)] {
            page.protect(libc::PROT_READ)?;
            page.read();
            page.protect(libc::PROT_READ | libc::PROT_WRITE)?;
            page.write();
            page.advise(libc::MADV_DONTNEED)?;
            page.write();
        }
        // Part of a group where pages are small.
        let page = memory.part(128 << 10, 4 << 10);
        if page.protect(libc::PROT_READ).is_ok() {
            page.read();
            page.protect(libc::PROT_READ | libc::PROT_WRITE)?;
            page.advise(libc::MADV_DONTNEED)?;
            page.write();
        }
        memory.write();
    }
    Ok(())
}

/// Tables are freed that hold no entry any more, so that nothing but the tables is flushed.
fn empty_tables() -> Result<()> {
    // What one table of entries translates.
    let unit = page_size() / 8 * page_size();
    // At both ends something stays, and with it the table above.
    let area = Memory::at(null_mut(), 8 * unit, libc::MAP_NORESERVE)?;
    // Where there are no huge pages this is refused.
    let _ = area.advise(libc::MADV_NOHUGEPAGE);
    area.part(0, 4096).write();
    area.part(7 * unit, 4096).write();
    let hole = area.part(2 * unit, 4 * unit);
    for _ in 0..4 {
        let hole = Memory::at(hole.start, hole.len, libc::MAP_FIXED | libc::MAP_NORESERVE)?;
        let _ = hole.advise(libc::MADV_NOHUGEPAGE);
        let part = hole.part(2 * unit, 256 << 10);
        part.write();
        part.advise(libc::MADV_DONTNEED)?;
        hole.unmap()?;
    }
    Ok(())
}

fn page_size() -> usize {
    wideleaf_bench::page_size() as usize
}

/// A file of huge pages is mapped twice, so that both mappings have one table; then one goes.
fn shared_tables() -> Result<()> {
    const GIB: usize = 1 << 30;
    let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = std::fs::read_to_string(free).unwrap_or_default();
    // With larger pages a shared table translates more than a guest's address space is good for.
    if page_size() != 4096 || free.trim().parse().unwrap_or(0) < 1 {
        // SAFETY: ends the process; there is nothing to clean up.
        unsafe { libc::_exit(NOT_HERE) }
    }
    let (wait, go) = nix::unistd::pipe().context("pipe")?;
    // SAFETY: there is one thread.
    let other_process = match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            drop(go);
            let _ = nix::unistd::read(&wait, &mut [0]);
            // SAFETY: ends the process; there is nothing to clean up.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => child,
    };
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"huge".as_ptr(), libc::MFD_HUGETLB) };
    ensure!(file >= 0, "memfd_create: {}", last_error());
    // SAFETY: a file of this process.
    check(unsafe { libc::ftruncate(file, GIB as i64) })?;
    let room = Memory::at(null_mut(), 4 * GIB, libc::MAP_NORESERVE)?;
    let first = room.start.align_offset(GIB);
    let map = |at: usize| -> Result<Memory> {
        let memory = room.part(first + at, GIB);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: over memory that this process mapped for it.
        let start = unsafe { libc::mmap(memory.start.cast(), GIB, protection, flags, file, 0) };
        ensure!(start != libc::MAP_FAILED, "mmap: {}", last_error());
        Ok(memory)
    };
    let (one, other) = (map(0)?, map(GIB)?);
    one.part(0, 4096).write();
    other.part(0, 4096).read();
    other.unmap()?;
    // Another process runs, so that QEMU's own TLB forgets: it would grant what an old entry does.
    // One of before, because fork() flushes all.
    drop(go);
    waitpid(other_process, None).context("waitpid")?;
    one.part(0, 4096).read();
    other.part(0, 4096).read();
    Ok(())
}

/// Memory goes that another thread uses on another CPU, if there is one.
fn other_cpu() -> Result<()> {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    static USED: AtomicBool = AtomicBool::new(false);
    static GONE: AtomicBool = AtomicBool::new(false);
    // Where there is one CPU both stay on it.
    let _ = pin_to(0);
    let memory = Memory::new(SIZE)?;
    let part = memory.part(SIZE / 2, 64 << 10);
    let start = part.start as usize;
    let other = std::thread::spawn(move || {
        let _ = pin_to(1);
        let part = Memory {
            start: start as *mut u8,
            len: 64 << 10,
        };
        part.read();
        USED.store(true, SeqCst);
        while !GONE.load(SeqCst) {
            std::thread::yield_now();
        }
        part.read();
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
    let mut children = Vec::new();
    for _ in 0..32 {
        // SAFETY: there is one thread.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Child => loop {
                nix::unistd::pause();
            },
            ForkResult::Parent { child } => children.push(child),
        }
    }
    for child in children {
        nix::sys::signal::kill(child, Signal::SIGKILL).context("kill")?;
        waitpid(child, None).context("waitpid")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_ends_as_it_should_here_too() {
        for (name, step, end) in STEPS {
            let found = in_child(step).unwrap();
            assert!(found == end || found == End::NotHere, "{name}: {found:?}");
        }
    }
}
