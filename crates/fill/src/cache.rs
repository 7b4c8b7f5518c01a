// SPDX-License-Identifier: GPL-2.0-only
//! The page cache's part of a block, and the calls that change it.

use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use wideleaf_collapse::Blocks;

/// include/uapi/asm-generic/mman-common.h; the libc crate has it for glibc only.
const MADV_POPULATE_READ: libc::c_int = 22;
/// cachestat(2), the same number everywhere. Linux 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

/// One block of a file, mapped.
pub(crate) struct View {
    blocks: Blocks,
    page: u64,
    pmd: u64,
}

impl View {
    /// Maps it where a PMD can map it. A fault reads the block, in one folio if the file system
    /// has such, and nothing beside it.
    pub(crate) fn new(file: &File, offset: u64, page: u64, pmd: u64) -> Result<Self, Errno> {
        let blocks = Blocks::of_text(file, offset, pmd, pmd)?;
        let view = Self { blocks, page, pmd };
        view.advise(0..pmd, libc::MADV_HUGEPAGE)?;
        // Without it the kernel reads the next block, too (mm/filemap.c,
        // `do_sync_mmap_readahead()`).
        view.advise(0..pmd, libc::MADV_RANDOM)?;
        Ok(view)
    }

    /// First address, and one past the last.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        let start = self.blocks.address();
        (start, start + self.pmd)
    }

    /// Which pages are cached; nothing is read for that.
    pub(crate) fn cached(&self) -> Result<Vec<bool>, Errno> {
        let mut pages = vec![0u8; (self.pmd / self.page) as usize];
        let start = self.blocks.address() as *mut libc::c_void;
        // SAFETY: the mapping lives as long as `self`; a byte for each of its pages.
        let result = unsafe { libc::mincore(start, self.pmd as usize, pages.as_mut_ptr()) };
        Errno::result(result)?;
        Ok(pages.iter().map(|page| page & 1 != 0).collect())
    }

    /// Maps a range, which reads what is not cached. No signal if the file has become shorter.
    pub(crate) fn populate(&self, range: Range<u64>) -> Result<(), Errno> {
        self.advise(range, MADV_POPULATE_READ)
    }

    /// Maps the pages that are `cached`, and reads nothing but what was dropped meanwhile.
    pub(crate) fn map(&self, cached: &[bool]) -> Result<(), Errno> {
        let mut at = 0;
        for run in cached.chunk_by(|a, b| a == b) {
            let next = at + run.len() as u64 * self.page;
            if run[0] {
                self.populate(at..next)?;
            }
            at = next;
        }
        Ok(())
    }

    fn advise(&self, range: Range<u64>, advice: libc::c_int) -> Result<(), Errno> {
        let start = (self.blocks.address() + range.start) as *mut libc::c_void;
        let length = (range.end - range.start) as usize;
        // SAFETY: within the mapping; none of these changes what is in it.
        let result = unsafe { libc::madvise(start, length, advice) };
        Errno::result(result).map(drop)
    }
}

/// Has the kernel drop the clean pages of a range that nothing maps.
pub(crate) fn drop_pages(file: &File, offset: u64, length: u64) -> Result<(), Errno> {
    let (offset, length) = (signed(offset)?, signed(length)?);
    posix_fadvise(
        file,
        offset,
        length,
        PosixFadviseAdvice::POSIX_FADV_DONTNEED,
    )
}

fn signed(number: u64) -> Result<i64, Errno> {
    i64::try_from(number).map_err(|_| Errno::EINVAL)
}

/// Whether pages of a range are still to be written. Not before Linux 6.5.
pub(crate) fn dirty(file: &File, offset: u64, length: u64) -> bool {
    // struct cachestat_range; struct cachestat: cached, dirty, in writeback, evicted, lately so.
    let range = [offset, length];
    let mut pages = [0u64; 5];
    // SAFETY: the kernel reads two numbers and writes five.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            pages.as_mut_ptr(),
            0,
        )
    };
    result == 0 && pages[1] + pages[2] > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_was_just_written_is_cached_and_dirty_until_it_is_synced() {
        let (page, pmd) = wideleaf_procmap::sizes("/sys".as_ref());
        let mut file = tempfile::tempfile_in(".").unwrap();
        file.write_all(&vec![1; pmd as usize]).unwrap();
        let view = View::new(&file, 0, page, pmd).unwrap();
        assert!(view.cached().unwrap().iter().all(|cached| *cached));
        assert!(dirty(&file, 0, pmd));
        drop(view);
        file.sync_all().unwrap();
        assert!(!dirty(&file, 0, pmd));
    }
}
