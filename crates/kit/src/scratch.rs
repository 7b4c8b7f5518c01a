// SPDX-License-Identifier: GPL-2.0-only
//! Temporary folders of one user's runs. Whoever makes one holds a lock in it, so what `kill -9`
//! has left is known by a lock that nobody holds: [`sweep`] removes it.

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Uid;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A private folder, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: Flock<File>,
}

impl Scratch {
    /// Creates a folder below `parent`; [`sweep`] knows it by `kind`, which begins its name.
    ///
    /// # Errors
    ///
    /// If it cannot be created or locked.
    pub fn new(parent: &Path, kind: &str) -> io::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&prefix(kind))
            .tempdir_in(parent)?;
        // Locked before it has its name: sweep(), in another thread or run, takes a lock file that
        // nobody holds for that of a dead owner.
        let unnamed = dir.path().join("lock.new");
        let lock = File::create(&unnamed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        fs::rename(&unnamed, dir.path().join("lock"))?;
        Ok(Self { dir, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Removes the folders of that kind below `parent` whose owner, this user, is gone.
pub fn sweep(parent: &Path, kind: &str) {
    let prefix = prefix(kind);
    for item in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !item.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        // No lock file: another run is between mkdir and lock, or it was
        // killed there, having put nothing into it.
        let Ok(lock) = File::open(item.path().join("lock")) else {
            continue;
        };
        if Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok() {
            let _ = fs::remove_dir_all(item.path());
        }
    }
}

/// How the names of this user's folders begin.
fn prefix(kind: &str) -> String {
    format!("{kind}-{}-", Uid::current())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), "kind").unwrap();
        fs::write(scratch.join("ram"), "x").unwrap();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn sweep_removes_what_a_killed_run_left_and_nothing_in_use() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join(prefix("kind") + "stale");
        let unlocked = parent.path().join(prefix("kind") + "begun");
        let another = parent.path().join(prefix("other") + "stale");
        let foreign = parent.path().join("kind");
        for dir in [&stale, &unlocked, &another, &foreign] {
            fs::create_dir(dir).unwrap();
        }
        for dir in [&stale, &another, &foreign] {
            fs::write(dir.join("lock"), "").unwrap();
        }
        let used = Scratch::new(parent.path(), "kind").unwrap();
        sweep(parent.path(), "kind");
        assert!(!stale.exists());
        for dir in [used.path(), &unlocked, &another, &foreign] {
            assert!(dir.exists(), "{}", dir.display());
        }
    }

    #[test]
    fn folders_made_at_the_same_time_leave_each_other_alone() {
        let parent = tempfile::tempdir().unwrap();
        let make = || {
            for _ in 0..200 {
                sweep(parent.path(), "kind");
                let scratch = Scratch::new(parent.path(), "kind").unwrap();
                fs::write(scratch.join("file"), "x").unwrap();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(make);
            }
        });
    }
}
