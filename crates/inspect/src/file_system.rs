// SPDX-License-Identifier: GPL-2.0-only
//! What the file system that holds a file does about its mappings.

use procfs::process::{MountInfo, Process};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use wideleaf_elf::FileSystem;

/// Those that align: the users of `thp_get_unmapped_area()` in fs/. overlayfs does not pass the
/// question on.
const KNOWN: [(i64, &str, bool); 6] = [
    (0xef53, "ext4", true),
    (0x5846_5342, "xfs", true),
    (0x9123_683e, "btrfs", true),
    (0xe0f5_e1e2, "erofs", true),
    (0x6573_5546, "fuse", true),
    (0x794c_7630, "overlay", false),
];

/// What is said of one that /proc does not name.
const NAMELESS: FileSystem = FileSystem {
    name: "its file system",
    aligns: false,
};

/// The file system that an open file is on. One that is not known to align mappings aligns none.
pub fn file_system(file: &File) -> Option<FileSystem> {
    let kind = nix::sys::statfs::fstatfs(file).ok()?.filesystem_type().0;
    let known = KNOWN.iter().find(|known| known.0 == kind as i64);
    Some(match known {
        Some(&(_, name, aligns)) => FileSystem { name, aligns },
        None => mounted(file).unwrap_or(NAMELESS),
    })
}

/// By the mount that the file was opened in.
fn mounted(file: &File) -> Option<FileSystem> {
    static ALL: OnceLock<HashMap<i32, FileSystem>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mounts = Process::myself().and_then(|me| me.mountinfo());
        let mounts = mounts.map_or(Vec::new(), |mounts| mounts.0);
        mounts.iter().map(|m| (m.mnt_id, of_mount(m))).collect()
    });
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    all.get(&id.trim().parse().ok()?).copied()
}

/// A tmpfs aligns where it may have huge pages: mm/shmem.c, `shmem_get_unmapped_area()`.
fn of_mount(mount: &MountInfo) -> FileSystem {
    let huge = mount.super_options.get("huge").and_then(Option::as_deref);
    let huge = huge.is_some_and(|huge| huge != "never");
    FileSystem {
        // Of as many as there are mounts, once.
        name: mount.fs_type.clone().leak(),
        aligns: mount.fs_type == "tmpfs" && huge,
    }
}
