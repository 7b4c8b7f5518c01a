// SPDX-License-Identifier: GPL-2.0-only
//! The cost of a collapse of a block of a file that many processes map. The block's folios are
//! locked for most of that, so it is what a task waits for that faults on the block.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Its name.
pub const NAME: &str = "collapse";

/// Bytes of a block: of a PMD's leaf with pages of 4K.
pub const BLOCK: u64 = 2 << 20;

/// The work that the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// A folder of the disk that files can be written in.
    pub folder: PathBuf,
    /// How many processes map the block, for each case.
    pub mappers: Vec<u32>,
    /// How many blocks are collapsed while another CPU reads them.
    pub in_use: u32,
}

/// The guest's answer: each block became one folio, but for those that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Names of the cases, which are also their phases': `mappers:100`.
    pub cases: Vec<String>,
    /// Blocks that another CPU read, if there were any.
    #[serde(default)]
    pub in_use: Option<InUse>,
}

/// Blocks that were to be collapsed while another CPU read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InUse {
    /// How many.
    pub tried: u32,
    /// Of these, those whose collapse failed for the moment (EAGAIN).
    pub failed: u32,
}
