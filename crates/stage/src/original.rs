// SPDX-License-Identifier: GPL-2.0-only
//! The file below a bind.

use crate::Identity;
use nix::sys::stat::fstatat;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Looks at a file as if nothing were mounted on it: in a copy of its folder's
/// mount, which has none of the mounts on it and no place of its own.
pub(crate) fn look_below(path: &Path) -> io::Result<Identity> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = clone_mount(folder)?;
    let stat = fstatat(
        folder.as_fd(),
        name,
        nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
    )?;
    Ok(Identity {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: stat.st_size as u64,
        modified: (stat.st_mtime, stat.st_mtime_nsec),
    })
}

/// open_tree(2), Linux 5.2, without AT_RECURSIVE.
pub(crate) fn clone_mount(folder: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(folder.as_os_str().as_bytes())?;
    let flags = nix::libc::OPEN_TREE_CLONE | nix::libc::OPEN_TREE_CLOEXEC;
    // SAFETY: the name is a C string that outlives the call; the kernel only reads it.
    let result = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_open_tree,
            nix::libc::AT_FDCWD,
            name.as_ptr(),
            flags,
        )
    };
    match i32::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
