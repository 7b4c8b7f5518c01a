// SPDX-License-Identifier: GPL-2.0-only
//! The scenario with a disk that hardly answers.

use super::Report;
use super::probe::call;
use super::stage::{BLOCK, Count, Stage, map_text};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wideleaf_guest::kit::mapping::{Buffer, Mapping};
use wideleaf_guest::kit::page_cache::{drop_caches, in_cache, read_by_page};

/// Blocks of which half is cached before the disk gets slow: the last ones of the file.
const HALVES: u64 = 2;

/// The disk answers once a second. A task that executes what is cached of a block does not wait for
/// it, though a fault may begin to read the rest. A task that executes other text waits, and SIGKILL
/// must end it long before the disk has answered.
pub fn slow_read(mut stage: Stage) -> Result<Report> {
    let path = stubs(&stage)?;
    let blocks = fs::metadata(&path)?.len() / BLOCK;
    ensure!(
        blocks > HALVES + 1,
        "the stub file has {blocks} blocks only"
    );
    let halves = blocks - HALVES..blocks;
    drop_caches()?;
    for block in halves.clone() {
        let at = block * BLOCK;
        read_by_page(&File::open(&path)?, at..at + BLOCK / 2, stage.page)?;
    }
    exhaust(&path)?;
    stage.begin();
    for block in halves.clone() {
        execute_half(&stage, &path, block * BLOCK)?;
    }
    let (ahead, looked) = (stage.counted(Count::Ahead), stage.counted(Count::Checked));
    // A guest that stands still for a second lets the disk answer first.
    ensure!(
        2 * ahead >= looked,
        "{looked} blocks were executed as far as they were cached, and in {} of them only once \
         the disk had answered for the rest",
        looked - ahead
    );
    kill_waiters(&stage, &path, blocks - HALVES)?;
    count_filled(&stage, &path, halves)?;
    Ok(stage.report())
}

/// Counts the blocks all of which is cached, once there is one or time is up.
fn count_filled(stage: &Stage, path: &Path, halves: Range<u64>) -> Result<()> {
    let file = File::open(path)?;
    let texts = halves.map(|block| map_text(&file, block * BLOCK, BLOCK, libc::MAP_PRIVATE));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    let until = Instant::now() + stage.patience();
    loop {
        let mut filled = 0;
        for text in &texts {
            filled += u64::from(in_cache(*text, stage.page)?.iter().all(|is| *is));
        }
        if filled > 0 || Instant::now() > until {
            stage.count(Count::Filled, filled);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stubs(stage: &Stage) -> Result<PathBuf> {
    let all = fs::read_dir(&stage.options.folder)?.flatten();
    let is_stubs = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("stubs-"))
    };
    let found = all.map(|entry| entry.path()).find(is_stubs);
    found.context("the disk holds no stub file")
}

/// Executes what is cached of a block, in a process of its own, and sees whether it had to wait for
/// the rest.
fn execute_half(stage: &Stage, path: &Path, block: u64) -> Result<()> {
    let mut crew = stage.crew()?;
    crew.start("bystander", || {
        let file = File::open(path)?;
        let mapping = map_text(&file, block, BLOCK, libc::MAP_PRIVATE)?;
        let half = mapping.part(0, BLOCK / 2);
        ensure!(
            in_cache(half, stage.page)?.iter().all(|is| *is),
            "reclaim took pages of the block"
        );
        execute(half);
        stage.count(Count::Checked, 1);
        let last = mapping.part(BLOCK - stage.page, stage.page);
        if in_cache(last, stage.page)? == [false] {
            stage.count(Count::Ahead, 1);
        }
        Ok(())
    })?;
    crew.finish_by(Instant::now() + stage.patience())
}

fn execute(text: Mapping) {
    for at in (0..text.len).step_by(4096) {
        call(text.start + at);
    }
}

/// Kills tasks that wait for text of the first blocks, until time is up.
fn kill_waiters(stage: &Stage, path: &Path, blocks: u64) -> Result<()> {
    let mut random = stage.random(0);
    while stage.goes_on() {
        let mut crew = stage.crew()?;
        let at = random.u64(1..blocks) * BLOCK;
        let pid = crew.start("waiter", || {
            let file = File::open(path)?;
            execute(map_text(&file, at, BLOCK, libc::MAP_PRIVATE)?);
            Ok(())
        })?;
        // Once it waits for the disk.
        std::thread::sleep(Duration::from_millis(1500));
        if crew.lives(pid) {
            let took = crew.kill(pid, stage.patience())?;
            stage.count(Count::Killed, 1);
            stage.most(Count::LongestWaitMs, took.as_millis() as u64);
        }
    }
    Ok(())
}

/// Reads until the disk's burst is used up, and it answers slowly.
fn exhaust(path: &Path) -> Result<()> {
    let mut options = File::options();
    let file = options.read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut buffer = Buffer::new(4096)?;
    for _ in 0..5000 {
        let since = Instant::now();
        file.read_exact_at(buffer.bytes(), 0)
            .context("direct read")?;
        if since.elapsed() > Duration::from_millis(400) {
            return Ok(());
        }
    }
    bail!("the disk is not slow")
}
