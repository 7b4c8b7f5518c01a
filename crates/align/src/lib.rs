// SPDX-License-Identifier: GPL-2.0-only
//! Rewrites a linked ELF file so that every loadable segment is congruent at a
//! leaf's size: file offsets move, addresses and contents stay.
//!
//! Asked to, it first makes code and the constants beside it one segment.
//!
//! Three steps, apart: [`plan()`] decides from the headers where each byte
//! goes; writing copies runs of bytes, sparsely, and reads all of it back;
//! replacing gives the new file the old one's owner, mode, attributes, times
//! and name in one step. A note behind the file tells how to undo it.
//!
//! `object` reads the headers and knows their fields; its builder is not used,
//! as it keeps only what a section names. Here bytes that nobody names move
//! with their neighbours.

mod align;
mod copy;
mod gain;
mod headers;
mod merge;
mod note;
mod plan;
mod protect;
mod refusal;
mod replace;
mod tree;
mod write;

pub use align::{HardLinks, Options, Report, Status, Target, align, restore};
pub use copy::{copy, copy_mapped};
pub use gain::{could_gain, could_gain_merged};
pub use plan::{Moved, Plan, Run, is_aligned, plan};
pub use refusal::Refusal;
pub use replace::copy_rights;
pub use tree::{Found, Wanted, find};
