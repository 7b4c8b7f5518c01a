// SPDX-License-Identifier: GPL-2.0-only
//! The scenario `all`: processes and threads that use and change the same files, in every way
//! that there is, at random.

use super::page::{PIECE, Piece, WORDS};
use super::probe::{FAULTED, call, load};
use super::stage::{BLOCK, Count, RX, Stage, map_text, text};
use super::{Report, copy_up};
use anyhow::{Context, Result, anyhow, bail};
use fastrand::Rng;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use wideleaf_guest::kit::huge_pages::wake_khugepaged;
use wideleaf_guest::kit::inject::Injection;
use wideleaf_guest::kit::mapping::{Buffer, MADV_COLLAPSE, Mapping};
use wideleaf_guest::kit::{cgroup, page_cache};

/// Files, and bytes of each.
const FILES: u32 = 4;
const SIZE: u64 = 8 << 20;

/// memory.max of the cgroup that some are in: less than the files.
const CGROUP_LIMIT: u64 = 24 << 20;

/// Processes for each CPU that use the files, and that change them.
const MAPPERS: u64 = 2;
const CHANGERS: u64 = 1;

/// Threads of a process that uses files.
const THREADS: u64 = 2;

/// Advice, most of which moves pages. POPULATE_READ, COLD, PAGEOUT are newer than libc's musl, so
/// all are numbers of include/uapi/asm-generic/mman-common.h.
const ADVICE: [i32; 12] = [
    0,  // NORMAL
    1,  // RANDOM
    2,  // SEQUENTIAL
    3,  // WILLNEED
    4,  // DONTNEED
    14, // HUGEPAGE
    15, // NOHUGEPAGE
    20, // COLD
    21, // PAGEOUT
    22, // POPULATE_READ
    MADV_COLLAPSE,
    MADV_COLLAPSE,
];

/// Plays it.
pub fn all(mut stage: Stage) -> Result<Report> {
    if stage.options.overlay {
        copy_up::begin(&mut stage)?;
    }
    for file in 0..FILES {
        stage.make(file, SIZE)?;
    }
    if stage.options.overlay {
        copy_up::mount(&mut stage)?;
    }
    let group = cgroup::limited("storm", &CGROUP_LIMIT.to_string())?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    wake_khugepaged();
    stage.begin();
    let mut crew = stage.crew()?;
    for nth in 0..cpus * MAPPERS {
        let limited = nth % 3 == 2;
        crew.start(&format!("mapper-{nth}"), || {
            if limited {
                cgroup::enter(&group)?;
            }
            mapper(&stage, nth)
        })?;
    }
    for nth in 0..cpus * CHANGERS {
        crew.start(&format!("changer-{nth}"), || changer(&stage, nth))?;
    }
    let copiers = u64::from(stage.options.overlay) * copy_up::COPIERS;
    for nth in 0..copiers {
        crew.start(&format!("copier-{nth}"), || copy_up::copier(&stage, nth))?;
    }
    let injection = match stage.options.fail_allocations {
        true => Some(inject_when_started()?),
        false => None,
    };
    stage.finish(crew)?;
    if let Some(injection) = injection {
        stage.count(Count::FailedAllocations, injection.end()?);
    }
    for file in 0..FILES {
        stage.verify(file)?;
    }
    Ok(stage.report())
}

/// By then processes and threads have been started.
fn inject_when_started() -> Result<Injection> {
    std::thread::sleep(std::time::Duration::from_secs(3));
    Injection::begin()
}

/// A mapping of a whole file.
#[derive(Debug)]
struct Text<'a> {
    stage: &'a Stage,
    file: u32,
    descriptor: &'a File,
    mapping: Mapping,
    flags: i32,
}

fn mapper(stage: &Stage, nth: u64) -> Result<()> {
    let mut random = stage.random(nth);
    let file = random.u32(..FILES);
    let descriptor = stage.open(file, false, 0)?;
    let flags = if random.bool() {
        libc::MAP_PRIVATE
    } else {
        libc::MAP_SHARED
    };
    // One in four is congruent to its offset by a page only.
    let mapping = match random.u32(..4) {
        0 => Mapping::new(None, SIZE, RX, flags, Some((&descriptor, 0)))?,
        _ => map_text(&descriptor, 0, SIZE, flags)?,
    };
    let text = Text {
        stage,
        file,
        descriptor: &descriptor,
        mapping,
        flags,
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (text, random) = (&text, stage.random(nth << 8 | thread << 4 | 1));
                scope.spawn(move || text.play(random))
            })
            .collect();
        let mut results = threads.into_iter().map(|thread| thread.join());
        results.try_for_each(|result| result.unwrap_or_else(|_| bail!("a thread panicked")))
    })
}

