// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark: a large file of return stubs, called cold and at random.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod hardware;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use wideleaf_bench::options::ExecOptions;
use wideleaf_bench::report::ExecReport;

/// Its name.
pub const NAME: &str = "exec";

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The benchmark.
    pub exec: ExecOptions,
    /// Whether memory that is held is free again after the first sweep.
    pub freed: bool,
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The figures.
    pub report: ExecReport,
    /// Readahead window of the disk in KiB as the run saw it, read back from sysfs.
    pub read_ahead_kb: Option<u32>,
}
