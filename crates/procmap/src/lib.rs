// SPDX-License-Identifier: GPL-2.0-only
//! Which leaves map a process's text, read from `/proc`.
//!
//! [`Reader`] goes through one process at a time: mappings from `maps`, what
//! is mapped and by PMDs from `pagemap` (PAGEMAP_SCAN where the kernel has
//! it, `smaps` where it has not), folios from the page frame numbers and
//! `/proc/kpageflags`. The root is a parameter, so tests and containers can
//! look at another tree than `/proc`.
//!
//! Memory use does not depend on the size of the process: pages are sorted as
//! they are read.

mod classify;
#[cfg(test)]
mod classify_tests;
mod coverage;
mod flags;
pub mod linear;
mod maps;
mod own;
mod pagemap;
mod process;
mod reader;
#[cfg(test)]
mod reader_tests;
mod smaps;

pub use classify::Sink;
pub use coverage::{Coverage, Extent, FolioBytes, Folios, Leaf, Mapping, Process, Sight};
pub use maps::{Vma, mappings};
pub use own::Own;
pub use reader::{Reader, Scope, Select, Within, sizes};

use std::io;
use std::path::{Path, PathBuf};

/// Why a process could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It ended, before or while it was read.
    #[error("{}: no such process", path.display())]
    Gone {
        /// What was being read.
        path: PathBuf,
    },
    /// Reading it needs a privilege.
    #[error("{}: permission denied", path.display())]
    Denied {
        /// What was being read.
        path: PathBuf,
    },
    /// Anything else that went wrong with a file.
    #[error("{}: {source}", path.display())]
    Read {
        /// What was being read.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A line that no kernel writes.
    #[error("{}:{line}: not a line of a memory map: {text:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// The line, shortened.
        text: String,
    },
}

impl Error {
    fn from_io(path: &Path, source: io::Error) -> Self {
        const ESRCH: i32 = 3;
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Gone { path },
            _ if source.raw_os_error() == Some(ESRCH) => Self::Gone { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path },
            _ => Self::Read { path, source },
        }
    }
}
