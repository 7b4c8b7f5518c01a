// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says of the pages behind addresses of this process
//! (Documentation/admin-guide/mm/pagemap.rst).

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use wideleaf_bench::page_size;

/// Bits of an entry of /proc/self/pagemap.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Bits of an entry of /proc/kpageflags.
const DIRTY: u64 = 1 << 4;
const COMPOUND_TAIL: u64 = 1 << 16;

/// A page that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// It does not begin a folio.
    pub is_tail: bool,
    /// It is to be written back.
    pub is_dirty: bool,
}

/// The pages of a mapping; `None` for those that no entry maps. Wants root.
pub fn pages(start: u64, len: u64) -> Result<Vec<Option<Seen>>> {
    let page = page_size();
    let pagemap = File::open("/proc/self/pagemap").context("/proc/self/pagemap")?;
    let flags = File::open("/proc/kpageflags").context("/proc/kpageflags")?;
    let word = |file: &File, nth: u64| -> Result<u64> {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, nth * 8).context("read")?;
        Ok(u64::from_ne_bytes(bytes))
    };
    let look = |nth| {
        let entry = word(&pagemap, start / page + nth)?;
        if entry & PRESENT == 0 {
            return Ok(None);
        }
        ensure!(entry & FRAME != 0, "pagemap: no frame numbers: not root?");
        let flags = word(&flags, entry & FRAME)?;
        Ok(Some(Seen {
            is_tail: flags & COMPOUND_TAIL != 0,
            is_dirty: flags & DIRTY != 0,
        }))
    };
    (0..len / page).map(look).collect()
}
