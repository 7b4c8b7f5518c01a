// SPDX-License-Identifier: GPL-2.0-only
//! Others that read or change the tables of the linear map meet changes of permissions and the
//! collapse: the dump of all tables, kexec, CPUs and memory that come and go,
//! hibernation, late kfence.

#[cfg(feature = "guest")]
mod cpus;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "guest")]
mod hibernate;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "guest")]
mod hotplug;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "linear-others";

/// What the job linear-others does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Seconds of the guest's clock that each meeting lasts.
    pub seconds: u32,
    /// Seed of what each process does.
    pub seed: u64,
    /// Seconds of the guest's clock that the map may take to become wide again.
    pub settle_s: u32,
    /// Bytes of memory that can be plugged.
    pub plug: u64,
}
