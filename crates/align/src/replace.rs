// SPDX-License-Identifier: GPL-2.0-only
//! Gives the file that takes the place of another all that belongs to the old one.

use crate::Refusal;
use rustix::fs::{Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wideleaf_kit::fresh::{Fresh, NotReplaced, folder};

/// Hashes and signatures of a file's content: wrong for any other content.
pub(crate) const CONTENT_XATTRS: [&str; 2] = ["security.ima", "security.evm"];

/// Makes an empty file that will get the name `target`.
pub(crate) fn beside(target: &Path) -> Result<Fresh, Refusal> {
    Fresh::beside(target).map_err(Refusal::io(format!(
        "cannot create a file in {}",
        folder(target).display()
    )))
}

/// Why a file did not get its name.
pub(crate) fn not_replaced(failed: NotReplaced) -> Refusal {
    let NotReplaced { what, error } = failed;
    Refusal::Io { what, error }
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
