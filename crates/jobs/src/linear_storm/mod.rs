// SPDX-License-Identifier: GPL-2.0-only
//! Permissions of the linear map change in many processes at once, then it is to be wide again.

#[cfg(feature = "guest")]
mod fail;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "linear-storm";

/// What the processes of the job linear-storm do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// How often each process that changes permissions makes or drops something.
    pub rounds: u64,
    /// Seed of what each process does.
    pub seed: u64,
    /// Seconds of the guest's clock that the map may take to become wide again.
    pub settle_s: u32,
    /// Whether allocations for the changes are made to fail, which takes a kernel that can.
    pub fail_allocations: bool,
}
