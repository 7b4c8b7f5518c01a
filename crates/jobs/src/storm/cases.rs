// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios in which few processes meet in one particular way.

use super::Report;
use super::page::{PIECE, Piece};
use super::probe::call;
use super::stage::{BLOCK, Count, Stage, map_text, text};
use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::mapping::{Buffer, MADV_COLLAPSE, Mapping};
use wideleaf_guest::kit::page_cache::{advise, drop_caches, read_by_page};
use wideleaf_guest::kit::page_flags::mapped;
use wideleaf_guest::kit::watch::hang;
use wideleaf_guest::place::pin_to;

/// The file of these scenarios.
pub const FILE: u32 = 1;

/// What MADV_COLLAPSE works on: what a PMD maps.
pub fn pmd(stage: &Stage) -> u64 {
    stage.page * (stage.page / 8)
}

/// One drops a page of a block and asks for its collapse, one truncates the file into the block
/// and extends it again. The collapse holds folios and wants to read, the truncation keeps
/// others from reading and wants one of these folios.
pub fn collapse_truncate(mut stage: Stage) -> Result<Report> {
    // With 64K pages a PMD maps 512M, which takes too long to collapse; there it is about
    // collapses that the kernel makes by itself.
    let size = if pmd(&stage) > 64 << 20 {
        2 * BLOCK
    } else {
        pmd(&stage)
    };
    stage.make(FILE, size)?;
    stage.begin();
    let mut crew = stage.crew()?;
    crew.start("collapser", || {
        let file = stage.open(FILE, false, 0)?;
        let mapping = map_text(&file, 0, size, libc::MAP_PRIVATE)?;
        let mut random = stage.random(1);
        while stage.goes_on() {
            let at = random.u64(..size / stage.page) * stage.page;
            let _ = mapping.part(at, stage.page).advise(libc::MADV_DONTNEED);
            advise(&file, at, stage.page, libc::POSIX_FADV_DONTNEED);
            if mapping.advise(MADV_COLLAPSE).is_ok() {
                stage.count(Count::Collapsed, 1);
            }
            stage.count(Count::Advised, 1);
        }
        Ok(())
    })?;
    crew.start("truncater", || {
        let file = stage.open(FILE, true, 0)?;
        let mut random = stage.random(2);
        while stage.goes_on() {
            // Into a page, which is zeroed to its end then, under its lock.
            let at = random.u64(1..size / stage.page) * stage.page - 8;
            file.set_len(at).context("ftruncate")?;
            file.set_len(size).context("ftruncate")?;
            // A collapse leaves a file alone that has dirty pages, and has them written.
            std::thread::sleep(Duration::from_millis(random.u64(..4)));
            stage.count(Count::Truncated, 1);
        }
        Ok(())
    })?;
    stage.finish(crew)?;
    stage.verify(FILE)?;
    Ok(stage.report())
}

/// Executes each page of a mapping once: that page or a hole.
pub fn execute_all(stage: &Stage, mapping: Mapping) -> Result<()> {
    for at in (0..mapping.len).step_by(stage.page as usize) {
        execute(stage, mapping, at)?;
    }
    Ok(())
}

fn execute(stage: &Stage, mapping: Mapping, at: u64) -> Result<()> {
    let piece = Piece {
        file: FILE,
        number: (at / PIECE) as u32,
    };
    stage.executed(piece, call(mapping.start + at))
}

