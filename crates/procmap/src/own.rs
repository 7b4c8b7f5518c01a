// SPDX-License-Identifier: GPL-2.0-only
//! The leaves of this process's own memory, for code that maps a piece of a file to learn what the
//! page cache holds of it.

use crate::Error;
use crate::pagemap::{self, By, CHUNK};
use crate::process::Folder;
use crate::smaps::pmd_mapped;
use std::fs::File;
use std::path::Path;

/// This process's page tables.
pub struct Own {
    folder: Folder,
    pagemap: File,
    page: u64,
}

impl Own {
    /// Opens them; `page` is the base page in bytes.
    ///
    /// # Errors
    ///
    /// If /proc is not there, or not readable.
    pub fn open(page: u64) -> Result<Self, Error> {
        let folder = Folder::open(Path::new("/proc"), std::process::id())?;
        let pagemap = folder.file("pagemap")?;
        Ok(Self {
            folder,
            pagemap,
            page,
        })
    }

    /// Bytes that PMDs map, of the mapping from `start` to `end`.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn wide(&self, start: u64, end: u64) -> Result<u64, Error> {
        let error = |e| self.folder.error("pagemap", e);
        let (mut next, mut wide, mut regions) = (start, 0, Vec::new());
        while next < end {
            if !pagemap::scan(&self.pagemap, &mut next, end, &mut regions).map_err(error)? {
                let of_smaps = pmd_mapped(&self.folder)?.get(&start).copied();
                return Ok(of_smaps.map_or(0, |(anon, file)| anon + file));
            }
            let by_pmd = regions.iter().filter(|region| region.by == By::Pmd);
            wide += by_pmd.map(|region| region.end - region.start).sum::<u64>();
        }
        Ok(wide)
    }

    /// Pages mapped from `start` to `end` that something else maps as well.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn shared(&self, start: u64, end: u64) -> Result<u64, Error> {
        let (mut next, last) = (start / self.page, end / self.page);
        let (mut shared, mut bytes) = (0, Vec::new());
        while next < last {
            let count = CHUNK.min(last - next);
            pagemap::read(&self.pagemap, next, count, &mut bytes)
                .map_err(|e| self.folder.error("pagemap", e))?;
            let entries = pagemap::entries(&bytes);
            shared += entries.filter(|entry| pagemap::shared(*entry)).count() as u64;
            next += count;
        }
        Ok(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_page_that_is_mapped_twice_is_shared() {
        let (page, pmd) = crate::sizes("/sys".as_ref());
        let own = Own::open(page).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; page as usize]).unwrap();
        let map = || {
            use nix::sys::mman::{MapFlags, ProtFlags, mmap};
            let length = (page as usize).try_into().unwrap();
            // SAFETY: a new mapping where the kernel likes.
            let at = unsafe {
                mmap(
                    None,
                    length,
                    ProtFlags::PROT_READ,
                    MapFlags::MAP_SHARED,
                    &file,
                    0,
                )
            };
            let at = at.unwrap().as_ptr() as u64;
            // SAFETY: mapped above, for good.
            unsafe { std::ptr::read_volatile(at as *const u8) };
            at
        };
        let first = map();
        assert_eq!(own.shared(first, first + page).unwrap(), 0);
        map();
        assert_eq!(own.shared(first, first + page).unwrap(), 1);
        assert_eq!(own.wide(first, first + page).unwrap(), 0);
        assert!(pmd > page);
    }
}
