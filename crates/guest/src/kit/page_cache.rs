// SPDX-License-Identifier: GPL-2.0-only
//! The pages that are in the page cache, and how much of it a fault maps.

use crate::kit::mapping::Mapping;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Has clean pages leave memory, and slab too.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// How much a fault maps of the page cache around it.
const FAULT_AROUND: &str = "/sys/kernel/debug/fault_around_bytes";

/// Has all clean pages leave memory.
pub fn drop_caches() -> Result<()> {
    fs::write(DROP_CACHES, "3").context(DROP_CACHES)
}

/// Which pages of a mapping are in the page cache and read, touched or not.
pub fn in_cache(mapping: Mapping, page: u64) -> Result<Vec<bool>> {
    wideleaf_bench::mapping::in_cache(mapping.start, mapping.len, page)
}

/// Has the pages of a part of a file read one by one, so that none of them is part of a wide folio.
pub fn read_by_page(file: &File, part: Range<u64>, page: u64) -> Result<()> {
    advise(file, 0, 0, libc::POSIX_FADV_RANDOM);
    for at in part.step_by(page as usize) {
        file.read_exact_at(&mut [0], at).context("read")?;
    }
    Ok(())
}

/// posix_fadvise(2): only a wish.
pub fn advise(file: &File, at: u64, len: u64, advice: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), at as i64, len as i64, advice) };
}

/// Says how much a fault is to map of the page cache around it, in bytes, until the guest goes off:
/// a job that wrote to it cannot take it back.
///
/// # Errors
///
/// If it cannot be written.
pub fn fault_around_bytes(bytes: u64) -> Result<()> {
    fs::write(FAULT_AROUND, bytes.to_string()).context(FAULT_AROUND)
}
