// SPDX-License-Identifier: GPL-2.0-only
//! Finds and reads the files: those named, and with -r all below the
//! directories named, on as many threads as there are CPUs.

use crate::Error;
use crate::file_system::file_system;
use ignore::{DirEntry, WalkBuilder, WalkState};
use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use wideleaf_elf::{Elf, FileSource, FileVerdict, judge};
use wideleaf_stage::{Copies, open_original};

/// A file that was read, and the verdict on it.
pub struct Entry {
    /// As it was named, or found.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Its headers.
    pub elf: Elf,
    /// What they allow.
    pub verdict: FileVerdict,
    /// Whether it is staged, and what was read then.
    pub staged: Staged,
}

/// Whether a copy on huge pages lies over a file, which new processes get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// None.
    No,
    /// One; this is about the original.
    Original,
    /// One, and this is about it: the original below is not ours to see.
    Copy,
}

/// Everything that was found.
#[derive(Default)]
pub struct Found {
    /// Programs and libraries, named ones first, as named.
    pub entries: Vec<Entry>,
    /// What could not be read, and why.
    pub errors: Vec<(PathBuf, Error)>,
    /// ELF files that no program loader loads: objects, core dumps, debug files.
    pub not_loadable: u64,
    /// Other names of files that were already read.
    pub same: u64,
    /// Positions in `entries`.
    seen: HashMap<Identity, usize>,
    named: HashSet<Identity>,
}

/// Reads the files named; directories only if `recursive`.
pub fn collect(paths: &[PathBuf], recursive: bool, one_file_system: bool) -> Found {
    let copies = Copies::look();
    let mut found = Found::default();
    let mut directories = Vec::new();
    for path in paths {
        match named(path, recursive, &copies) {
            Ok(None) => directories.push(path),
            Ok(Some((identity, entry))) => {
                found.named.insert(identity);
                found.seen.insert(identity, found.entries.len());
                found.entries.push(entry);
            }
            Err(error) => found.errors.push((path.clone(), error)),
        }
    }
    let named_errors = found.errors.len();
    let named = found.entries.len();
    if let Some((first, rest)) = directories.split_first() {
        let mut walk = WalkBuilder::new(first);
        for directory in rest {
            walk.add(directory);
        }
        walk.standard_filters(false)
            .follow_links(false)
            .same_file_system(one_file_system)
            .threads(std::thread::available_parallelism().map_or(1, usize::from))
            .filter_entry(|entry| !is_kernel_interface(entry));
        found = walk_into(&walk, found, &copies);
    }
    // Threads finish in any order.
    found.entries[named..].sort_by(|a, b| a.path.cmp(&b.path));
    found.errors[named_errors..].sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Reads a file that was named. `None` is a directory to walk.
fn named(
    path: &Path,
    recursive: bool,
    copies: &Copies,
) -> Result<Option<(Identity, Entry)>, Error> {
    // Looked at before it is opened: opening a device may start something, and
    // a FIFO would wait for a writer.
    let kind = path.metadata()?.file_type();
    let what = match kind {
        _ if kind.is_file() => return read(path, open(path, 0)?, copies).map(Some),
        _ if kind.is_dir() && recursive => return Ok(None),
        _ if kind.is_dir() => return Err(Error::Directory),
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_block_device() => "a block device",
        _ => "a character device",
    };
    Err(Error::Kind(what))
}

fn open(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// /proc, /sys and /dev, wherever they are mounted: reading files there does
/// things, and none is a program.
fn is_kernel_interface(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    if !["proc", "sys", "dev"].iter().any(|known| name == *known) {
        return false;
    }
    nix::sys::statfs::statfs(entry.path()).is_ok_and(|fs| {
        let kind = fs.filesystem_type();
        kind == nix::sys::statfs::PROC_SUPER_MAGIC
            || kind == nix::sys::statfs::SYSFS_MAGIC
            || entry.path() == Path::new("/dev")
    })
}

fn walk_into(walk: &WalkBuilder, found: Found, copies: &Copies) -> Found {
    let found = Mutex::new(found);
    walk.build_parallel().run(|| {
        Box::new(|entry| {
            match entry {
                Ok(entry) => {
                    if entry.file_type().is_some_and(|kind| kind.is_file()) {
                        visit(entry.path(), &found, copies);
                    }
                }
                Err(error) => {
                    let path = walk_error_path(&error).unwrap_or_default();
                    let error = error.into_io_error();
                    let error = error.unwrap_or_else(|| io::Error::other("cannot be walked"));
                    lock(&found).errors.push((path, error.into()));
                }
            }
            WalkState::Continue
        })
    });
    found.into_inner().expect("no worker panics")
}

fn lock(found: &Mutex<Found>) -> std::sync::MutexGuard<'_, Found> {
    found.lock().expect("no worker panics")
}

fn walk_error_path(error: &ignore::Error) -> Option<PathBuf> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path.clone()),
        ignore::Error::WithDepth { err, .. } => walk_error_path(err),
        ignore::Error::Partial(errors) => errors.iter().find_map(walk_error_path),
        _ => None,
    }
}