/// A reader of the file pins one page of a block by a pipe that nobody reads, and makes another
/// come and go. A bystander has locked all the others: they must stay mapped.
pub fn pinned(mut stage: Stage) -> Result<Report> {
    stage.make(FILE, BLOCK)?;
    let gone = BLOCK / 2;
    let (_kept, _pinning) = pin_first_page(&stage)?;
    stage.begin();
    let (mut tell, mut ready) = {
        let (read, write) = nix::unistd::pipe().context("pipe")?;
        (File::from(read), File::from(write))
    };
    let mut crew = stage.crew()?;
    crew.start("bystander", || {
        let file = stage.open(FILE, false, libc::O_CLOEXEC)?;
        let mapping = map_text(&file, 0, BLOCK, libc::MAP_PRIVATE)?;
        // All but the page that comes and goes.
        for (from, to) in [(0, gone), (gone + stage.page, BLOCK)] {
            mapping.part(from, to - from).lock()?;
        }
        std::io::Write::write_all(&mut ready, b"r").context("pipe")?;
        let all = BLOCK / stage.page - 1;
        while stage.goes_on() {
            let present = present(mapping, gone, stage.page)?;
            ensure!(
                present == all,
                "of {all} locked pages {present} are present: others unmapped the rest"
            );
            stage.count(Count::Checked, 1);
        }
        Ok(())
    })?;
    std::io::Read::read_exact(&mut tell, &mut [0]).context("the bystander is not ready")?;
    crew.start("attacker", || {
        let file = stage.open(FILE, false, libc::O_CLOEXEC)?;
        let mapping = map_text(&file, 0, BLOCK, libc::MAP_PRIVATE)?;
        while stage.goes_on() {
            let _ = mapping.part(gone, stage.page).advise(libc::MADV_DONTNEED);
            advise(&file, gone, stage.page, libc::POSIX_FADV_DONTNEED);
            execute(&stage, mapping, gone)?;
            stage.count(Count::Dropped, 1);
        }
        Ok(())
    })?;
    stage.finish(crew)?;
    Ok(stage.report())
}

/// Has all pages read one by one, so that none is part of a wide folio, and takes the first into a
/// pipe, whose ends are returned.
fn pin_first_page(stage: &Stage) -> Result<(OwnedFd, OwnedFd)> {
    drop_caches()?;
    let file = stage.open(FILE, false, 0)?;
    read_by_page(&file, 0..BLOCK, stage.page)?;
    let (read, write) = nix::unistd::pipe().context("pipe")?;
    let (from, to, len) = (file.as_raw_fd(), write.as_raw_fd(), stage.page as usize);
    let mut offset = 0;
    // SAFETY: valid descriptors and pointer.
    let taken = unsafe { libc::splice(from, &raw mut offset, to, std::ptr::null_mut(), len, 0) };
    ensure!(
        taken == len as isize,
        "splice: {}",
        std::io::Error::last_os_error()
    );
    Ok((read, write))
}

/// Pages of a block that are mapped here, without the one at `but`.
fn present(block: Mapping, but: u64, page: u64) -> Result<u64> {
    let mapped = mapped(block)?;
    let present = (0..).zip(mapped).filter(|(n, is)| *is && *n != but / page);
    Ok(present.count() as u64)
}

/// Each writer owns a part of a file, and writes ever newer generations there with O_DIRECT,
/// while others execute all of it. What a writer reads back must be what it wrote.
pub fn direct_write(mut stage: Stage) -> Result<Report> {
    const WRITERS: u64 = 2;
    let size = 2 * BLOCK;
    stage.make(FILE, size)?;
    stage.begin();
    let mut crew = stage.crew()?;
    for nth in 0..WRITERS {
        crew.start(&format!("writer-{nth}"), || {
            let (cached, direct) = (
                stage.open(FILE, false, 0)?,
                stage.open(FILE, true, libc::O_DIRECT)?,
            );
            let mut random = stage.random(nth);
            let mut buffer = Buffer::new(stage.page)?;
            let mut generation = 0;
            while stage.goes_on() {
                // Theirs alternate, page by page, so all blocks are everybody's.
                let page = random.u64(..size / stage.page / WRITERS) * WRITERS + nth;
                generation += 1;
                write_and_read(
                    &stage,
                    &cached,
                    &direct,
                    &mut buffer,
                    page * stage.page,
                    generation,
                )?;
            }
            Ok(())
        })?;
    }
    for nth in 0..2 {
        crew.start(&format!("executer-{nth}"), || {
            let file = stage.open(FILE, false, 0)?;
            let mapping = map_text(&file, 0, size, libc::MAP_PRIVATE)?;
            while stage.goes_on() {
                execute_all(&stage, mapping)?;
                let _ = mapping.advise(libc::MADV_DONTNEED);
            }
            Ok(())
        })?;
    }
    stage.finish(crew)?;
    stage.verify(FILE)?;
    Ok(stage.report())
}

