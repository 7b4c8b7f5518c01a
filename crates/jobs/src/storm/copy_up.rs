// SPDX-License-Identifier: GPL-2.0-only
//! Files that are seen through an overlay, as containers see them, and are copied up while they are
//! executed.
//!
//! An open for writing copies a file of the lower folder to the upper one. Mappings that were made
//! before go on with the lower file.

use super::page::{PIECE, Piece};
use super::probe::{call, load};
use super::stage::{BLOCK, Count, Stage, map_text, text};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use wideleaf_guest::kit::mapping::Mapping;
use wideleaf_guest::kit::overlay;
use wideleaf_guest::kit::page_cache::advise;

/// Processes that have files copied up.
pub const COPIERS: u64 = 2;

/// The lower file that they execute, and its bytes.
const FILE: u32 = 16;
const SIZE: u64 = 2 * BLOCK;

/// Its names, which are links, for each of them. A name is copied up once.
const NAMES: u64 = 1000;

/// Has the files that are made from now on be those of an overlay's lower folder.
pub fn begin(stage: &mut Stage) -> Result<()> {
    stage.options.folder.push("lower");
    let lower = &stage.options.folder;
    fs::create_dir_all(lower).with_context(|| lower.display().to_string())?;
    stage.make(FILE, SIZE)?;
    for (copier, nth) in (0..COPIERS).flat_map(|copier| (0..NAMES).map(move |nth| (copier, nth))) {
        let name = name(stage, copier, nth);
        fs::hard_link(stage.path(FILE), &name).with_context(|| name.display().to_string())?;
    }
    Ok(())
}

/// Mounts the overlay, and has all files be seen through it.
pub fn mount(stage: &mut Stage) -> Result<()> {
    let lower = stage.options.folder.clone();
    let disk = lower.parent().context("begin() comes first")?;
    let merged = disk.join("merged");
    overlay::mount(&as_text(disk), &as_text(&lower), &as_text(&merged))?;
    stage.options.folder = merged;
    Ok(())
}

fn as_text(path: &Path) -> String {
    path.display().to_string()
}

fn name(stage: &Stage, copier: u64, nth: u64) -> PathBuf {
    stage.options.folder.join(format!("copy-{copier}-{nth}"))
}

/// Has one name after the other copied up, until the time or the names are used up.
pub fn copier(stage: &Stage, copier: u64) -> Result<()> {
    for nth in 0..NAMES {
        if !stage.goes_on() {
            break;
        }
        let name = name(stage, copier, nth);
        turn(stage, &name, nth as u32 + 1).with_context(|| name.display().to_string())?;
    }
    Ok(())
}

/// A thread executes the lower file while the name is opened for writing and gets the pieces of
/// `generation`. The thread's mapping must have what the lower file has, a later one what was
/// written.
fn turn(stage: &Stage, name: &Path, generation: u32) -> Result<()> {
    let lower = File::open(name)?;
    advise(&lower, 0, 0, libc::POSIX_FADV_DONTNEED);
    let before = map_text(&lower, 0, SIZE, libc::MAP_PRIVATE)?;
    let is_written = AtomicBool::new(false);
    thread::scope(|scope| {
        let executer = scope.spawn(|| {
            while !is_written.load(Relaxed) {
                see(stage, before, 0)?;
                before.advise(libc::MADV_DONTNEED)?;
            }
            see(stage, before, 0)
        });
        let written = copy_up(name, generation);
        is_written.store(true, Relaxed);
        let seen = executer.join();
        seen.unwrap_or_else(|_| bail!("a thread panicked"))
            .context("mapped before the copy")?;
        written
    })?;
    stage.count(Count::CopiedUp, 1);
    let upper = File::open(name)?;
    let after = map_text(&upper, 0, SIZE, libc::MAP_PRIVATE)?;
    see(stage, after, generation).context("mapped after the copy")?;
    before.unmap()?;
    after.unmap()?;
    // A whiteout stays, and the room is free again.
    fs::remove_file(name).context("unlink")
}

fn copy_up(name: &Path, generation: u32) -> Result<()> {
    let upper = OpenOptions::new().write(true).open(name)?;
    let bytes = text(FILE, 0, SIZE, generation);
    upper.write_all_at(&bytes, 0).context("write")
}

/// Executes a piece of each page, and reads a word of it. This file has no holes.
fn see(stage: &Stage, mapping: Mapping, generation: u32) -> Result<()> {
    for at in (0..SIZE).step_by(stage.page as usize) {
        let piece = Piece {
            file: FILE,
            number: (at / PIECE) as u32,
        };
        let returned = call(mapping.start + at);
        ensure!(
            returned == piece.returned(),
            "{piece}: executing it gives {returned:#x}"
        );
        let word = load(mapping.start + at + Piece::offset(0));
        ensure!(
            word == piece.word(generation),
            "{piece}: generation {generation} is expected, and the word is {word:#x}"
        );
        stage.count(Count::Executed, 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Scenario, Task, probe};
    use super::*;
    use wideleaf_guest::kit::alone::alone;

    #[test]
    fn a_mapping_that_does_not_stay_with_the_lower_file_is_told() {
        alone(|| {
            probe::install().unwrap();
            let dir = tempfile::tempdir().unwrap();
            let stage = Stage::new(&Task {
                scenario: Scenario::All,
                folder: dir.path().into(),
                overlay: true,
                seconds: 1,
                seed: 1,
                hung_s: 1,
                fail_allocations: false,
            })
            .unwrap();
            stage.make(FILE, SIZE).unwrap();
            // No overlay is here: what is written goes to the file that was mapped before.
            let error = turn(&stage, &stage.path(FILE), 7).unwrap_err();
            let error = format!("{error:#}");
            assert!(
                error.starts_with("mapped before the copy: file 16 piece"),
                "{error}"
            );
            assert!(error.contains("generation 0 is expected"), "{error}");
        });
    }
}
