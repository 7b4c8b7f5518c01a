// SPDX-License-Identifier: GPL-2.0-only
//! Debian's archive: which version of a package there is, and packages with all that they depend
//! on, downloaded into the cache. apt checks signatures; root is not needed, and nothing of the
//! system's configuration changes.

pub mod apt;
mod packages;
mod source;

pub use packages::{Packages, libraries};
pub use source::source_file;