fn write_and_read(
    stage: &Stage,
    cached: &File,
    direct: &File,
    buffer: &mut Buffer,
    at: u64,
    generation: u32,
) -> Result<()> {
    let bytes = text(FILE, at, stage.page, generation);
    buffer.bytes().copy_from_slice(&bytes);
    direct
        .write_all_at(buffer.bytes(), at)
        .context("direct write")?;
    stage.count(Count::WrittenDirectly, 1);
    // A moment, in which whoever works on old pages ends that.
    std::thread::yield_now();
    let mut seen = vec![0; stage.page as usize];
    cached.read_exact_at(&mut seen, at).context("read")?;
    if seen != bytes {
        let word = u64::from_ne_bytes(seen[24..32].try_into()?);
        bail!(
            "page {} was written with O_DIRECT, generation {generation}, and then read as generation {}: stale",
            at / stage.page,
            word & 0xff_ffff
        );
    }
    stage.count(Count::Checked, 1);
    Ok(())
}

/// A task of the realtime class keeps the last CPU, all the time. On another one text is dropped
/// and executed again: no turn may wait for the busy CPU.
pub fn busy_cpu(mut stage: Stage) -> Result<Report> {
    stage.make(FILE, 2 * BLOCK)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(cpus > 1, "this scenario needs two CPUs: --cpus 2 or more");
    fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1").context("sched_rt_runtime_us")?;
    // What is read ahead is spread over the CPUs' lists: fill those of the busy one first.
    pin_to(cpus - 1)?;
    drop_caches()?;
    touch(&stage)?;
    pin_to(0)?;
    stage.begin();
    let deadline = stage.deadline;
    let mut crew = stage.crew()?;
    let busy = crew.start("busy", || {
        pin_to(cpus - 1)?;
        // musl's own function only fails; the kernel takes one int.
        let priority: libc::c_int = 1;
        // SAFETY: a valid pointer.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                0,
                libc::SCHED_FIFO,
                &raw const priority,
            )
        };
        Errno::result(result).context("sched_setscheduler")?;
        while Instant::now() < deadline {
            std::hint::spin_loop();
        }
        Ok(())
    })?;
    crew.start("toucher", || {
        std::thread::sleep(Duration::from_millis(500));
        while stage.goes_on() {
            let since = Instant::now();
            let file = stage.open(FILE, false, 0)?;
            advise(&file, 0, 0, libc::POSIX_FADV_DONTNEED);
            touch(&stage)?;
            stage.most(Count::LongestWaitMs, since.elapsed().as_millis() as u64);
            stage.count(Count::Checked, 1);
        }
        Ok(())
    })?;
    while crew.lives(busy) {
        crew.look()?;
        std::thread::sleep(Duration::from_millis(100));
    }
    let report = stage.report();
    stage.finish(crew)?;
    let turns = report.counts.get("checked").copied().unwrap_or(0);
    let half = u64::from(stage.options.seconds) * 500;
    let longest = stage
        .report()
        .counts
        .get("longest_wait_ms")
        .copied()
        .unwrap_or(0);
    if turns == 0 || longest > half {
        return Err(hang(format!(
            "{turns} turns while another CPU was busy, the longest took {longest} ms: it waited for that CPU"
        )));
    }
    Ok(stage.report())
}

/// Maps the file anew and executes all of it, first a page of each block and then the rest, so
/// that there is something to collapse.
fn touch(stage: &Stage) -> Result<()> {
    let file = stage.open(FILE, false, 0)?;
    let size = 2 * BLOCK;
    advise(&file, 0, 0, libc::POSIX_FADV_RANDOM);
    let mut byte = [0];
    for at in (0..size / 2).step_by(2 * stage.page as usize) {
        file.read_exact_at(&mut byte, at).context("read")?;
    }
    let mapping = map_text(&file, 0, size, libc::MAP_PRIVATE)?;
    execute_all(stage, mapping)?;
    mapping.unmap()
}
