// SPDX-License-Identifier: GPL-2.0-only
//! The result of aligning images.

use serde::Serialize;
use std::path::PathBuf;

/// The result for the images of a layout or archive.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// One for each image.
    pub images: Vec<Image>,
    /// Entries that were left as they are, unread.
    pub left: Vec<Left>,
}

/// An image.
#[derive(Debug, Serialize)]
pub struct Image {
    /// Its names, where it has any: tags.
    pub names: Vec<String>,
    /// Operating system and architecture, as `linux/amd64`.
    pub platform: String,
    /// The digest of its manifest, where it has one.
    pub manifest_before: Option<String>,
    /// The digest of its new manifest, if there is one.
    pub manifest_after: Option<String>,
    /// The new layer, if there is one.
    pub layer: Option<Layer>,
    /// Programs and libraries that could gain.
    pub files: Vec<File>,
    /// Digests of manifests that are about the old one: signatures, bills of materials.
    pub about_old: Vec<String>,
}

/// A new layer.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// The digest of the file.
    pub digest: String,
    /// Its bytes.
    pub size: u64,
    /// The digest of the archive in it.
    pub diff_id: String,
    /// Its bytes.
    pub unpacked: u64,
}

/// A program or library of an image.
#[derive(Clone, Debug, Serialize)]
pub struct File {
    /// Its name in the image, from the root.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its other names.
    #[serde(skip)]
    pub links: Vec<PathBuf>,
    /// The result, or the reason why there is none.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result for a file.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// Offsets moved.
    Aligned {
        /// Bytes before.
        size_before: u64,
        /// Bytes now.
        size_after: u64,
        /// Bytes of text that 2M leaves could map before.
        usable_before: u64,
        /// Bytes of text that 2M leaves can map now.
        usable_after: u64,
        /// Checksums kept elsewhere that do not fit any more.
        signatures_broken: Vec<String>,
    },
    /// It was left as it is.
    Refused {
        /// Why.
        reason: String,
    },
}

/// An entry of an index that is no image that could be aligned.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// The digest.
    pub digest: String,
    /// The reason.
    pub reason: String,
}
