// SPDX-License-Identifier: GPL-2.0-only
//! Little memory: a limit for the job's process, or a machine that is full already.

use crate::kit::cgroup;
use crate::kit::mapping::Mapping;
use crate::kit::page_cache::drop_caches;
use crate::kit::process::{Process, sleep};
use crate::protocol::MemoryPressure;
use anyhow::{Context, Result, ensure};
use nix::unistd::{Pid, pipe};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;

/// What one step takes at least. Less would be a waste of system calls, more could overshoot.
const STEP: u64 = 2 << 20;

/// Has a child hold memory so that no more is free than asked, if that is asked.
pub fn hold(pressure: &MemoryPressure) -> Result<Option<Pid>> {
    let hold = |free| fill(free, pressure.fragmented);
    pressure.free.map(hold).transpose()
}

/// Moves this process into a cgroup of its own with this memory.max in bytes.
pub fn limit(bytes: u64) -> Result<PathBuf> {
    let group = cgroup::limited("job", &bytes.to_string())?;
    cgroup::enter(&group)?;
    Ok(group)
}

fn write(path: &str, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{path}: cannot write {text}"))
}

/// Has a child take memory that cannot be reclaimed, until no more than `keep` bytes above the
/// high watermarks are free. It keeps it until it is killed.
fn fill(keep: u64, fragmented: bool) -> Result<Pid> {
    // A boost raises the marks for a while when memory becomes fragmented, by more than may be
    // free here: it would move what this is measured by, and end in the OOM killer.
    write("/proc/sys/vm/watermark_boost_factor", "0")?;
    // Pages and slab: what is in a cache now would be free memory a moment later.
    drop_caches()?;
    if fragmented {
        // What is fragmented is to stay so.
        write("/proc/sys/vm/compact_unevictable_allowed", "0")?;
    }
    let (mut answer, mut tell) = {
        let (read, write) = pipe().context("pipe")?;
        (File::from(read), File::from(write))
    };
    // The parent's own end of it is closed with the closure.
    let taker = move || {
        let taken = if fragmented {
            fragment(keep)
        } else {
            take(keep)
        };
        let text = match taken {
            Ok(()) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        let _ = tell.write_all(text.as_bytes());
        drop(tell);
        sleep()
    };
    let child = Process::fork(taker)?;
    let mut error = String::new();
    answer.read_to_string(&mut error).context("pipe")?;
    ensure!(error.is_empty(), "cannot fill the memory: {error}");
    Ok(child.pid())
}

fn take(keep: u64) -> Result<()> {
    while let Some(bytes) = next_step(free_above_watermarks()?, keep) {
        lock_memory(bytes)?;
    }
    Ok(())
}

/// Bytes to take next of `above` so that `keep` of them are left; `None`: no more.
///
/// It is half of the excess, because more goes than is taken: page tables, and free pages that CPUs
/// keep on lists of their own (9M of 864M on one CPU). These count as used, and where nothing can be
/// reclaimed the OOM killer comes without their being drawn back.
fn next_step(above: u64, keep: u64) -> Option<u64> {
    let excess = above.checked_sub(keep).filter(|excess| *excess >= STEP)?;
    Some((excess / 2).max(STEP) / STEP * STEP)
}

/// Takes all memory, the last of it page by page, and gives back every second one of those pages:
/// `keep` bytes, each with a neighbour that is taken.
fn fragment(keep: u64) -> Result<()> {
    let pair = 2 * wideleaf_bench::page_size();
    take(2 * keep)?;
    let memory = Mapping::anonymous(None, 2 * keep / pair * pair, 0)?;
    memory.advise(libc::MADV_NOHUGEPAGE)?;
    let mut taken = 0;
    while let Some(bytes) = next_step(free_above_watermarks()?, 0).filter(|_| taken < memory.len) {
        let bytes = bytes.min(memory.len - taken);
        memory.part(taken, bytes).lock()?;
        taken += bytes;
    }
    for at in (0..taken).step_by(pair as usize) {
        let page = memory.part(at, pair / 2);
        page.advise(libc::MADV_DONTNEED_LOCKED)?;
    }
    Ok(())
}

fn lock_memory(bytes: u64) -> Result<()> {
    Mapping::anonymous(None, bytes, libc::MAP_LOCKED | libc::MAP_POPULATE).map(drop)
}

/// Bytes free above the sum of all zones' high watermarks; 0 if below.
fn free_above_watermarks() -> Result<u64> {
    let text = fs::read_to_string("/proc/zoneinfo").context("/proc/zoneinfo")?;
    Ok(pages_above_watermarks(&text) * wideleaf_bench::page_size())
}

/// Those of the contiguous memory allocator are not counted: no page table can be there.
fn pages_above_watermarks(zoneinfo: &str) -> u64 {
    let taken = zone_sum(zoneinfo, &["high"]) + zone_sum(zoneinfo, &["nr_free_cma"]);
    zone_sum(zoneinfo, &["pages", "free"]).saturating_sub(taken)
}

/// Sum over all zones of the number behind these words.
fn zone_sum(zoneinfo: &str, words: &[&str]) -> u64 {
    let value = |line: &str| {
        let mut parts = line.split_ascii_whitespace();
        let named = words.iter().all(|word| parts.next() == Some(*word));
        named.then(|| parts.next()?.parse::<u64>().ok()).flatten()
    };
    zoneinfo.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_filled_to_the_mark_though_more_goes_than_is_taken() {
        for keep in [0, 192 << 20] {
            let (mut above, mut steps) = (keep + (382 << 20), 0);
            while let Some(bytes) = next_step(above, keep) {
                above -= bytes + bytes / 32;
                steps += 1;
            }
            assert!(above.abs_diff(keep) < STEP && steps < 20, "{above} {steps}");
        }
        assert_eq!(next_step(STEP - 1, 0), None);
        assert_eq!(next_step(STEP, 2 * STEP), None);
    }

    #[test]
    fn zones_add_up_and_neither_per_cpu_marks_nor_cma_count() {
        let text = "\
Node 0, zone      DMA
  pages free     100
        boost    0
        min      10
        low      20
        high     30
    cpu: 0
              count:    5
              high:     14
Node 0, zone   Normal
  pages free     200
        high     60
      nr_free_pages 200
      nr_free_cma  50
";
        assert_eq!(pages_above_watermarks(text), 300 - 90 - 50);
        assert_eq!(
            pages_above_watermarks(&text.replace("free     100", "free 0")),
            60
        );
    }
}
