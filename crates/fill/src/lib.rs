// SPDX-License-Identifier: GPL-2.0-only
//! Wide leaves for files as they are, in place: a block of text that the page cache holds in small
//! folios is dropped and read again, by a fault in a mapping with `MADV_HUGEPAGE`, which has the
//! kernel read it into one folio. Every process that maps the block afterwards, at a congruent
//! address, has one leaf for it.
//!
//! Dropped are only clean pages that nothing maps, of the block that is read next, so that killing
//! this leaves at most one block less in the page cache.
//!
//! | module | reason to exist |
//! |---|---|
//! | `text` | a file, and which blocks of its text a leaf could map |
//! | `files` | which files processes map, and programs load |
//! | `image` | which files are in a container image |
//! | `texts` | the files that were meant, read |
//! | `cache` | what the page cache holds of a block, and the calls that change it |
//! | `block` | one block: what it is, how it becomes one folio |
//! | `narrow` | the way back, for comparisons |
//! | `limits` | what may be taken and read, and for how long |
//! | `act` | block by block |
//! | `error` | why a file is not looked at, why a block stays |

mod act;
mod block;
mod cache;
mod error;
mod files;
mod image;
mod limits;
mod narrow;
mod text;
mod texts;

pub use act::{Filled, Left, Plan, act, look};
pub use block::{Found, Geometry};
pub use error::{Error, Why};
pub use files::{Chosen, of_processes, of_program};
pub use image::ImageError;
pub use limits::{Budget, Limits};
pub use narrow::{forget, narrow};
pub use text::Text;
pub use texts::Texts;
