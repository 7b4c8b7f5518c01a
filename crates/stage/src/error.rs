// SPDX-License-Identifier: GPL-2.0-only
//! What can be in the way. Each says what would be right.

use std::io;
use std::path::{Path, PathBuf};

/// Why something was not staged or unstaged. What was begun is undone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be aligned or read.
    #[error("{}: {why}", printable(path))]
    File {
        /// The program or library.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Nothing is left to stage.
    #[error("nothing to stage: no file named gains a 2M leaf (--always stages them all the same)")]
    Nothing,
    /// Processes would lose the name of their text.
    #[error(
        "{}: is used by {}, which perf and debuggers could not name afterwards, because the kernel \
         moves no mount from below a shared one: end them first, or unstage it with --force",
        printable(path),
        processes(pids)
    )]
    InUse {
        /// The program or library.
        path: PathBuf,
        /// The processes.
        pids: Vec<u32>,
    },
    /// The limit on the tmpfs is too small.
    #[error("the copies need {needed} of huge pages, --size is {size}")]
    Size {
        /// In words.
        needed: String,
        /// In words.
        size: String,
    },
    /// The limit on memory is too small.
    #[error("the copies and their making need {needed} of memory, --memory is {memory}")]
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

fn printable(path: &Path) -> String {
    wideleaf_kit::names::printable(&path.to_string_lossy())
}

fn processes(pids: &[u32]) -> String {
    let named: Vec<String> = pids.iter().take(8).map(u32::to_string).collect();
    let more = match pids.len().saturating_sub(8) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("process {}{more}", named.join(", "))
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
