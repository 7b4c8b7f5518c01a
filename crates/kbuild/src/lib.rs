// SPDX-License-Identifier: GPL-2.0-only
//! Kernel sources, configurations, patch series and builds.
//!
//! [`ensure`] takes a [`Spec`] and gives a [`Kernel`] that boots: it fetches
//! Debian's source package, unpacks it once per base and version into a work
//! tree, switches the tree between pristine and patched, composes the
//! configuration from fragments and builds. The finished kernel is a cache
//! entry, found again as long as nothing that went into it changed.
//!
//! [`Commit`]s of somebody's own git tree are built the same way, without a package.
//!
//! Work says what it does through [`wideleaf_kit::events`]; nothing here draws.

mod author;
mod base;
mod build;
mod ccache;
pub mod checkpatch;
mod commit;
pub mod config;
mod counts;
mod dir;
mod distribution;
pub mod fault;
mod git;
mod image_fault;
pub mod import;
mod kconfig;
mod mail;
mod make;
mod narrow;
mod options;
mod overlay;
mod place;
pub mod preflight;
mod scratch;
pub mod selftests;
pub mod series;
pub mod source;
mod spec;
mod stack;
mod step;
#[cfg(test)]
mod testing;
pub mod toolchain;
mod variant;
mod worktree;

pub use author::Author;
pub use base::Base;
pub use build::{configuration, ensure, find, key};
pub use commit::Commit;
pub use dir::{ENV, KernelDir, SeriesDir};
pub use distribution::{Distribution, Flavour};
pub use fault::{Fault, faults};
pub use make::Interrupted;
pub use spec::{Kernel, Spec};
pub use stack::Stack;
pub use step::Step;
pub use variant::{SeriesName, Variant};
pub use wideleaf_kit::arch::{Arch, PageSize, Unknown};
pub use worktree::WorkTree;
