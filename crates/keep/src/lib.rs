// SPDX-License-Identifier: GPL-2.0-only
//! Keeps the text of programs, services and container images wide: pass after pass, each of which
//! looks at the page cache and mends what has become narrow.
//!
//! A pass has no state that another one needs: killing it leaves nothing to undo, and two that run
//! do the same work once.
//!
//! | module | reason to exist |
//! |---|---|
//! | `config` | the file that says what to keep |
//! | `in_vain` | files whose file system seems to have no wide folios |
//! | `pass` | one look at all of it, and the means |
//! | `change` | a line for each change since the last pass |
//! | `gauges` | the same for Prometheus |
//! | `edits` | files of the system that `enable` changes and `disable` restores |
//! | `systemd` | the setting of a service that lets its text be wide |

mod change;
mod config;
mod edits;
mod gauges;
mod in_vain;
mod pass;
mod systemd;

pub use change::Changes;
pub use config::{Config, ConfigError, Means};
pub use edits::{Edit, EditError, apply, differences, pending, restore};
pub use gauges::render;
pub use in_vain::InVain;
pub use pass::{Kept, Pass, pass};
pub use systemd::{DROP_IN, MemoryThp, drop_in_path, unit};
