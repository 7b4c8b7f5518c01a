// SPDX-License-Identifier: GPL-2.0-only
//! Text of which only a part is executed: bytes read for each byte executed,
//! and, where it is dense, the walks that wide leaves save.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
pub mod pattern;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wideleaf_bench::sparse::{Access, SparseReport};

/// Its name.
pub const NAME: &str = "sparse";

/// Parts of a stub file to execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The stub file in the guest.
    pub file: PathBuf,
    /// Which parts, one run each, as `wideleaf policy simulate` takes them.
    pub patterns: Vec<String>,
    /// Seed of the patterns and of the random calls.
    pub seed: u64,
    /// How the file is mapped and touched.
    pub access: Access,
    /// What is written to `fault_around_bytes` before; `None`: nothing is.
    pub fault_around: Option<u64>,
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The figures, in the order of the request.
    pub reports: Vec<SparseReport>,
    /// The disk's readahead window in KiB as the kernel has it.
    pub read_ahead_kb: Option<u32>,
}
