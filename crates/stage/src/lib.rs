// SPDX-License-Identifier: GPL-2.0-only
//! Puts aligned copies of programs and libraries on a tmpfs of huge pages and
//! binds them over the originals: every process started afterwards maps its
//! text by 2M leaves and shares them with all others.
//!
//! A bind is one system call: at each moment a path names the original or the
//! whole copy. A journal that is written before anything is mounted, and says
//! which entries are complete, lets the next command undo what a killed one
//! began.

mod cgroup;
mod copies;
mod dpkg;
mod error;
mod journal;
mod libs;
mod mounts;
mod original;
mod paths;
mod stage;
mod units;
mod users;

pub use copies::{Copies, open_original};
pub use dpkg::affected;
pub use error::Error;
pub use journal::{Identity, Phase, Staged};
pub use libs::{libraries, listed};
pub use stage::{Health, Listed, Listing, Request, Skipped, Stage, Summary};
pub use units::{apt_hook, drop_in, unit};
