// SPDX-License-Identifier: GPL-2.0-only
//! Puts a new file in the place of another in one step, with all that belongs
//! to the old one. Until then the new file has no name, where the file system
//! can do that: a process that is killed leaves nothing.

use crate::Refusal;
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, Timespec, Timestamps, XattrFlags, linkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Hashes and signatures of a file's content: wrong for any other content.
pub(crate) const CONTENT_XATTRS: [&str; 2] = ["security.ima", "security.evm"];

/// A file on its way to a name.
pub(crate) struct NewFile {
    pub(crate) file: File,
    target: PathBuf,
    temporary: PathBuf,
    /// Whether the temporary name exists.
    named: bool,
}

impl NewFile {
    /// Makes an empty file that will get the name `target`.
    pub(crate) fn beside(target: &Path) -> Result<NewFile, Refusal> {
        let folder = folder(target);
        let stem = temporary_stem(target);
        remove_stale(&folder, &stem);
        let temporary = folder.join(format!("{stem}{}", std::process::id()));
        let (file, named) = create(&folder, &temporary).map_err(Refusal::io(format!(
            "cannot create a file in {}",
            folder.display()
        )))?;
        let new = NewFile {
            file,
            target: target.to_path_buf(),
            temporary,
            named,
        };
        // Tells a later run that the temporary name, if any, is in use.
        let lock = FlockOperation::NonBlockingLockExclusive;
        // File systems without locks only lose that.
        let _ = rustix::fs::flock(&new.file, lock);
        Ok(new)
    }

    /// Gives it the name, over whatever has it now.
    pub(crate) fn commit(mut self) -> Result<(), Refusal> {
        let named = |what: &str, path: &Path| format!("cannot {what} {}", path.display());
        self.file
            .sync_all()
            .map_err(Refusal::io(named("write", &self.target)))?;
        if !self.named {
            link_open(&self.file, &self.temporary)
                .map_err(Refusal::io(named("create", &self.temporary)))?;
            self.named = true;
        }
        fs::rename(&self.temporary, &self.target)
            .map_err(Refusal::io(named("replace", &self.target)))?;
        self.named = false;
        sync_folder(&folder(&self.target));
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.named {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What temporary names for a file begin with: short whatever its own length.
fn temporary_stem(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default();
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!(".wideleaf-new-{}-", &hash[..16])
}

/// Without a name if possible, else with the temporary one.
fn create(folder: &Path, temporary: &Path) -> io::Result<(File, bool)> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let private = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags, private) {
        Ok(file) if Path::new("/proc/self/fd").exists() => return Ok((file.into(), false)),
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(temporary, flags, private)?;
    Ok((file.into(), true))
}

fn link_open(file: &File, name: &Path) -> Result<(), Errno> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, open.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW)
}

/// Removes what a run that was killed has left: nobody holds its lock.
fn remove_stale(folder: &Path, stem: &str) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().as_bytes().starts_with(stem.as_bytes()) {
            continue;
        }
        let lock = FlockOperation::NonBlockingLockExclusive;
        let stale = File::open(entry.path()).is_ok_and(|f| rustix::fs::flock(&f, lock).is_ok());
        if stale {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes renames last; what cannot be synced was still renamed.
pub(crate) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Replaces a further name of the old file by a name of the new one.
pub(crate) fn relink(new: &Path, name: &Path) -> Result<(), Refusal> {
    let temporary = folder(name).join(format!("{}{}", temporary_stem(name), std::process::id()));
    fs::hard_link(new, &temporary)
        .and_then(|()| fs::rename(&temporary, name))
        .map_err(|error| {
            let _ = fs::remove_file(&temporary);
            Refusal::io(format!("cannot replace {}", name.display()))(error)
        })?;
    sync_folder(&folder(name));
    Ok(())
}

/// Gives a file the owner, mode, extended attributes (capabilities and ACLs
/// are such) and times of another.
///
/// # Errors
///
/// If one of them cannot be had: a file that lost its capability would not work.
pub(crate) fn copy_attributes(old: &File, new: &File, metadata: &Metadata) -> Result<(), Refusal> {
    copy_owner_and_mode(new, metadata)?;
    for (name, value) in xattrs(old).map_err(Refusal::io("cannot read extended attributes"))? {
        if !CONTENT_XATTRS.contains(&&*name.to_string_lossy()) {
            set_xattr(new, &name, &value)?;
        }
    }
    copy_times(new, metadata)
}

fn copy_owner_and_mode(new: &File, metadata: &Metadata) -> Result<(), Refusal> {
    let (uid, gid) = (metadata.uid(), metadata.gid());
    let now = new
        .metadata()
        .map_err(Refusal::io("cannot look at the new file"))?;
    if (now.uid(), now.gid()) != (uid, gid) {
        std::os::unix::fs::fchown(new, Some(uid), Some(gid)).map_err(Refusal::io(format!(
            "cannot keep the owner {uid}:{gid} (run as root or as that user)"
        )))?;
    }
    // After the owner, whose change takes away setuid.
    let mode = metadata.mode() & 0o7777;
    rustix::fs::fchmod(new, Mode::from_raw_mode(mode))
        .map_err(Refusal::io(format!("cannot keep the mode {mode:o}")))
}

fn set_xattr(new: &File, name: &CStr, value: &[u8]) -> Result<(), Refusal> {
    if get_xattr(new, name).is_ok_and(|now| now == value) {
        return Ok(());
    }
    let text = name.to_string_lossy();
    rustix::fs::fsetxattr(new, name, value, XattrFlags::empty()).map_err(Refusal::io(format!(
        "cannot keep the extended attribute {text} (run as root)"
    )))
}

/// Gives a file what decides who may run another one, and its times: for a
/// copy on a file system that does not hold every attribute.
///
/// # Errors
///
/// If one of them cannot be had.
pub fn copy_rights(old: &File, new: &File) -> Result<(), Refusal> {
    const RIGHTS: [&str; 3] = [
        "security.capability",
        "security.selinux",
        "system.posix_acl_access",
    ];
    let metadata = old
        .metadata()
        .map_err(Refusal::io("cannot look at the file"))?;
    copy_owner_and_mode(new, &metadata)?;
    for (name, value) in xattrs(old).map_err(Refusal::io("cannot read extended attributes"))? {
        if RIGHTS.contains(&&*name.to_string_lossy()) {
            set_xattr(new, &name, &value)?;
        }
    }
    copy_times(new, &metadata)
}

fn copy_times(new: &File, metadata: &Metadata) -> Result<(), Refusal> {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    rustix::fs::futimens(new, &times).map_err(Refusal::io("cannot keep the times"))
}

/// All extended attributes that can be seen, in order.
pub(crate) fn xattrs(file: &File) -> io::Result<Vec<(CString, Vec<u8>)>> {
    let names = match grow(|buffer| rustix::fs::flistxattr(file, buffer)) {
        Ok(names) => names,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let names = names.split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    let value = |name: &CStr| Ok((name.to_owned(), get_xattr(file, name)?));
    names.map(value).collect()
}

fn get_xattr(file: &File, name: &CStr) -> Result<Vec<u8>, Errno> {
    grow(|buffer| rustix::fs::fgetxattr(file, name, buffer))
}

/// Calls with a buffer that is large enough: the kernel's limit is 64K.
fn grow(call: impl Fn(&mut Vec<u8>) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 64 << 10];
    let size = call(&mut buffer)?;
    buffer.truncate(size);
    Ok(buffer)
}

/// The name that a backup of a file gets.
pub(crate) fn backup_name(path: &Path, suffix: &OsString) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}
