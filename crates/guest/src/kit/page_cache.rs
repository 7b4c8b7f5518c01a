// SPDX-License-Identifier: GPL-2.0-only
//! What is in the page cache, and how much of it a fault maps.

use crate::kit::mapping::Mapping;
use anyhow::{Context, Result};
use nix::errno::Errno;
use std::fs::{self, File};
use std::os::fd::AsRawFd;

/// Has clean pages leave memory, and slab too.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// How much a fault maps of the page cache around it.
const FAULT_AROUND: &str = "/sys/kernel/debug/fault_around_bytes";

/// Has all clean pages leave memory.
pub fn drop_caches() -> Result<()> {
    fs::write(DROP_CACHES, "3").context(DROP_CACHES)
}

/// Which pages of a mapping are in the page cache and read, touched or not, by mincore(2).
pub fn in_cache(mapping: Mapping, page: u64) -> Result<Vec<bool>> {
    let mut pages = vec![0u8; mapping.len.div_ceil(page) as usize];
    let start = mapping.start as *mut libc::c_void;
    // SAFETY: the vector has a byte for each page.
    let result = unsafe { libc::mincore(start, mapping.len as usize, pages.as_mut_ptr()) };
    Errno::result(result).context("mincore")?;
    Ok(pages.iter().map(|page| page & 1 != 0).collect())
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
