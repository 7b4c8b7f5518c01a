// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says of the pages behind addresses of this process
//! (Documentation/admin-guide/mm/pagemap.rst).

use crate::kit::mapping::Mapping;
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
pub fn pages(mapping: Mapping) -> Result<Vec<Option<Seen>>> {
    let flags = File::open("/proc/kpageflags").context("/proc/kpageflags")?;
    let look = |entry: u64| {
        if entry & PRESENT == 0 {
            return Ok(None);
        }
        ensure!(entry & FRAME != 0, "pagemap: no frame numbers: not root?");
        let mut bytes = [0; 8];
        let at = (entry & FRAME) * 8;
        flags.read_exact_at(&mut bytes, at).context("read")?;
        let flags = u64::from_ne_bytes(bytes);
        Ok(Some(Seen {
            is_tail: flags & COMPOUND_TAIL != 0,
            is_dirty: flags & DIRTY != 0,
        }))
    };
    entries(mapping)?.into_iter().map(look).collect()
}

/// Whether an entry maps them, page by page. Wants no root.
pub fn mapped(mapping: Mapping) -> Result<Vec<bool>> {
    let entries = entries(mapping)?.into_iter();
    Ok(entries.map(|entry| entry & PRESENT != 0).collect())
}

fn entries(Mapping { start, len }: Mapping) -> Result<Vec<u64>> {
    let page = page_size();
    let pagemap = File::open("/proc/self/pagemap").context("/proc/self/pagemap")?;
    let mut bytes = vec![0; (len / page * 8) as usize];
    let read = pagemap.read_exact_at(&mut bytes, start / page * 8);
    read.context("/proc/self/pagemap")?;
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_were_touched_are_mapped() {
        let page = page_size();
        let mapping = Mapping::anonymous(None, 4 * page, 0).unwrap();
        let _ = mapping.advise(libc::MADV_NOHUGEPAGE);
        // SAFETY: inside of the mapping.
        unsafe { ((mapping.start + 2 * page) as *mut u64).write_volatile(1) };
        assert_eq!(mapped(mapping).unwrap(), [false, false, true, false]);
        mapping.unmap().unwrap();
    }
}
