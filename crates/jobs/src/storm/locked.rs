// SPDX-License-Identifier: GPL-2.0-only
//! The scenario in which a process locks text that others make wide.
//!
//! 6.12 does not mark a large folio as locked when it is mapped, so folios alone do not tell
//! khugepaged that a mapping locks them.

use super::Report;
use super::cases::{FILE, execute_all};
use super::stage::{BLOCK, Count, Stage, map_text};
use anyhow::{Context, Result, ensure};
use nix::unistd::{pipe, read, write};
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::mapping::Mapping;
use wideleaf_guest::kit::page_cache::drop_caches;
use wideleaf_guest::kit::page_flags::{mapped, pages};

/// How long text stays locked: several times what khugepaged takes to look at a block.
const HELD: Duration = Duration::from_secs(3);

/// How long a block may take to become one folio once nobody locks it. khugepaged tries one that it
/// could not collapse again after up to eight seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A holder locks a block as it faults it in. Beside it an executer executes the block, drops its
/// entries and executes it again, so that khugepaged is asked to collapse it. The holder's pages must
/// stay mapped. Then the holder ends, and the block is collapsed: so what kept it was the lock.
pub fn locked(mut stage: Stage) -> Result<Report> {
    // Compaction may move locked pages, and takes their entries away meanwhile.
    let compaction = "/proc/sys/vm/compact_unevictable_allowed";
    fs::write(compaction, "0").context(compaction)?;
    stage.make(FILE, BLOCK)?;
    stage.begin();
    while stage.goes_on() {
        drop_caches()?;
        turn(&stage)?;
    }
    Ok(stage.report())
}

fn turn(stage: &Stage) -> Result<()> {
    let mut crew = stage.crew()?;
    let (ready, say) = pipe().context("pipe")?;
    crew.start("holder", || hold(stage, &say))?;
    drop(say);
    let held = read(&ready, &mut [0]).context("read")?;
    if held == 1 {
        crew.start("executer", || execute_until_wide(stage))?;
    }
    crew.finish_by(Instant::now() + PATIENCE + 2 * stage.patience())
}

fn hold(stage: &Stage, ready: &OwnedFd) -> Result<()> {
    let file = stage.open(FILE, false, libc::O_CLOEXEC)?;
    let mapping = map_text(&file, 0, BLOCK, libc::MAP_PRIVATE)?;
    mapping.lock_on_fault()?;
    execute_all(stage, mapping)?;
    let folios = folios(mapping)?;
    ensure!(folios > 1, "the block is one folio before it was collapsed");
    write(ready, &[0]).context("write")?;
    stage.count(Count::Locked, 1);
    let since = Instant::now();
    while since.elapsed() < HELD {
        all_present(&mapped(mapping)?)?;
        stage.count(Count::Checked, 1);
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn all_present(mapped: &[bool]) -> Result<()> {
    let present = mapped.iter().filter(|is| **is).count();
    let all = mapped.len();
    ensure!(
        present == all,
        "of {all} pages that are locked {present} are present: others unmapped the rest"
    );
    Ok(())
}

/// Faults on the block again and again, until it is one folio or time is up.
fn execute_until_wide(stage: &Stage) -> Result<()> {
    let file = stage.open(FILE, false, libc::O_CLOEXEC)?;
    let mapping = map_text(&file, 0, BLOCK, libc::MAP_PRIVATE)?;
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        execute_all(stage, mapping)?;
        if folios(mapping)? == 1 {
            stage.count(Count::Collapsed, 1);
            return Ok(());
        }
        mapping.advise(libc::MADV_DONTNEED)?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Folios that the present pages of a mapping begin.
fn folios(mapping: Mapping) -> Result<usize> {
    let present = pages(mapping)?.into_iter().flatten();
    Ok(present.filter(|page| !page.is_tail).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_page_that_is_not_present_is_told() {
        all_present(&[true, true]).unwrap();
        let error = all_present(&[true, false]).unwrap_err().to_string();
        assert!(
            error.starts_with("of 2 pages that are locked 1 are"),
            "{error}"
        );
    }
}
