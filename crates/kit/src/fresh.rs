// SPDX-License-Identifier: GPL-2.0-only
//! Files that take the place of others in one step. Until then a new file has no name, where
//! the file system can do that: a process that is killed leaves nothing.

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, linkat};
use rustix::io::Errno;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file on its way to a name.
#[derive(Debug)]
pub struct Fresh {
    file: File,
    temporary: PathBuf,
    /// Whether the temporary name exists.
    named: bool,
}

/// Why a file did not get its name.
#[derive(Debug)]
pub struct NotReplaced {
    /// The step that failed, and the file.
    pub what: String,
    /// How it failed.
    pub error: io::Error,
}

impl fmt::Display for NotReplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl std::error::Error for NotReplaced {}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> NotReplaced {
    let what = format!("cannot {what} {}", path.display());
    move |error| NotReplaced { what, error }
}

impl Fresh {
    /// Makes an empty file, which only this user may open, in the folder of `target`.
    ///
    /// # Errors
    ///
    /// If none can be created there.
    pub fn beside(target: &Path) -> io::Result<Fresh> {
        let folder = folder(target);
        let stem = temporary_stem(target);
        remove_stale(&folder, &stem);
        let temporary = temporary(target);
        let (file, named) = create(&folder, &temporary)?;
        let fresh = Fresh {
            file,
            temporary,
            named,
        };
        // Tells a later run that the temporary name, if any, is in use.
        let lock = FlockOperation::NonBlockingLockExclusive;
        // File systems without locks only lose that.
        let _ = rustix::fs::flock(&fresh.file, lock);
        Ok(fresh)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it a name in its folder, over whatever has it now. It is on the disk when this
    /// returns.
    ///
    /// # Errors
    ///
    /// If it cannot be had; what was there before is there still.
    pub fn replace(mut self, target: &Path) -> Result<(), NotReplaced> {
        self.file.sync_all().map_err(failed("write", target))?;
        if !self.named {
            let linked = link_open(&self.file, &self.temporary);
            linked.map_err(|errno| failed("create", &self.temporary)(errno.into()))?;
            self.named = true;
        }
        fs::rename(&self.temporary, target).map_err(failed("replace", target))?;
        self.named = false;
        sync_folder(&folder(target));
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.named {
            let _ = fs::remove_file(&self.temporary);
        }
        // Closing alone leaves the lock to a child that another thread has forked meanwhile.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Makes `name` another name of the file `new`, over whatever has it now.
///
/// # Errors
///
/// If it cannot be had; what was there before is there still.
pub fn relink(new: &Path, name: &Path) -> Result<(), NotReplaced> {
    let temporary = temporary(name);
    fs::hard_link(new, &temporary)
        .and_then(|()| fs::rename(&temporary, name))
        .map_err(|error| {
            let _ = fs::remove_file(&temporary);
            failed("replace", name)(error)
        })?;
    sync_folder(&folder(name));
    Ok(())
}

/// The folder that a file is in.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Makes renames last; what cannot be synced was still renamed.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// The beginning of temporary names for a file: short whatever its own length.
fn temporary_stem(target: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    target.file_name().hash(&mut hasher);
    format!(".wideleaf-new-{:016x}-", hasher.finish())
}

fn temporary(target: &Path) -> PathBuf {
    folder(target).join(format!("{}{}", temporary_stem(target), std::process::id()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_with_its_name_is_not_locked_whoever_has_it_open_still() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("file");
        let fresh = Fresh::beside(&target).unwrap();
        // As a child has it between fork(2) and execve(2).
        let child = fresh.file.try_clone().unwrap();
        let lock = FlockOperation::NonBlockingLockExclusive;
        fresh.replace(&target).unwrap();
        rustix::fs::flock(File::open(&target).unwrap(), lock).unwrap();
        drop(child);
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_takes_the_place_of_another_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        let stale = dir.path().join(temporary_stem(&path) + "1");
        fs::write(&stale, "left by a run that was killed").unwrap();
        let fresh = Fresh::beside(&path).unwrap();
        fresh.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        fresh.replace(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        drop(Fresh::beside(&path).unwrap());
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_name_that_cannot_be_had_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir(&path).unwrap();
        let refused = Fresh::beside(&path).unwrap().replace(&path).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("cannot replace") && text.contains("folder"),
            "{text}"
        );
        assert!(Fresh::beside(&dir.path().join("none/file")).is_err());
        fs::write(dir.path().join("new"), "").unwrap();
        assert!(relink(&dir.path().join("new"), &path).is_err());
        assert_eq!(names(dir.path()), ["folder", "new"]);
    }
}