/// Looks at one file of a directory. What is not ELF, which is most files, is
/// passed over without a word after its first bytes; reading headers happens
/// outside the lock.
fn visit(path: &Path, found: &Mutex<Found>, copies: &Copies) {
    let file = match open(path, libc::O_NOFOLLOW) {
        Ok(file) if !has_magic(&file) => return,
        other => other.map_err(Error::from),
    };
    match file.and_then(|file| read(path, file, copies)) {
        Ok((_, entry)) if entry.elf.segments.is_empty() => lock(found).not_loadable += 1,
        Ok((identity, entry)) => lock(found).insert(identity, entry),
        Err(error) => lock(found).errors.push((path.to_path_buf(), error)),
    }
}

/// Whether it starts as ELF files do. What cannot be read is said to, so that
/// reading it again says why.
fn has_magic(file: &File) -> bool {
    let mut magic = [0; 4];
    match file.read_at(&mut magic, 0) {
        Ok(_) => magic == *b"\x7fELF",
        Err(_) => true,
    }
}

/// Device and inode number: what tells files apart.
type Identity = (u64, u64);

/// Reads the headers of an open file and judges it.
fn read(path: &Path, file: File, copies: &Copies) -> Result<(Identity, Entry), Error> {
    let (file, staged) = match copies.cover(path) {
        false => (file, Staged::No),
        true => match open_original(path) {
            Ok(original) => (original, Staged::Original),
            Err(_) => (file, Staged::Copy),
        },
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Error::NotRegular);
    }
    let file_system = file_system(&file);
    let mut elf = Elf::read(&FileSource::with_size(file, metadata.len()))?;
    elf.file_system = file_system;
    let entry = Entry {
        path: path.to_path_buf(),
        size: metadata.len(),
        verdict: judge(&elf),
        elf,
        staged,
    };
    Ok(((metadata.dev(), metadata.ino()), entry))
}

impl Found {
    /// Takes in a file from a directory, once whatever its number of names:
    /// the first name in alphabetical order stays.
    fn insert(&mut self, identity: Identity, entry: Entry) {
        match self.seen.entry(identity) {
            Slot::Vacant(slot) => {
                slot.insert(self.entries.len());
                self.entries.push(entry);
            }
            Slot::Occupied(slot) => {
                self.same += 1;
                let known = &mut self.entries[*slot.get()];
                if !self.named.contains(&identity) && entry.path < known.path {
                    known.path = entry.path;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A real program: this one.
    fn program(path: &Path) {
        std::fs::copy(std::env::current_exe().unwrap(), path).unwrap();
    }

    fn names(found: &Found) -> Vec<&str> {
        let names = found.entries.iter().map(|e| e.path.file_name().unwrap());
        names.map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn a_directory_gives_each_program_once_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        program(&at("b"));
        std::fs::hard_link(at("b"), at("a")).unwrap();
        symlink(at("b"), at("link")).unwrap();
        symlink("/", at("root")).unwrap();
        std::fs::write(at("script"), "#!/bin/sh\n").unwrap();
        std::fs::write(at("empty"), "").unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        program(&at("sub/c"));
        let found = collect(&[dir.path().into()], true, false);
        assert_eq!(names(&found), ["a", "c"]);
        assert_eq!((found.same, found.errors.len()), (1, 0));
    }

    #[test]
    fn what_is_no_program_is_reported_if_it_was_named_and_the_rest_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        program(&at("good"));
        std::fs::write(at("script"), "#!/bin/sh\n").unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let paths = ["missing", "fifo", "script", "good", "."].map(at);
        let paths = [&paths[..], &["/dev/null".into()]].concat();
        let found = collect(&paths, false, false);
        assert_eq!(names(&found), ["good"]);
        let text: Vec<String> = found.errors.iter().map(|(_, e)| e.to_string()).collect();
        let expected = [
            "No such file",
            "is a FIFO",
            "not an ELF file: starts with 23 21 2f 62",
            "use -r",
            "is a character device",
        ];
        for (text, expected) in text.iter().zip(expected) {
            assert!(text.contains(expected), "{text} / {expected}");
        }
        assert_eq!(text.len(), expected.len());
    }

    #[test]
    fn a_damaged_program_below_a_directory_is_an_error_and_no_end() {
        let dir = tempfile::tempdir().unwrap();
        program(&dir.path().join("good"));
        let whole = std::fs::read(dir.path().join("good")).unwrap();
        std::fs::write(dir.path().join("cut"), &whole[..5000]).unwrap();
        let found = collect(&[dir.path().into()], true, false);
        assert_eq!(names(&found), ["good"]);
        let [(path, error)] = &found.errors[..] else {
            panic!("one error: {:?}", found.errors);
        };
        let text = error.to_string();
        assert!(
            path.ends_with("cut") && text.contains("truncated"),
            "{text}"
        );
    }
}
