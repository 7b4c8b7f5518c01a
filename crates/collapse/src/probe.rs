// SPDX-License-Identifier: GPL-2.0-only
//! Asks the kernel instead of guessing by its version: maps a block of a file
//! as a program loader would, asks for a collapse, takes the mapping away.

use crate::Refusal;
use crate::act::gently;
use crate::block::Blocks;
use nix::sys::mman::MapFlags;
use std::fs::File;

/// Whether the kernel collapses the first block of `pmd` bytes of a file, as
/// text. The block is read into the page cache and stays there, as one folio if
/// the answer is yes; nothing else is left.
///
/// # Errors
///
/// The kernel's reason: `EINVAL` too for a file that is smaller than a block,
/// `EPERM` on a file system mounted noexec.
pub fn probe(file: &File, pmd: u64) -> Result<(), Refusal> {
    map_and_collapse(file, pmd, MapFlags::MAP_PRIVATE)
}

/// The same for shared memory, by a file of its own that has no name.
///
/// # Errors
///
/// The kernel's reason.
pub fn probe_shared_memory(pmd: u64) -> Result<(), Refusal> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let file = File::from(memfd_create(c"wideleaf-probe", MFdFlags::MFD_CLOEXEC)?);
    nix::unistd::ftruncate(&file, pmd as i64)?;
    // A block that is nothing but a hole is refused.
    nix::sys::uio::pwrite(&file, &[1], 0)?;
    map_and_collapse(&file, pmd, MapFlags::MAP_SHARED)
}

fn map_and_collapse(file: &File, pmd: u64, flags: MapFlags) -> Result<(), Refusal> {
    let blocks = Blocks::map(file, 0, pmd, pmd, flags)?;
    // 6.1 refuses a block of which no page was mapped yet. Behind the end of a file there is
    // none to be touched.
    if file.metadata().is_ok_and(|metadata| metadata.len() >= pmd) {
        blocks.touch();
    }
    // Pages that were just read may be busy still.
    gently(|| blocks.collapse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    const PMD: u64 = 2 << 20;

    fn has_thp() -> bool {
        let shmem = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
        std::fs::read_to_string(shmem).is_ok_and(|modes| !modes.contains("[deny]"))
    }

    #[test]
    fn shared_memory_can_be_collapsed_where_the_kernel_has_thp() {
        if !has_thp() {
            eprintln!("SKIPPED: this kernel has no transparent huge pages");
            return;
        }
        match probe_shared_memory(PMD) {
            Ok(()) => {}
            // Memory that is scarce, or in pieces.
            Err(why) => assert!(
                matches!(why.0, Errno::ENOMEM | Errno::EBUSY | Errno::EAGAIN),
                "{why}"
            ),
        }
    }

    #[test]
    fn a_file_without_a_whole_block_is_refused_and_nothing_stays_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(probe(&file, PMD).is_err());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
        assert!(!maps.contains(&format!(" {inode} ")), "{maps}");
    }
}
