// SPDX-License-Identifier: GPL-2.0-only
//! The way back, for comparisons: text out of the page cache, or in folios of a base page.

use crate::cache::drop_pages;
use crate::{Error, Geometry, Text};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Drops all whole blocks of a file's text that nothing maps.
///
/// # Errors
///
/// The kernel's reason.
pub fn forget(text: &Text, sizes: &Geometry) -> Result<(), Error> {
    for &offset in text.blocks.iter().chain(&text.odd) {
        drop_pages(&text.file, offset, sizes.pmd).map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// The same, and reads them again into base pages.
///
/// # Errors
///
/// If they cannot be read.
pub fn narrow(text: &Text, sizes: &Geometry) -> Result<(), Error> {
    forget(text, sizes)?;
    // The advice is the descriptor's: others' keep their readahead. With it the kernel reads what
    // is asked for by folios of the least size (mm/readahead.c, `force_page_cache_ra()`).
    let file = File::open(format!("/proc/self/fd/{}", text.file.as_raw_fd()))?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM)
        .map_err(std::io::Error::from)?;
    let mut bytes = vec![0; sizes.pmd as usize];
    for &offset in text.blocks.iter().chain(&text.odd) {
        file.read_exact_at(&mut bytes, offset)?;
    }
    Ok(())
}
