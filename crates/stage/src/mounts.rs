// SPDX-License-Identifier: GPL-2.0-only
//! Mounting, unmounting, and what is mounted.

use crate::Error;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What the tmpfs is called in the table of mounts.
const SOURCE: &str = "wideleaf";
const NOTHING: Option<&str> = None;

/// A line of /proc/self/mountinfo, whose paths are bytes: the crate procfs reads text only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    id: OsString,
    parent: OsString,
    /// Which part of the file system is mounted.
    pub(crate) root: PathBuf,
    /// Where.
    pub(crate) point: PathBuf,
    /// Whether it passes on what is mounted on it, as systemd's root does.
    shared: bool,
    /// Type of the file system.
    pub(crate) kind: OsString,
    source: OsString,
    /// Options of the file system.
    pub(crate) options: OsString,
}

/// All mounts of this namespace, oldest first.
pub(crate) fn all() -> Result<Vec<Mount>, Error> {
    let what = "cannot read /proc/self/mountinfo";
    let text = std::fs::read("/proc/self/mountinfo").map_err(Error::io(what))?;
    Ok(text
        .split(|b| *b == b'\n')
        .filter_map(Mount::read)
        .collect())
}

impl Mount {
    /// `id parent device root point options [tag...] - type source options`
    fn read(line: &[u8]) -> Option<Mount> {
        let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
        let dash = 6 + fields.get(6..)?.iter().position(|f| *f == b"-")?;
        let after = |n: usize| Some(plain(fields.get(dash + n)?).into_os_string());
        Some(Mount {
            id: plain(fields[0]).into(),
            parent: plain(fields[1]).into(),
            root: plain(fields[3]),
            point: plain(fields[4]),
            shared: fields[6..dash].iter().any(|f| f.starts_with(b"shared:")),
            kind: after(1)?,
            source: after(2)?,
            options: after(3)?,
        })
    }

    /// Whether it is of the tmpfs, or a bind of one of its copies.
    pub(crate) fn is_ours(&self) -> bool {
        self.kind == "tmpfs" && self.source == SOURCE
    }
}

/// The tmpfs mounted on a folder, if it is ours.
pub(crate) fn tmpfs(folder: &Path) -> Result<bool, Error> {
    let mounts = all()?;
    Ok(mounts.iter().any(|m| m.point == folder && m.is_ours()))
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

/// Moves a mount, with all that processes have of it, to another file: they see that name then.
pub(crate) fn move_to(path: &Path, place: &Path) -> Result<(), Error> {
    let what = format!("cannot move the copy over {} aside", path.display());
    mount(Some(path), place, NOTHING, MsFlags::MS_MOVE, NOTHING).map_err(Error::io(what))
}

/// Whether the kernel lets the mount on this path be moved: not from below a shared one.
pub(crate) fn can_move(mounts: &[Mount], path: &Path) -> bool {
    let top = mounts.iter().rev().find(|m| m.point == path);
    let parent = top.and_then(|top| mounts.iter().find(|m| m.id == top.parent));
    parent.is_some_and(|parent| !parent.shared)
}

/// Whether anything is mounted there.
pub(crate) fn is_mounted(mounts: &[Mount], path: &Path) -> bool {
    mounts.iter().any(|m| m.point == path)
}

/// The mounts on a file, oldest first: whether each is the bind of this copy.
pub(crate) fn binds(mounts: &[Mount], copy: &str, path: &Path) -> Vec<bool> {
    let on = mounts.iter().filter(|m| m.point == path);
    let ours = |m: &Mount| {
        let root = m.root.to_string_lossy();
        let name = root.strip_suffix("//deleted").unwrap_or(&root);
        m.is_ours() && name.strip_prefix('/') == Some(copy)
    };
    on.map(ours).collect()
}

/// The mount points of overlays that have this file in one of their layers.
pub(crate) fn overlays_over(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    let layers = |m: &Mount| {
        let options = m.options.as_bytes().split(|b| *b == b',');
        let lower = options.filter_map(|o| {
            let value = o.strip_prefix(b"lowerdir=".as_slice());
            value.or_else(|| o.strip_prefix(b"lowerdir+=".as_slice()))
        });
        let lower = lower.flat_map(|all| all.split(|b| *b == b':'));
        let lower: Vec<PathBuf> = lower
            .map(|l| OsString::from_vec(l.to_vec()).into())
            .collect();
        lower
    };
    let holds = |layer: &PathBuf| layer.canonicalize().is_ok_and(|l| path.starts_with(l));
    let over = |m: &&Mount| m.kind == "overlay" && layers(m).iter().any(holds);
    mounts
        .iter()
        .filter(over)
        .map(|m| m.point.clone())
        .collect()
}

/// A path as the kernel escapes it there: `\040` is a space.
fn plain(bytes: &[u8]) -> PathBuf {
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
    fn a_name_that_is_not_utf8_is_read_as_it_is() {
        let line =
            b"36 35 0:39 /1-2-a\xff /bin/a\xff ro,nodev shared:1 - tmpfs wideleaf rw,huge=always";
        let mount = Mount::read(line).unwrap();
        assert_eq!(mount.point.as_os_str().as_bytes(), b"/bin/a\xff");
        assert!(mount.is_ours() && mount.shared);
        assert_eq!(Mount::read(b""), None);
    }

    #[test]
    fn escapes_of_mountinfo_are_undone() {
        for (escaped, expected) in [
            (r"/a\040b", "/a b"),
            (r"/a\134", r"/a\"),
            (r"/a\9", r"/a\9"),
        ] {
            assert_eq!(plain(escaped.as_bytes()), Path::new(expected));
        }
    }
}
