// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark at several sizes in one boot: what a mapping of each size
//! gains. Each size is a file of its own, because the policy looks at the
//! file's size too.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use wideleaf_bench::options::ExecOptions;
use wideleaf_bench::report::ExecReport;

/// Its name.
pub const NAME: &str = "exec-sizes";

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// One for each file, one after the other.
    pub runs: Vec<ExecOptions>,
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The figures, in the order of the request.
    pub reports: Vec<ExecReport>,
    /// The disk's readahead window in KiB as the kernel has it.
    pub read_ahead_kb: Option<u32>,
}
