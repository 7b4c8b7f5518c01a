// SPDX-License-Identifier: GPL-2.0-only
//! The libraries that programs load while they run (dlopen), which no header names: a run is
//! watched once, and the next one knows them.
//!
//! | module | reason to exist |
//! |---|---|
//! | `memory` | the file that is remembered in |
//! | `identity` | what makes a program the same program |
//! | `follow` | one process is looked at until it ends |
//! | `watch` | a process of ours that does so beside the program |

mod error;
mod follow;
mod identity;
mod memory;
mod watch;

pub use error::Error;
pub use follow::{Patience, follow};
pub use identity::Program;
pub use memory::{Known, Memory};
pub use watch::watch;

use std::path::{Path, PathBuf};

/// The libraries that a program is known to load while it runs. A memory that cannot be read is
/// one that holds nothing.
pub fn remembered(program: &Path) -> Vec<PathBuf> {
    let known = Memory::of_user().and_then(|memory| memory.known(&Program::read(program)?));
    match known {
        Ok(Known::Libraries(libraries)) => libraries,
        Ok(Known::Nothing) | Err(_) => Vec::new(),
    }
}
