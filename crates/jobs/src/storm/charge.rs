// SPDX-License-Identifier: GPL-2.0-only
//! The scenario in which a collapse moves text from one memory cgroup to another.

use super::Report;
use super::cases::{FILE, execute_all, pmd};
use super::stage::{BLOCK, Count, Stage, map_text};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wideleaf_guest::kit::cgroup;
use wideleaf_guest::kit::mapping::MADV_COLLAPSE;
use wideleaf_guest::kit::page_cache::{advise, drop_caches};

/// What batches of the CPUs may leave uncounted, in pages.
const TOLERANCE: u64 = 16;

/// A process in one cgroup has the pages of a file read one by one; one in another group executes
/// them, which collapses them, and asks for their collapse besides. Once the file has left memory
/// neither group may have any of it.
pub fn charged(mut stage: Stage) -> Result<Report> {
    // 32M and 512M of one folio are more than a guest has free as such.
    let size = 2 * pmd(&stage).min(BLOCK);
    let (readers, executers) = (group("readers")?, group("executers")?);
    stage.make(FILE, size)?;
    stage.begin();
    while stage.goes_on() {
        drop_caches()?;
        play(&stage, "reader", &readers, || {
            read_all_but_one(&stage, size)
        })?;
        play(&stage, "executer", &executers, || {
            let file = stage.open(FILE, false, 0)?;
            let mapping = map_text(&file, 0, size, libc::MAP_PRIVATE)?;
            execute_all(&stage, mapping)?;
            if mapping.advise(MADV_COLLAPSE).is_ok() {
                stage.count(Count::Collapsed, 1);
            }
            Ok(())
        })?;
        for group in [&readers, &executers] {
            expect_no_text(&stage, group)?;
        }
        stage.count(Count::Checked, 1);
    }
    Ok(stage.report())
}

fn group(name: &str) -> Result<PathBuf> {
    cgroup::limited(name, "max")
}

/// One process in `group`, to its end.
fn play(stage: &Stage, name: &str, group: &Path, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut crew = stage.crew()?;
    crew.start(name, || {
        cgroup::enter(group)?;
        work()
    })?;
    stage.finish(crew)
}

/// One page of each block is left for a fault to miss.
fn read_all_but_one(stage: &Stage, size: u64) -> Result<()> {
    let file = stage.open(FILE, false, 0)?;
    advise(&file, 0, 0, libc::POSIX_FADV_RANDOM);
    for at in (0..size).step_by(stage.page as usize) {
        if at % BLOCK != BLOCK / 2 {
            file.read_exact_at(&mut [0], at).context("read")?;
        }
    }
    Ok(())
}

/// The kernel counts in batches, which it flushes every two seconds.
fn expect_no_text(stage: &Stage, group: &Path) -> Result<()> {
    let since = Instant::now();
    loop {
        drop_caches()?;
        let bytes = text_bytes(group)?;
        if bytes <= TOLERANCE * stage.page {
            return Ok(());
        }
        if since.elapsed() > Duration::from_secs(6) {
            bail!(
                "{}: memory.stat has {bytes} bytes of file pages, and nothing is cached",
                group.display()
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn text_bytes(group: &Path) -> Result<u64> {
    let path = group.join("memory.stat");
    let stat = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let value = stat.lines().find_map(|line| line.strip_prefix("file "));
    ensure!(value.is_some(), "{}: no line 'file'", path.display());
    Ok(value.unwrap_or_default().parse()?)
}