impl Text<'_> {
    fn play(&self, mut random: Rng) -> Result<()> {
        while self.stage.goes_on() {
            self.turn(&mut random)?;
        }
        Ok(())
    }

    fn turn(&self, random: &mut Rng) -> Result<()> {
        let page = self.stage.page;
        match random.u32(..100) {
            0..30 => (0..16).try_for_each(|_| self.execute(random.u64(..SIZE / PIECE))),
            30..45 => {
                let from = random.u64(..SIZE / page) * page / PIECE;
                let pieces = (from..SIZE / PIECE).step_by((page / PIECE) as usize);
                pieces.take(128).try_for_each(|number| self.execute(number))
            }
            45..65 => (0..16).try_for_each(|_| self.check(random)),
            65..80 => {
                self.advise(random);
                Ok(())
            }
            80..84 => self.remap(random),
            84..87 => self.protect(random),
            87..91 => {
                self.lock(random);
                Ok(())
            }
            91..94 => self.fork(random),
            94..97 => {
                self.copy_on_write(random);
                Ok(())
            }
            _ => self.move_about(random),
        }
    }

    /// Executes a piece: it must be that one, or a hole.
    fn execute(&self, number: u64) -> Result<()> {
        self.execute_at(self.mapping.start + number * PIECE, number)
    }

    fn execute_at(&self, address: u64, number: u64) -> Result<()> {
        let piece = Piece {
            file: self.file,
            number: number as u32,
        };
        let seen = self.stage.executed(piece, call(address));
        seen.with_context(|| format!("at {address:#x}"))
    }

    /// Reads some words of a piece.
    fn check(&self, random: &mut Rng) -> Result<()> {
        let number = random.u64(..SIZE / PIECE);
        let piece = Piece {
            file: self.file,
            number: number as u32,
        };
        for _ in 0..4 {
            let n = random.usize(..WORDS);
            let word = load(self.mapping.start + number * PIECE + Piece::offset(n));
            if word == FAULTED {
                self.stage.count(Count::Holes, 1);
                return Ok(());
            }
            piece.check_word(n, word).map_err(|wrong| anyhow!(wrong))?;
        }
        self.stage.count(Count::Checked, 1);
        Ok(())
    }

    /// Pages, or whole blocks: the offset, and the mapping of them.
    fn range(&self, random: &mut Rng, longest: u64) -> (u64, Mapping) {
        let unit = if random.bool() {
            BLOCK
        } else {
            self.stage.page
        };
        let from = random.u64(..SIZE / unit) * unit;
        let len = (random.u64(1..=longest.max(unit) / unit) * unit).min(SIZE - from);
        (from, self.mapping.part(from, len))
    }

    fn advise(&self, random: &mut Rng) {
        let (_, range) = self.range(random, 2 * BLOCK);
        let advice = *random.choice(&ADVICE).unwrap_or(&0);
        let result = range.advise(advice);
        self.stage.count(Count::Advised, 1);
        if advice == MADV_COLLAPSE && result.is_ok() {
            self.stage.count(Count::Collapsed, 1);
        }
    }

    /// Maps a range anew, in place: cuts the mapping, and joins it again.
    fn remap(&self, random: &mut Rng) -> Result<()> {
        let (from, Mapping { start, len }) = self.range(random, 1 << 20);
        let file = Some((self.descriptor, from));
        Mapping::new(Some(start), len, RX, self.flags, file)?;
        self.stage.count(Count::Remapped, 1);
        Ok(())
    }

    /// Takes the right to execute away for a moment; others fault then, as at a hole.
    fn protect(&self, random: &mut Rng) -> Result<()> {
        let (_, range) = self.range(random, 256 << 10);
        range.protect(libc::PROT_READ)?;
        range.protect(RX)?;
        self.stage.count(Count::Protected, 1);
        Ok(())
    }

    fn lock(&self, random: &mut Rng) {
        let (_, range) = self.range(random, 128 << 10);
        // It may fail at a hole.
        let _ = range.lock();
        let _ = self.check(random);
        let _ = range.unlock();
        self.stage.count(Count::Locked, 1);
    }

    /// A child executes some pages and ends. It may do nothing that needs a lock, as this
    /// process has other threads.
    fn fork(&self, random: &mut Rng) -> Result<()> {
        let first = random.u64(..SIZE / PIECE - 64);
        // SAFETY: the child makes no call but those of `call` and _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let wrong = (first..first + 64).any(|number| {
                let piece = Piece {
                    file: self.file,
                    number: number as u32,
                };
                let returned = call(self.mapping.start + number * PIECE);
                returned != FAULTED && !piece.admits_returned(returned)
            });
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(wrong)) };
        }
        if pid < 0 {
            return Ok(()); // the cgroup may be at its limit
        }
        let mut status = 0;
        // SAFETY: a valid pointer.
        while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {}
        if status != 0 {
            bail!(
                "file {} pieces {first} to {}: a forked child executes another page (wait status {status:#x})",
                self.file,
                first + 63
            );
        }
        self.stage.count(Count::Forked, 1);
        Ok(())
    }

    /// Breaks the sharing of a page of a private mapping, with what it should hold anyway.
    fn copy_on_write(&self, random: &mut Rng) {
        let number = random.u64(..SIZE / PIECE);
        let bytes = text(self.file, number * PIECE, PIECE, 0);
        let memory = fs::OpenOptions::new().write(true).open("/proc/self/mem");
        let written = memory
            .and_then(|memory| memory.write_all_at(&bytes, self.mapping.start + number * PIECE));
        if written.is_ok() {
            self.stage.count(Count::Copied, 1);
        }
    }

    /// A second mapping that is used, moved, used and unmapped.
    fn move_about(&self, random: &mut Rng) -> Result<()> {
        let from = random.u64(..SIZE / BLOCK) * BLOCK;
        let room = Mapping::room(4 * BLOCK)?;
        let at = room.start.next_multiple_of(BLOCK);
        // Half of the time to where no wide leaf fits.
        let to = at + BLOCK + u64::from(random.bool()) * self.stage.page;
        let file = Some((self.descriptor, from));
        let mapping = Mapping::new(Some(at), BLOCK, RX, self.flags, file)?;
        let numbers: Vec<u64> = (0..32).map(|_| random.u64(..BLOCK / PIECE)).collect();
        let execute = |at: u64| {
            let mut numbers = numbers.iter();
            numbers.try_for_each(|n| self.execute_at(at + n * PIECE, from / PIECE + n))
        };
        execute(at)?;
        mapping.relocate(to)?;
        execute(to)?;
        // Where it was belongs to nobody now, and may be another thread's already.
        let before = at - room.start;
        let after = before + BLOCK;
        for rest in [room.part(0, before), room.part(after, room.len - after)] {
            let _ = rest.unmap();
        }
        self.stage.count(Count::Remapped, 1);
        Ok(())
    }
}

