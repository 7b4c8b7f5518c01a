// SPDX-License-Identifier: GPL-2.0-only
//! The life of contiguous groups of page-table entries: which steps fold them, which unfold them.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Its name.
pub const NAME: &str = "contpte";

/// What contiguous groups went through. What mapped each of them after each step is in coverage
/// records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Bytes of a group.
    pub group: u64,
    /// Groups of each memory.
    pub groups: u64,
    /// Kinds of memory, in order.
    pub memories: Vec<MemoryReport>,
}

/// A kind of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// `anon`, `private-file`, `shared-file`.
    pub name: String,
    /// What was done, in order.
    pub steps: Vec<String>,
    /// Number of the first group's record after the first step; the next group's is one more.
    pub first_id: u64,
    /// From a group's record after a step to its record after the next.
    pub ids_per_step: u64,
}

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// A folder of the disk that files can be written in.
    pub folder: PathBuf,
}
