// SPDX-License-Identifier: GPL-2.0-only
//! Kernel sources, configurations, patch series and builds.
//!
//! [`ensure`] takes a [`Spec`] and gives a [`Kernel`] that boots: it fetches
//! Debian's source package, unpacks it once per base and version into a work
//! tree, switches the tree between pristine and patched, composes the
//! configuration from fragments and builds. The finished kernel is a cache
//! entry, found again as long as nothing that went into it changed.
//!
//! Work says what it does through [`Events`]; nothing here draws.

mod apt;
mod build;
pub mod checkpatch;
pub mod config;
mod counts;
mod dir;
mod events;
mod make;
pub mod packages;
pub mod preflight;
mod scratch;
pub mod selftests;
pub mod series;
pub mod source;
mod spec;
#[cfg(test)]
mod testing;
mod tool;
mod worktree;

pub use build::{configuration, cross, ensure, find};
pub use dir::{ENV, KernelDir};
pub use events::{Event, Events};
pub use make::Interrupted;
pub use spec::{Arch, Base, Kernel, PageSize, Spec, Unknown, Variant};
pub use worktree::WorkTree;
