// SPDX-License-Identifier: GPL-2.0-only
//! The cost of a kernel's boot: instructions from the first one to `/init` and to power-off, by the
//! kernel's own messages, and the memory that is gone when user space begins.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wideleaf_guest::kit::linear::LinearReport;

/// Its name.
pub const NAME: &str = "boot-time";

/// The guest's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Bytes of the machine's memory.
    pub memory: u64,
}

/// Its findings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When the kernel said that it had come so far, by what it had done, in microseconds of its
    /// clock. One that was not said is not there.
    pub reached_us: BTreeMap<String, u64>,
    /// Bytes by what they are used for, as /proc/meminfo tells when the job begins; `reserved` never
    /// came to the page allocator.
    pub memory: BTreeMap<String, u64>,
    /// The kernel's linear map at that moment.
    pub linear: LinearReport,
}
