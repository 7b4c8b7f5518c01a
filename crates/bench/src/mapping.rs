// SPDX-License-Identifier: GPL-2.0-only
//! The mapping of the stub file.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

wideleaf_kit::named!(
    /// What madvise(2) is told of a mapping.
    Advice, "advice", {
        /// MADV_RANDOM
        Random = "random",
        /// MADV_SEQUENTIAL
        Sequential = "sequential",
        /// MADV_HUGEPAGE
        HugePage = "hugepage",
    }
);

impl Advice {
    fn of_kernel(self) -> MmapAdvise {
        match self {
            Self::Random => MmapAdvise::MADV_RANDOM,
            Self::Sequential => MmapAdvise::MADV_SEQUENTIAL,
            Self::HugePage => MmapAdvise::MADV_HUGEPAGE,
        }
    }
}

/// Unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    len: NonZeroUsize,
}

impl Mapping {
    /// Maps the first `len` bytes, private, readable and executable, at an address that is a
    /// multiple of `align` if one is given and that the kernel chooses if not.
    pub fn new(file: &File, len: u64, align: Option<u64>) -> Result<Self> {
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        Self::map(file, len, prot, align)
            .with_context(|| format!("mmap of {len} bytes, readable and executable"))
    }

    /// Maps the first `len` bytes, private and readable, where the kernel chooses.
    pub fn of_data(file: &File, len: u64) -> Result<Self> {
        Self::map(file, len, ProtFlags::PROT_READ, None)
            .with_context(|| format!("mmap of {len} bytes, readable"))
    }

    fn map(file: &File, len: u64, prot: ProtFlags, align: Option<u64>) -> Result<Self> {
        let len = NonZeroUsize::new(usize::try_from(len)?).context("empty mapping")?;
        let (address, fixed) = match align {
            Some(align) => {
                let room = reserve(len, usize::try_from(align)?)?;
                (Some(room), MapFlags::MAP_FIXED)
            }
            None => (None, MapFlags::empty()),
        };
        // SAFETY: without MAP_FIXED the kernel finds free room; with it, it replaces the part
        // of our own reservation that reserve() left.
        let start = unsafe { mmap(address, len, prot, MapFlags::MAP_PRIVATE | fixed, file, 0) }
            .map_err(explain)?;
        Ok(Self { start, len })
    }

    /// Gives the kernel this advice for all of it.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        // SAFETY: the mapping is ours, and none of the advice changes what is in it.
        unsafe { madvise(self.start, self.len.get(), advice.of_kernel()) }
            .with_context(|| format!("madvise, {advice}"))
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Bytes of it that are in the page cache, touched or not.
    pub fn resident(&self, page_size: u64) -> Result<u64> {
        let pages = self.in_cache(page_size)?;
        Ok(pages.iter().filter(|there| **there).count() as u64 * page_size)
    }

    /// Which of its pages are in the page cache, touched or not.
    pub fn in_cache(&self, page_size: u64) -> Result<Vec<bool>> {
        in_cache(self.address(), self.len.get() as u64, page_size)
    }
}

/// Which pages of a mapping, of `len` bytes from the address `start` on, are in the page cache and
/// read, touched or not, by mincore(2).
///
/// # Errors
///
/// If `start` is no multiple of the page size, or a page of them is not mapped.
pub fn in_cache(start: u64, len: u64, page_size: u64) -> Result<Vec<bool>> {
    let mut pages = vec![0u8; len.div_ceil(page_size) as usize];
    // SAFETY: the kernel checks the addresses, and the vector has a byte for each of the pages.
    let result = unsafe { libc::mincore(start as *mut _, len as usize, pages.as_mut_ptr()) };
    Errno::result(result).context("mincore")?;
    Ok(pages.iter().map(|page| page & 1 != 0).collect())
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours alone; nothing calls into it any more.
        let result = unsafe { munmap(self.start, self.len.get()) };
        debug_assert_eq!(result, Ok(()));
    }
}

/// Finds an aligned address with `len` bytes of room, which stay reserved.
fn reserve(len: NonZeroUsize, align: usize) -> Result<NonZeroUsize> {
    let room = len.checked_add(align).context("alignment too large")?;
    // SAFETY: a new mapping that nothing can access.
    let start = unsafe { mmap_anonymous(None, room, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) }
        .with_context(|| {
            format!("no room in the address space for {len} bytes at a multiple of {align}")
        })?;
    let first = start.as_ptr() as usize;
    let aligned = first.next_multiple_of(align);
    trim(first, aligned)?;
    trim(aligned + len.get(), first + room.get())?;
    NonZeroUsize::new(aligned).context("address 0")
}

/// Gives part of the reservation back.
fn trim(from: usize, to: usize) -> Result<()> {
    match NonNull::new(from as *mut c_void) {
        // SAFETY: inside the reservation, which nothing uses yet.
        Some(start) if from < to => unsafe { munmap(start, to - from) }.context("munmap"),
        _ => Ok(()),
    }
}

/// What mmap's errors mean for an executable file.
fn explain(error: Errno) -> anyhow::Error {
    let hint = match error {
        Errno::EPERM => "the file system is mounted noexec, or a security policy forbids it",
        Errno::ENODEV => "the file system cannot map files",
        Errno::ENOMEM => "no address space left; see ulimit -v",
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::create;
    use wideleaf_kit::arch::Arch;

    #[test]
    fn asked_for_alignment_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stubs");
        create(&path, Arch::host().unwrap(), 1 << 20).unwrap();
        let file = File::open(&path).unwrap();
        for align in [1 << 16, 1 << 21, 1 << 25] {
            // Two at once: an unaligned choice could not be aligned by luck twice in a row.
            let maps = [0, 1].map(|_| Mapping::new(&file, 1 << 20, Some(align)).unwrap());
            assert!(maps.iter().all(|map| map.address() % align == 0));
            assert_ne!(maps[0].address(), maps[1].address());
        }
    }
}
