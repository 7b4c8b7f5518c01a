// SPDX-License-Identifier: GPL-2.0-only
//! `/proc/PID/pagemap`: entries by pread, and the PAGEMAP_SCAN ioctl of Linux
//! 6.7, which finds mapped ranges without visiting holes and says which are
//! mapped by a PMD (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Entries per read: 128 KiB, read in one system call.
pub(crate) const CHUNK: u64 = 16 << 10;
/// Regions returned by one PAGEMAP_SCAN.
const REGIONS: usize = 512;

const PRESENT: u64 = 1 << 63;
const EXCLUSIVE: u64 = 1 << 56;
const FRAME: u64 = (1 << 55) - 1;

/// The frame of a pagemap entry; `None` if no page is mapped, 0 if the kernel
/// hides it.
pub(crate) fn frame(entry: u64) -> Option<u64> {
    (entry & PRESENT != 0).then_some(entry & FRAME)
}

/// Whether a page is mapped that something else maps as well.
pub(crate) fn shared(entry: u64) -> bool {
    entry & (PRESENT | EXCLUSIVE) == PRESENT
}

/// Mapped addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub start: u64,
    pub end: u64,
    /// What maps them.
    pub by: By,
}

/// What maps a [`Region`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// PTEs, or the kernel cannot tell.
    Pte,
    /// PMDs or hugetlb entries.
    Pmd,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_HUGE: u64 = 1 << 6;

nix::ioctl_readwrite!(pagemap_scan, b'f', 16, PmScanArg);

/// Finds mapped regions from `next` on, at most so many at a time that memory
/// use is bounded, and moves `next` behind them. `Ok(false)` if this file
/// knows no PAGEMAP_SCAN (before Linux 6.7, or not a pagemap).
pub(crate) fn scan(
    file: &File,
    next: &mut u64,
    end: u64,
    regions: &mut Vec<Region>,
) -> io::Result<bool> {
    let mut found = [PageRegion::default(); REGIONS];
    let mut arg = PmScanArg {
        size: size_of::<PmScanArg>() as u64,
        start: *next,
        end,
        vec: found.as_mut_ptr() as u64,
        vec_len: REGIONS as u64,
        category_mask: PAGE_IS_PRESENT,
        // Anything else that could be asked for costs a look at each page.
        return_mask: PAGE_IS_HUGE,
        ..PmScanArg::default()
    };
    regions.clear();
    let count = loop {
        // SAFETY: `arg` is the kernel's struct pm_scan_arg and `vec` points to
        // `vec_len` writable records that outlive the call.
        match unsafe { pagemap_scan(file.as_raw_fd(), &mut arg) } {
            Ok(count) => break count as usize,
            Err(nix::Error::ENOTTY | nix::Error::EINVAL | nix::Error::ENOSYS) => return Ok(false),
            Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    };
    regions.extend(found[..count.min(REGIONS)].iter().map(|r| Region {
        start: r.start,
        end: r.end,
        by: if r.categories & PAGE_IS_HUGE != 0 {
            By::Pmd
        } else {
            By::Pte
        },
    }));
    if arg.walk_end <= *next {
        return Err(io::Error::other("PAGEMAP_SCAN made no progress"));
    }
    *next = arg.walk_end;
    Ok(true)
}

/// Reads the entries of `count` pages from virtual page `first` on. Fewer come
/// back where the address space ends or the process has gone.
pub(crate) fn read(file: &File, first: u64, count: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let want = (count * 8) as usize;
    bytes.resize(want, 0);
    let offset = first
        .checked_mul(8)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut done = 0;
    while done < want {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(done / 8 * 8);
    Ok(())
}

/// The entries in what [`read`] returned.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(8)
        .map(|b| u64::from_ne_bytes(b.try_into().expect("8 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_as_documented() {
        assert_eq!(frame(0), None);
        assert_eq!(frame(1 << 62 | 5), None);
        assert_eq!(frame(1 << 63), Some(0));
        // Soft-dirty, exclusive and file bits are no part of the frame.
        assert_eq!(frame(1 << 63 | 1 << 61 | 1 << 56 | 1 << 55 | 77), Some(77));
    }

    #[test]
    fn a_plain_file_is_read_but_not_scanned() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&(PRESENT | 7).to_ne_bytes(), 16).unwrap();
        let mut regions = Vec::new();
        assert!(!scan(&file, &mut 0, 4096, &mut regions).unwrap());
        let mut bytes = Vec::new();
        read(&file, 1, 10, &mut bytes).unwrap();
        assert_eq!(
            entries(&bytes).map(frame).collect::<Vec<_>>(),
            [None, Some(7)]
        );
    }

    #[test]
    fn own_memory_is_found_where_it_was_touched() {
        let Ok(file) = File::open("/proc/self/pagemap") else {
            return;
        };
        let page = 4096; // x86; elsewhere the region is just larger
        let mut memory = vec![0u8; 64 * page];
        let base = memory.as_ptr() as u64;
        let start = base.next_multiple_of(page as u64);
        memory[(start - base) as usize] = 1;
        let mut regions = Vec::new();
        let mut next = start;
        if scan(&file, &mut next, start + page as u64, &mut regions).unwrap() {
            assert_eq!(next, start + page as u64);
            assert_eq!(regions.len(), 1);
            assert_eq!(regions[0].start, start);
        }
    }
}
