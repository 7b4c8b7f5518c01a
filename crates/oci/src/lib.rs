// SPDX-License-Identifier: GPL-2.0-only
//! Container images as files: OCI layouts, and archives of them and of `docker save`. Aligns the
//! programs and libraries in an image that gain by it, and puts these into one new layer on top:
//! the layers below stay as they are, and so does everything else that an image says of itself.
//!
//! `tar` knows the headers of a layer's archive, `flate2` and `ruzstd` the compression (the latter
//! in Rust alone: the command is static, for two architectures), `sha2` the digests. Indexes,
//! manifests and configurations stay JSON values, so that fields that are unknown here are kept:
//! types of a library would drop them.

mod align;
mod archive;
mod compose;
mod decode;
mod digest;
mod docker;
mod document;
mod error;
mod files;
mod folder;
mod gather;
mod image;
mod layer;
mod layout;
mod members;
mod options;
pub mod report;
mod store;
mod tree;

pub use align::align;
pub use error::Error;
pub use options::Options;
pub use report::Report;
