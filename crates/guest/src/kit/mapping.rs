// SPDX-License-Identifier: GPL-2.0-only
//! Mappings of this process, and the system calls on them; buffers for direct I/O.

use anyhow::{Context, Result};
use nix::errno::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Readable and writable.
pub const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Advice that libc's musl does not have yet (include/uapi/asm-generic/mman-common.h).
pub const MADV_COLLAPSE: i32 = 25;

/// Addresses of this process. Dropping it unmaps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// Its bytes.
    pub len: u64,
}

impl Mapping {
    /// mmap(2), at an address if one is given, of a file and offset if they are.
    pub fn new(
        at: Option<u64>,
        len: u64,
        prot: i32,
        flags: i32,
        file: Option<(&File, u64)>,
    ) -> Result<Self> {
        let mapping = Self::attempt(at, len, prot, flags, file);
        mapping.with_context(|| format!("mmap of {len} bytes"))
    }

    /// The same for callers to which some errors are none.
    pub fn attempt(
        at: Option<u64>,
        len: u64,
        prot: i32,
        flags: i32,
        file: Option<(&File, u64)>,
    ) -> nix::Result<Self> {
        let flags = flags | at.map_or(0, |_| libc::MAP_FIXED);
        let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
        let (hint, bytes, offset) = (at.unwrap_or(0) as *mut _, len as usize, offset as i64);
        // SAFETY: where an address is given, it is inside a mapping of the caller's.
        let start = unsafe { libc::mmap(hint, bytes, prot, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Self {
            start: start as u64,
            len,
        })
    }

    /// Private memory, readable and writable, with these flags besides.
    pub fn anonymous(at: Option<u64>, len: u64, flags: i32) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        Self::new(at, len, RW, flags, None)
    }

    /// Addresses that nothing else gets, to map something at the right one of them.
    pub fn room(len: u64) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Self::new(None, len, libc::PROT_NONE, flags, None)
    }

    /// `len` bytes from `offset` on.
    #[must_use]
    pub const fn part(self, offset: u64, len: u64) -> Self {
        Self {
            start: self.start + offset,
            len,
        }
    }

    /// mprotect(2)
    pub fn protect(self, prot: i32) -> Result<()> {
        // SAFETY: memory of this process, accessed by raw pointers only.
        let result = unsafe { libc::mprotect(self.start as *mut _, self.len as usize, prot) };
        Errno::result(result).context("mprotect").map(drop)
    }

    /// madvise(2)
    pub fn advise(self, advice: i32) -> Result<()> {
        // SAFETY: as above; callers rely on no content that the advice may take away.
        let result = unsafe { libc::madvise(self.start as *mut _, self.len as usize, advice) };
        let done = Errno::result(result).map(drop);
        done.with_context(|| format!("madvise({advice}) of {} bytes", self.len))
    }

    /// mlock(2)
    pub fn lock(self) -> Result<()> {
        // SAFETY: it changes no content.
        let result = unsafe { libc::mlock(self.start as *const _, self.len as usize) };
        let done = Errno::result(result).map(drop);
        done.with_context(|| format!("mlock of {} bytes", self.len))
    }

    /// mlock2(2) with MLOCK_ONFAULT: pages are locked as faults map them.
    pub fn lock_on_fault(self) -> Result<()> {
        let (start, len) = (self.start as *const libc::c_void, self.len as usize);
        // SAFETY: it changes no content.
        let result = unsafe { libc::mlock2(start, len, libc::MLOCK_ONFAULT as _) };
        Errno::result(result).context("mlock2").map(drop)
    }

    /// munlock(2)
    pub fn unlock(self) -> Result<()> {
        // SAFETY: as above.
        let result = unsafe { libc::munlock(self.start as *const _, self.len as usize) };
        Errno::result(result).context("munlock").map(drop)
    }

    /// Moves it by mremap(2) to `to`, where nothing is that anybody uses.
    pub fn relocate(self, to: u64) -> Result<Self> {
        let (len, flags) = (self.len as usize, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        // SAFETY: both places are the caller's own.
        let moved = unsafe {
            libc::mremap(
                self.start as *mut _,
                len,
                len,
                flags,
                to as *mut libc::c_void,
            )
        };
        if moved == libc::MAP_FAILED {
            return Err(Errno::last()).context("mremap");
        }
        Ok(Self { start: to, ..self })
    }

    /// munmap(2)
    pub fn unmap(self) -> Result<()> {
        // SAFETY: a mapping of the caller's, which uses it no more.
        let result = unsafe { libc::munmap(self.start as *mut _, self.len as usize) };
        Errno::result(result).context("munmap").map(drop)
    }
}

/// Memory that O_DIRECT takes, unmapped when it is dropped.
#[derive(Debug)]
pub struct Buffer(Mapping);

impl Buffer {
    /// Zeroes.
    pub fn new(len: u64) -> Result<Self> {
        Mapping::anonymous(None, len, 0).map(Self)
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this value's alone and lives as long.
        unsafe { std::slice::from_raw_parts_mut(self.0.start as *mut u8, self.0.len as usize) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.0.unmap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::alone::alone;
    use wideleaf_bench::page_size;

    #[test]
    fn a_mapping_moves_with_what_it_holds() {
        alone(|| {
            let page = page_size();
            let room = Mapping::room(2 * page).unwrap();
            let mapping = Mapping::anonymous(Some(room.start), page, 0).unwrap();
            // SAFETY: inside of the mapping.
            unsafe { (mapping.start as *mut u64).write_volatile(7) };
            let moved = mapping.relocate(room.start + page).unwrap();
            assert_eq!(moved, room.part(page, page));
            // SAFETY: as above.
            assert_eq!(unsafe { (moved.start as *const u64).read_volatile() }, 7);
            moved.unmap().unwrap();
            let error = format!("{:#}", moved.advise(libc::MADV_WILLNEED).unwrap_err());
            assert!(error.starts_with("madvise(3) of "), "{error}");
        });
    }
}
