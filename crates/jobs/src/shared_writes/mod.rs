// SPDX-License-Identifier: GPL-2.0-only
//! Write faults on shared mappings of files: will-it-scale's `page_fault3`, with folios of one
//! page and large ones, with edges that cut folios, on a disk's file system and on tmpfs.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "guest")]
mod proofs;
#[cfg(feature = "guest")]
mod writers;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Its name.
pub const NAME: &str = "shared-writes";

/// Where files are mapped shared, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// A folder of the disk that files can be written in.
    pub folder: PathBuf,
    /// Bytes of a mapping, a multiple of 2M.
    pub size: u64,
}

/// What writes through shared mappings cost, and what was seen of them. Whatever must hold did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Ways to map and write, in order.
    pub cases: Vec<Case>,
    /// Pages called dirty when one in every other folio was written to.
    pub dirty: u64,
    /// Pages that one write mapped where a userfaultfd watched.
    pub watched_entries: u64,
}

/// A way to map and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Also its phase's: `disk.large`.
    pub name: String,
    /// Number of its coverage record, which shows a mapping all of which was written to.
    pub id: u64,
    /// Pages written to, each time it was mapped.
    pub pages: u64,
    /// Faults of the processes while they worked.
    pub faults: u64,
}
