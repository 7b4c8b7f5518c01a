// SPDX-License-Identifier: GPL-2.0-only
//! Finds ELF files, reads and judges them, and sums up: what `inspect` does, without its words and
//! pictures.
//!
//! | module | reason to exist |
//! |---|---|
//! | `collect` | the files that are named, and those below folders |
//! | `file_system` | what their file systems do about mappings |
//! | `process` | the files of a process's text |
//! | `summary` | sums over all of them |

mod collect;
mod error;
mod file_system;
mod process;
mod summary;

pub use collect::{Entry, Found, Staged, collect};
pub use error::Error;
pub use file_system::file_system;
pub use process::text_files;
pub use summary::{Share, Summary, summary};
