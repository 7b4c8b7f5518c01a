// SPDX-License-Identifier: GPL-2.0-only
//! What a file is besides its bytes, and what changing these would break.

use crate::Refusal;
use crate::replace::{CONTENT_XATTRS, backup_name, xattrs};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Refuses what should not be changed without a word.
pub(crate) fn check(file: &File, metadata: &Metadata, force: bool) -> Result<(), Refusal> {
    let refuse = |text: &str| Err(Refusal::Protected(text.to_string()));
    let kind = metadata.mode() & 0o6000;
    if kind != 0 && !force {
        let what = match kind {
            0o4000 => "setuid",
            0o2000 => "setgid",
            _ => "setuid and setgid",
        };
        return refuse(&format!("is {what}: --force aligns it all the same"));
    }
    let signed = content_xattrs(file)?;
    if !signed.is_empty() && !force {
        return refuse(&format!(
            "is signed by its extended attribute {}, which would not fit any more: --force drops it",
            signed.join(" and ")
        ));
    }
    let attributes = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    let attributes = attributes.map_or(StatxAttributes::empty(), |s| s.stx_attributes);
    if attributes.contains(StatxAttributes::VERITY) && !force {
        return refuse(
            "is protected by fs-verity, which the new file would not be: --force aligns it all the same",
        );
    }
    Ok(())
}

/// Refuses a file that something is mounted over: what is read is not what a
/// rename would replace, and the kernel refuses that.
pub(crate) fn check_no_mount(file: &File) -> Result<(), Refusal> {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    let attributes = found.map_or(StatxAttributes::empty(), |s| s.stx_attributes);
    match attributes.contains(StatxAttributes::MOUNT_ROOT) {
        false => Ok(()),
        true => Err(Refusal::Protected(
            "is covered by another file that is mounted over it, as `wideleaf stage` does: \
             `wideleaf unstage` it, or umount, first"
                .into(),
        )),
    }
}

/// Attributes that no rename gets past.
pub(crate) fn check_replaceable(file: &File) -> Result<(), Refusal> {
    let attributes = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    let attributes = attributes.map_or(StatxAttributes::empty(), |s| s.stx_attributes);
    for (flag, letter, name) in [
        (StatxAttributes::IMMUTABLE, 'i', "immutable"),
        (StatxAttributes::APPEND, 'a', "append-only"),
    ] {
        if attributes.contains(flag) {
            return Err(Refusal::Protected(format!(
                "is {name}: chattr -{letter} first"
            )));
        }
    }
    Ok(())
}

fn content_xattrs(file: &File) -> Result<Vec<String>, Refusal> {
    let all = xattrs(file).map_err(Refusal::io("cannot read extended attributes"))?;
    let names = all
        .iter()
        .map(|(name, _)| name.to_string_lossy().into_owned());
    Ok(names.filter(|n| CONTENT_XATTRS.contains(&&n[..])).collect())
}

/// Who has a checksum of the file's bytes, which will not fit any more.
pub(crate) fn broken_signatures(path: &Path, file: &File) -> Vec<String> {
    let mut broken = content_xattrs(file).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // FIPS modules check themselves: GnuTLS and RHEL's OpenSSL by .hmac files, NSS by .chk.
    let beside = [
        format!(".{name}.hmac"),
        format!("{name}.hmac"),
        format!("fipscheck/{name}.hmac"),
        format!("{}.chk", name.strip_suffix(".so").unwrap_or(&name)),
    ];
    let beside = beside.iter().map(|name| path.with_file_name(name));
    broken.extend(
        beside
            .filter(|p| p.exists())
            .map(|p| p.display().to_string()),
    );
    broken
}

/// All names of a file with several, found among those given and in their folders.
///
/// # Errors
///
/// If there are more names than were found.
pub(crate) fn all_names(
    path: &Path,
    metadata: &Metadata,
    given: &[PathBuf],
) -> Result<Vec<PathBuf>, Refusal> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for name in given.iter().map(PathBuf::as_path).chain([path]) {
        let folder = wideleaf_kit::fresh::folder(name);
        if let Ok(folder) = folder.canonicalize()
            && !folders.contains(&folder)
        {
            folders.push(folder);
        }
    }
    let same = |m: &Metadata| (m.dev(), m.ino()) == (metadata.dev(), metadata.ino());
    let mut names = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(&folder)
            .map_err(Refusal::io(format!("cannot read {}", folder.display())))?;
        let paths = entries.flatten().map(|entry| entry.path());
        names.extend(paths.filter(|p| p.symlink_metadata().is_ok_and(|m| same(&m))));
    }
    match names.len() as u64 == metadata.nlink() {
        true => Ok(names),
        false => Err(Refusal::Protected(format!(
            "has {} names (hard links), of which {} were found: name the others, too, or a file in their folders",
            metadata.nlink(),
            names.len()
        ))),
    }
}

/// Whether a backup of this very file is there already, left by a run that was
/// killed before it replaced the file.
///
/// # Errors
///
/// If another file has the backup's name.
pub(crate) fn has_backup(
    path: &Path,
    metadata: &Metadata,
    suffix: &OsString,
) -> Result<bool, Refusal> {
    let name = backup_name(path, suffix);
    match name.symlink_metadata() {
        Ok(m) if (m.dev(), m.ino()) == (metadata.dev(), metadata.ino()) => Ok(true),
        Ok(_) => Err(Refusal::Protected(format!(
            "its backup {} exists already: move it away or choose another --backup=SUFFIX",
            name.display()
        ))),
        Err(_) => Ok(false),
    }
}
