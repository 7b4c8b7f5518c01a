// SPDX-License-Identifier: GPL-2.0-only
//! Mounting, unmounting, and what is mounted.

use crate::Error;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use procfs::process::{MountInfo, Process};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What the tmpfs is called in the table of mounts.
pub(crate) const SOURCE: &str = "wideleaf";
const NOTHING: Option<&str> = None;

/// All mounts of this namespace, oldest first.
pub(crate) fn all() -> Result<Vec<MountInfo>, Error> {
    let wrong = |error: procfs::ProcError| Error::Io {
        what: "cannot read /proc/self/mountinfo".into(),
        error: std::io::Error::other(error),
    };
    let mounts = Process::myself().and_then(|me| me.mountinfo());
    Ok(mounts.map_err(wrong)?.0)
}

/// The tmpfs mounted on a folder, if it is ours.
pub(crate) fn tmpfs(folder: &Path) -> Result<Option<MountInfo>, Error> {
    let ours = |m: &MountInfo| {
        plain(&m.mount_point) == folder
            && m.fs_type == "tmpfs"
            && m.mount_source.as_deref() == Some(SOURCE)
    };
    Ok(all()?.into_iter().rev().find(ours))
}

/// Mounts a tmpfs of huge pages, at a place where no program looks.
pub(crate) fn mount_tmpfs(folder: &Path, size: u64) -> Result<(), Error> {
    let options = format!("huge=always,mode=0755,size={size}");
    let flags = MsFlags::MS_NODEV;
    let what = format!(
        "cannot mount a tmpfs with huge=always on {} (needs root)",
        folder.display()
    );
    mount(Some(SOURCE), folder, Some("tmpfs"), flags, Some(&*options)).map_err(Error::io(what))
}

/// Makes the tmpfs's own mount, and so all binds made of it, read-only or not.
/// A copy that somebody could write to would hide that the original was not.
pub(crate) fn set_writable(folder: &Path, writable: bool) -> Result<(), Error> {
    let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_NODEV;
    flags.set(MsFlags::MS_RDONLY, !writable);
    let what = format!("cannot change the flags of {}", folder.display());
    mount(NOTHING, folder, NOTHING, flags, NOTHING).map_err(Error::io(what))
}

/// Changes the limit of the tmpfs.
pub(crate) fn resize_tmpfs(folder: &Path, size: u64) -> Result<(), Error> {
    let options = format!("size={size}");
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NODEV;
    let what = format!("cannot set the size of {}", folder.display());
    mount(NOTHING, folder, NOTHING, flags, Some(&*options)).map_err(Error::io(what))
}

/// Binds a copy over a file: one call, before which the path names the
/// original and after which it names the copy, read-only as the tmpfs is.
pub(crate) fn bind(copy: &Path, path: &Path) -> Result<(), Error> {
    let what = format!("cannot bind the copy over {}", path.display());
    mount(Some(copy), path, NOTHING, MsFlags::MS_BIND, NOTHING).map_err(Error::io(what))
}

/// Takes a mount away. Processes that use it keep it until they end.
pub(crate) fn unmount(path: &Path) -> Result<(), Error> {
    let what = format!("cannot unmount {} (needs root)", path.display());
    umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW).map_err(Error::io(what))
}

/// The mounts on a file, oldest first: whether each is the bind of this copy.
pub(crate) fn binds(mounts: &[MountInfo], copy: &str, path: &Path) -> Vec<bool> {
    let on = mounts.iter().filter(|m| plain(&m.mount_point) == path);
    let ours = |m: &MountInfo| {
        let root = plain(Path::new(&m.root));
        let root = root.to_string_lossy();
        let name = root.strip_suffix("//deleted").unwrap_or(&root);
        m.fs_type == "tmpfs"
            && m.mount_source.as_deref() == Some(SOURCE)
            && name.strip_prefix('/') == Some(copy)
    };
    on.map(ours).collect()
}

/// A path as the kernel escapes it there: `\040` is a space.
pub(crate) fn plain(escaped: &Path) -> PathBuf {
    let bytes = escaped.as_os_str().as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = digits.and_then(|d| std::str::from_utf8(d).ok());
        match code.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_mountinfo_are_undone() {
        for (escaped, expected) in [
            (r"/a\040b", "/a b"),
            (r"/a\134", r"/a\"),
            (r"/a\9", r"/a\9"),
        ] {
            assert_eq!(plain(Path::new(escaped)), Path::new(expected));
        }
    }
}
