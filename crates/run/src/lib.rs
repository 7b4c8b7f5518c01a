// SPDX-License-Identifier: GPL-2.0-only
//! Starts a program in this process's place with its text mapped by wide leaves, by the best means
//! that the machine allows; without any, as it is.
//!
//! | module | reason to exist |
//! |---|---|
//! | `widen` | one means after the other |
//! | `fill` | the file itself, read into wide folios |
//! | `namespace` | copies on a huge tmpfs in a mount namespace |
//! | `cache` | MADV_COLLAPSE in the page cache |
//! | `tunable` | glibc's own way, for libraries |
//! | `program` | the file: where it is, whether anything can be done for it |
//! | `lookout` | whether what it loads while it runs is watched |
//! | `inherited` | what the process was started with |
//! | `exec` | the program takes its place |

mod cache;
mod error;
mod exec;
mod fill;
mod inherited;
mod lookout;
mod means;
mod namespace;
mod program;
mod tunable;
mod widen;

pub use error::{Error, Refused, Unfit};
pub use exec::exec;
pub use lookout::Lookout;
pub use means::Means;
pub use program::{beside, find};
pub use tunable::{TUNABLE, has_tunable};
pub use widen::{By, Done, Request, Wide, widen};
