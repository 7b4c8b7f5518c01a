// SPDX-License-Identifier: GPL-2.0-only
//! Which leaves the segments of an ELF file could be mapped by, and why not
//! wider ones.
//!
//! Two steps, apart: [`Elf::read`] takes from a file the few headers that say
//! how it is loaded and who linked it, a handful of small reads whatever the
//! file's size; [`judge`] turns these into a [`Verdict`] for each segment, with
//! the cause in words and the linker flags that remove it ([`fix`]). Neither
//! prints, opens files or knows of kernels: what a given kernel would do with
//! the segments is another crate's to say.
//!
//! A *leaf* is what a TLB caches as one entry. *Congruent at L* means
//! `(address − offset) mod L == 0`: only then do the file's folios of size L
//! lie at addresses where one leaf can map them.

mod error;
mod explain;
mod filesystem;
mod fix;
mod join;
mod layout;
mod linker;
mod loadable;
mod machine;
mod placement;
mod read;
#[cfg(test)]
mod samples;
mod sections;
mod source;
mod verdict;

pub use error::Error;
pub use explain::explain;
pub use filesystem::FileSystem;
pub use fix::{Fix, fix};
pub use join::{Join, join};
pub use layout::{Congruence, LEAVES, Segment, align_down, align_up};
pub use linker::{Evidence, Linker, LinkerName};
pub use machine::{Class, Machine, Order};
pub use placement::Placement;
pub use read::{Elf, Kind, Packer};
pub use sections::SectionFacts;
pub use source::{FileSource, Source};
pub use verdict::{Cause, FileVerdict, Verdict, judge};

/// A 2 MiB leaf: the PMD of 4K pages, the contiguous PTEs of 16K and 64K ones.
/// The kernel series never go wider.
pub const LEAF_2M: u64 = 2 << 20;
