// SPDX-License-Identifier: GPL-2.0-only
//! Finds the files of a folder that are worth aligning: a root file system that becomes an image.
//! No symbolic link is followed, for it leads to files of the machine, not of the folder.

use crate::note::is_marked;
use crate::{could_gain, could_gain_merged};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wideleaf_elf::{Elf, FileSource};

/// Which files are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those whose text 2M leaves could map more of.
    Gaining,
    /// Those whose text they could map more of, also if code and constants become one segment.
    GainingMerged,
    /// All that are loaded by segments.
    All,
    /// Those that were aligned, with the note that undoing it needs.
    Aligned,
}

/// The outcome of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// Files, each by all its names that were found, in order.
    pub files: Vec<Vec<PathBuf>>,
    /// Programs and libraries that were looked at.
    pub looked_at: usize,
    /// Files and folders that could not be read.
    pub errors: Vec<(PathBuf, io::Error)>,
    /// Folders that something else is mounted on, which were passed over.
    pub mounts: Vec<PathBuf>,
}

/// Finds the files below `root` that are wanted, judged for an overlay as by
/// [`Options::overlay`](crate::Options).
pub fn find(root: &Path, wanted: Wanted, overlay: bool) -> Found {
    let mut found = Found::default();
    let device = match root.metadata() {
        Ok(metadata) => metadata.dev(),
        Err(error) => {
            found.errors.push((root.to_owned(), error));
            return found;
        }
    };
    let mut files: BTreeMap<(u64, u64), Vec<PathBuf>> = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.unwrap_or_else(|error| {
            found.errors.push((folder, error));
            Vec::new()
        });
        for entry in entries {
            let path = entry.path();
            let metadata = match path.symlink_metadata() {
                Ok(metadata) => metadata,
                // Removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    found.errors.push((path, error));
                    continue;
                }
            };
            // Of files on overlayfs the device may be that of a layer.
            if metadata.is_dir() && metadata.dev() != device {
                found.mounts.push(path);
            } else if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() {
                let names = files.entry((metadata.dev(), metadata.ino())).or_default();
                names.push(path);
            }
        }
    }
    for (_, mut names) in files {
        names.sort();
        match look(&names[0], wanted, overlay) {
            Ok(None) => {}
            Ok(Some(is_wanted)) => {
                found.looked_at += 1;
                found.files.extend(is_wanted.then_some(names));
            }
            Err(error) => found.errors.push((names.swap_remove(0), error)),
        }
    }
    found.files.sort();
    found.errors.sort_by(|a, b| a.0.cmp(&b.0));
    found.mounts.sort();
    found
}

/// Whether a file is wanted; None if no loader loads it.
fn look(path: &Path, wanted: Wanted, overlay: bool) -> io::Result<Option<bool>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(flags.bits() as i32);
    let file = options.open(path)?;
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    if magic != *b"\x7fELF" {
        return Ok(None);
    }
    let marked = is_marked(&file)?;
    let elf = read(file)?;
    Ok(elf
        .map(|elf| if overlay { elf.on_overlay() } else { elf })
        .filter(|elf| !elf.segments.is_empty())
        .map(|elf| match wanted {
            Wanted::Gaining => could_gain(&elf),
            Wanted::GainingMerged => could_gain_merged(&elf),
            Wanted::All => true,
            Wanted::Aligned => marked,
        }))
}

/// Its headers; None if they are damaged, as those of tests may be: nothing loads it.
fn read(file: File) -> io::Result<Option<Elf>> {
    match Elf::read(&FileSource::new(file)?) {
        Ok(elf) => Ok(Some(elf)),
        Err(wideleaf_elf::Error::Io(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_found_once_with_all_their_names_and_no_link_is_followed() {
        let outside = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        fs::copy(&program, outside.path().join("other")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("usr/bin")).unwrap();
        fs::copy(&program, at("usr/bin/b")).unwrap();
        fs::hard_link(at("usr/bin/b"), at("usr/bin/a")).unwrap();
        fs::hard_link(at("usr/bin/b"), at("c")).unwrap();
        symlink(outside.path(), at("out")).unwrap();
        symlink("b", at("usr/bin/link")).unwrap();
        fs::write(at("script"), "#!/bin/sh\n").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("damaged"), "\x7fELF and no more").unwrap();
        let found = find(dir.path(), Wanted::All, true);
        let expected = ["c", "usr/bin/a", "usr/bin/b"].map(at).to_vec();
        assert_eq!((&found.files[..], found.looked_at), (&[expected][..], 1));
        assert!(found.errors.is_empty() && found.mounts.is_empty());
        assert!(find(dir.path(), Wanted::Aligned, true).files.is_empty());
        assert_eq!(find(&at("none"), Wanted::All, true).errors.len(), 1);
    }
}