/// Changes and reads files without mapping them.
struct Changer<'a> {
    stage: &'a Stage,
    file: u32,
    cached: File,
    direct: File,
    buffer: Buffer,
}

fn changer(stage: &Stage, nth: u64) -> Result<()> {
    let mut random = stage.random(nth << 8 | 2);
    let open = |file| -> Result<Changer<'_>> {
        Ok(Changer {
            stage,
            file,
            cached: stage.open(file, true, 0)?,
            direct: stage.open(file, true, libc::O_DIRECT)?,
            buffer: Buffer::new(1 << 20)?,
        })
    };
    let mut all = (0..FILES).map(open).collect::<Result<Vec<_>>>()?;
    while stage.goes_on() {
        let file = random.usize(..all.len());
        all[file].turn(&mut random)?;
    }
    Ok(())
}

impl Changer<'_> {
    fn turn(&mut self, random: &mut Rng) -> Result<()> {
        let at = random.u64(..SIZE / PIECE) * PIECE;
        let len = (random.u64(1..=64) * PIECE).min(SIZE - at);
        match random.u32(..100) {
            0..20 => {
                self.cached
                    .write_all_at(&text(self.file, at, len, random.u32(..1 << 24)), at)
                    .context("write")?;
                self.stage.count(Count::Written, len / PIECE);
            }
            20..35 => {
                let bytes = text(self.file, at, len, random.u32(..1 << 24));
                self.buffer.bytes()[..bytes.len()].copy_from_slice(&bytes);
                let bytes = &self.buffer.bytes()[..bytes.len()];
                self.direct
                    .write_all_at(bytes, at)
                    .context("direct write")?;
                self.stage.count(Count::WrittenDirectly, len / PIECE);
            }
            35..50 => self.read(random.bool(), at, len)?,
            50..56 => self.truncate(random)?,
            56..64 => self.punch(at, len),
            64..74 => self.splice(at, len.min(8 * PIECE))?,
            74..92 => self.drop(random, at, len),
            92..97 => {
                // EIO is how the kernel tells that a direct write met a buffered one.
                let _ = self.cached.sync_data();
            }
            97 => {
                let _ = fs::write("/proc/sys/vm/drop_caches", "1");
                self.stage.count(Count::Dropped, 1);
            }
            _ => {
                // The whole file, so that there is something to execute.
                self.cached
                    .write_all_at(&text(self.file, 0, SIZE, 0), 0)
                    .context("write")?;
                self.stage.count(Count::Written, SIZE / PIECE);
            }
        }
        Ok(())
    }

    fn read(&mut self, direct: bool, at: u64, len: u64) -> Result<()> {
        let file = if direct { &self.direct } else { &self.cached };
        let bytes = &mut self.buffer.bytes()[..len as usize];
        let read = file.read_at(bytes, at).context("read")?;
        for (n, seen) in bytes[..read].chunks_exact(PIECE as usize).enumerate() {
            let number = (at / PIECE) as u32 + n as u32;
            Piece {
                file: self.file,
                number,
            }
            .check(seen)
            .map_err(|wrong| {
                anyhow!(
                    "{} read: {wrong}",
                    if direct { "direct" } else { "buffered" }
                )
            })?;
            self.stage.count(Count::Checked, 1);
        }
        Ok(())
    }

    /// Cuts the file somewhere, often inside a page, and extends it again.
    fn truncate(&self, random: &mut Rng) -> Result<()> {
        let at = random.u64(SIZE / 2..SIZE) & !(7 + 8 * u64::from(random.bool()) * 255);
        self.cached.set_len(at).context("ftruncate")?;
        self.cached.set_len(SIZE).context("ftruncate")?;
        self.stage.count(Count::Truncated, 1);
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain system call.
        unsafe { libc::fallocate(self.cached.as_raw_fd(), mode, at as i64, len as i64) };
        self.stage.count(Count::Punched, 1);
    }

    fn drop(&self, random: &mut Rng, at: u64, len: u64) {
        let advice = if random.u32(..4) == 0 {
            libc::POSIX_FADV_WILLNEED
        } else {
            libc::POSIX_FADV_DONTNEED
        };
        page_cache::advise(&self.cached, at, len, advice);
        self.stage.count(Count::Dropped, 1);
    }

    /// Takes pages into a pipe, where they stay pinned for a moment, and looks at them.
    fn splice(&mut self, at: u64, len: u64) -> Result<()> {
        let (read, write) = nix::unistd::pipe().context("pipe")?;
        let mut offset = at as i64;
        // SAFETY: valid descriptors and pointer.
        let taken = unsafe {
            libc::splice(
                self.cached.as_raw_fd(),
                &raw mut offset,
                write.as_raw_fd(),
                std::ptr::null_mut(),
                len as usize,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        let Some(taken) = usize::try_from(taken).ok().filter(|&taken| taken > 0) else {
            return Ok(());
        };
        std::thread::sleep(std::time::Duration::from_millis(1));
        let bytes = &mut self.buffer.bytes()[..taken];
        std::io::Read::read_exact(&mut File::from(read), bytes).context("pipe")?;
        for (n, seen) in bytes.chunks_exact(PIECE as usize).enumerate() {
            let number = (at / PIECE) as u32 + n as u32;
            Piece {
                file: self.file,
                number,
            }
            .check(seen)
            .map_err(|wrong| anyhow!("spliced: {wrong}"))?;
        }
        self.stage.count(Count::Spliced, 1);
        Ok(())
    }
}
