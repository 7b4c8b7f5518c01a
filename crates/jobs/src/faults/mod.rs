// SPDX-License-Identifier: GPL-2.0-only
//! Page faults on several CPUs while one thread gives memory back: no fault may cost a TLB
//! invalidation that it does not cost without the series.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Its name.
pub const NAME: &str = "faults";

/// Bytes that a thread touches in each round, page by page.
pub const STEP: u64 = 1 << 20;

/// The work that the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// A folder of the disk that files can be written in.
    pub folder: PathBuf,
    /// How often memory is given back, and each thread touches [`STEP`] bytes.
    pub rounds: u64,
    /// Whether pages come back from swap too, which takes a kernel with zram.
    pub swap: bool,
}

/// The guest's counts. All pages had what was written to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Kinds of faults, in order.
    pub cases: Vec<Case>,
}

/// A kind of faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Also its phase's: `anonymous`.
    pub name: String,
    /// Faults of the threads that touch pages.
    pub faults: u64,
}
