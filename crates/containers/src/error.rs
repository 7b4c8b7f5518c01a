// SPDX-License-Identifier: GPL-2.0-only
//! Runtimes that could not be asked, and containers that are not there.

use std::path::PathBuf;

/// Why something is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket does not answer as the runtime interface does.
    #[error("{}: {why}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A runtime's file cannot be read.
    #[error("{}: {why}", path.display())]
    State {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// No container that runs is meant.
    #[error("no container with {what} {value} is known{known}")]
    None {
        /// The kind of name that was asked for: `the pod`.
        what: &'static str,
        /// The name.
        value: String,
        /// Those that are known, or that there are none.
        known: String,
    },
}
