// SPDX-License-Identifier: GPL-2.0-only
//! Errors of the file that is remembered in.

use std::io;
use std::path::PathBuf;

/// Why nothing is remembered. A program can be started all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no place for the file.
    #[error("neither XDG_STATE_HOME nor HOME is an absolute path, so no libraries are remembered")]
    NoFolder,
    /// Something else has written it, or a disk has lost a part of it.
    #[error(
        "{}: {why}: it is ignored, and replaced when libraries are remembered next; it may be removed",
        path.display()
    )]
    Garbage {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The system's reason.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// How it failed.
        error: io::Error,
    },
}
