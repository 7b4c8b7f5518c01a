// SPDX-License-Identifier: GPL-2.0-only
//! What work through the linear map costs: TLB misses and walks of the kernel's data accesses; and
//! what it costs to make the map wide again.

#[cfg(feature = "guest")]
mod disk;
#[cfg(feature = "guest")]
mod fio;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "linear-work";

/// What the job linear-work does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Bytes of the file that is read from the page cache.
    pub size: u64,
    /// Bytes of the encrypted disk, a multiple of 1M.
    pub disk: u64,
    /// How many reads, requests, and writes to that disk.
    pub calls: u64,
    /// Seed of where is read.
    pub seed: u64,
    /// How many places of the map are changed, 2M apart, and back.
    pub changes: u64,
    /// Where the user land is that has fio.
    pub root: String,
}
