// SPDX-License-Identifier: GPL-2.0-only
//! What can be in the way. Each says what would be right.

use std::io;
use std::path::PathBuf;

/// Why something was not staged or unstaged. What was begun is undone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be aligned or read.
    #[error("{}: {why}", path.display())]
    File {
        /// The program or library.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Nothing is left to stage.
    #[error("nothing to stage: no file named gains a 2M leaf (--always stages them all the same)")]
    Nothing,
    /// The limit on the tmpfs is too small.
    #[error("the copies need {needed} of huge pages, --size is {size}")]
    Size {
        /// In words.
        needed: String,
        /// In words.
        size: String,
    },
    /// The limit on memory is too small.
    #[error("the copies need {needed} of memory, --memory is {memory}")]
    Memory {
        /// In words.
        needed: String,
        /// In words.
        memory: String,
    },
    /// The kernel does not do huge pages for files in memory.
    #[error("{0}")]
    Kernel(String),
    /// A memory limit that cannot be set.
    #[error("--memory cannot be kept: {0}")]
    Cgroup(String),
    /// Staged where this process does not see it.
    #[error(
        "{} was made in another mount namespace: run it there, or remove that file if the namespace is gone",
        .0.display()
    )]
    Namespace(PathBuf),
    /// The journal makes no sense.
    #[error("{}: {why}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// How it failed.
        error: io::Error,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |error| Error::Io {
            what,
            error: error.into(),
        }
    }
}
