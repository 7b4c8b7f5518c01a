// SPDX-License-Identifier: GPL-2.0-only
//! Exclusive locks between runs.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// An exclusive lock, held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
}

impl AsFd for Lock {
    /// The lock's file. A process that inherits a duplicate holds the lock as
    /// well, for as long as it lives if we are killed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Lock {
    /// Takes `<dir>/<name>.lock`. The file stays: removing it would let a
    /// waiter and a newcomer lock two different files of one name.
    pub(crate) fn take(dir: &Path, name: &str, waiting: impl FnOnce()) -> Result<Self> {
        let path = dir.join(format!("{name}.lock"));
        let what = || format!("cannot lock {}", path.display());
        let file = match Flock::lock(open(dir, &path)?, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((file, Errno::EWOULDBLOCK)) => {
                waiting();
                Flock::lock(file, FlockArg::LockExclusive)
                    .map_err(|(_, errno)| errno)
                    .with_context(what)?
            }
            Err((_, errno)) => return Err(errno).with_context(what),
        };
        Ok(Self { file })
    }

    /// Takes `<dir>/<name>.lock` unless another run holds it.
    pub(crate) fn try_take(dir: &Path, name: &str) -> Result<Option<Self>> {
        let path = dir.join(format!("{name}.lock"));
        match Flock::lock(open(dir, &path)?, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self { file })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => {
                Err(errno).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}

fn open(dir: &Path, path: &Path) -> Result<File> {
    let open = || {
        fs::create_dir_all(dir)?;
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
    };
    open().with_context(|| format!("cannot lock {}", path.display()))
}
