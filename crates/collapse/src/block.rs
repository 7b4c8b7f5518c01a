// SPDX-License-Identifier: GPL-2.0-only
//! A piece of a file, mapped as a program loader maps text, where a PMD can
//! map it.

use crate::{Refusal, own};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Mapped readable and executable until it is dropped.
pub struct Blocks {
    /// The mapping, and the address space around it that was left over.
    start: NonNull<c_void>,
    room: usize,
    /// A multiple of the PMD's size.
    address: usize,
    length: usize,
    pmd: usize,
}

impl Blocks {
    /// Maps `length` bytes of a file from `offset` on, privately, at a multiple
    /// of `pmd`, the PMD's size. All in bytes; `length` is a multiple of `pmd`,
    /// `offset` of the page.
    ///
    /// # Errors
    ///
    /// mmap's reason: `EPERM` on a file system mounted noexec.
    pub fn of_text(file: impl AsFd, offset: u64, length: u64, pmd: u64) -> Result<Self, Errno> {
        Self::map(file, offset, length, pmd, MapFlags::MAP_PRIVATE)
    }

    /// The same, with flags.
    pub(crate) fn map(
        file: impl AsFd,
        offset: u64,
        length: u64,
        pmd: u64,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        let small = |n: u64| usize::try_from(n).map_err(|_| Errno::EINVAL);
        let (length, pmd) = (small(length)?, small(pmd)?);
        let size = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
        let room = size.checked_add(pmd).ok_or(Errno::EINVAL)?;
        let offset = offset.try_into().map_err(|_| Errno::EINVAL)?;
        let reserve = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new mapping where the kernel likes.
        let start = unsafe { mmap_anonymous(None, room, ProtFlags::PROT_NONE, reserve) }?;
        let blocks = Self {
            start,
            room: room.get(),
            address: (start.as_ptr() as usize).next_multiple_of(pmd),
            length,
            pmd,
        };
        // SAFETY: within the reservation, of which nothing is used.
        unsafe {
            mmap(
                NonZeroUsize::new(blocks.address),
                size,
                ProtFlags::PROT_READ | ProtFlags::PROT_EXEC,
                flags | MapFlags::MAP_FIXED,
                file,
                offset,
            )
        }?;
        Ok(blocks)
    }

    /// Where it is mapped.
    pub fn address(&self) -> u64 {
        self.address as u64
    }

    /// Reads a byte of each block: one fault each where a PMD maps it. The file
    /// must reach as far; otherwise the kernel sends SIGBUS.
    pub fn touch(&self) {
        for block in (self.address..self.address + self.length).step_by(self.pmd) {
            // SAFETY: mapped readable for as long as this value lives.
            unsafe { std::ptr::read_volatile(block as *const u8) };
        }
    }

    /// Asks for all of it by MADV_COLLAPSE.
    ///
    /// # Errors
    ///
    /// The kernel's reason, for the last block that it refused.
    pub fn collapse(&self) -> Result<(), Refusal> {
        own(self.address as u64, self.length as u64)
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: `mmap_anonymous` gave exactly this, and nothing points into it.
        let _ = unsafe { munmap(self.start, self.room) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const PMD: u64 = 2 << 20;

    #[test]
    fn what_is_mapped_is_the_files_and_goes_with_the_value() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 8192]).unwrap();
        file.set_len(4096 + 2 * PMD).unwrap();
        let blocks = Blocks::of_text(&file, 4096, 2 * PMD, PMD).unwrap();
        assert_eq!(blocks.address() % PMD, 0);
        blocks.touch();
        // SAFETY: mapped, see above.
        let bytes = [0, 4096].map(|at| unsafe { *((blocks.address + at) as *const u8) });
        assert_eq!(bytes, [1, 0]);
        let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
        let mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let lines = maps.lines().filter(|l| l.contains(&format!(" {inode} ")));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(mapped()[0].contains("r-xp"), "{:?}", mapped());
        drop(blocks);
        assert!(mapped().is_empty(), "{:?}", mapped());
    }

    #[test]
    fn no_length_and_odd_offsets_are_refused() {
        let file = tempfile::tempfile().unwrap();
        for (offset, length) in [(0, 0), (1, PMD), (u64::MAX, PMD), (0, u64::MAX)] {
            let refused = Blocks::of_text(&file, offset, length, PMD).err();
            assert!(refused.is_some(), "{offset} {length}");
        }
    }
}
