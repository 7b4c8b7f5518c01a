// SPDX-License-Identifier: GPL-2.0-only
//! Files over which a copy on huge pages lies, for commands that want the original.

use crate::journal::is_aside;
use crate::mounts::all;
use crate::original::clone_mount;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The files of this mount namespace that `stage` or `run` has put a copy over.
#[derive(Clone, Debug, Default)]
pub struct Copies(HashSet<PathBuf>);

impl Copies {
    /// Looks at the table of mounts; one that cannot be read has none.
    pub fn look() -> Self {
        let mut covered = HashSet::new();
        // Oldest first: the last mount on a file is the one that is seen.
        for mount in all().unwrap_or_default() {
            match mount.is_ours() && !is_aside(&mount.point) {
                true => covered.insert(mount.point),
                false => covered.remove(&mount.point),
            };
        }
        Self(covered)
    }

    /// Whether a copy lies over this file, by whatever name.
    pub fn cover(&self, path: &Path) -> bool {
        !self.0.is_empty() && path.canonicalize().is_ok_and(|path| self.0.contains(&path))
    }
}

/// Opens the file below a copy.
///
/// # Errors
///
/// The kernel's reason: `EPERM` without CAP_SYS_ADMIN.
pub fn open_original(path: &Path) -> io::Result<File> {
    let path = path.canonicalize()?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = clone_mount(folder)?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(folder.as_fd(), name, flags, Mode::empty())?.into())
}
