// SPDX-License-Identifier: GPL-2.0-only
//! What the file system that holds a file does about its mappings.

use std::fs::File;
use wideleaf_elf::FileSystem;

/// The file system that an open file is on, of those whose answer to a large
/// mmap is known: the users of `thp_get_unmapped_area()` in fs/, and overlayfs,
/// which does not pass the question on.
pub(crate) fn file_system(file: &File) -> Option<FileSystem> {
    const KNOWN: [(i64, &str, bool); 6] = [
        (0xef53, "ext4", true),
        (0x5846_5342, "xfs", true),
        (0x9123_683e, "btrfs", true),
        (0xe0f5_e1e2, "erofs", true),
        (0x6573_5546, "fuse", true),
        (0x794c_7630, "overlay", false),
    ];
    let kind = nix::sys::statfs::fstatfs(file).ok()?.filesystem_type().0;
    let (_, name, aligns) = KNOWN.iter().find(|known| known.0 == kind as i64)?;
    let (name, aligns) = (*name, *aligns);
    Some(FileSystem { name, aligns })
}
