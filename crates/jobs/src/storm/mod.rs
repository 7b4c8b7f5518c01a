// SPDX-License-Identifier: GPL-2.0-only
//! Many processes on several CPUs use and change the same text, in every way at once.

#[cfg(feature = "guest")]
mod cases;
#[cfg(feature = "guest")]
mod charge;
#[cfg(feature = "guest")]
mod copy_up;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "guest")]
mod locked;
#[cfg(feature = "guest")]
mod mix;
#[cfg(feature = "guest")]
mod page;
#[cfg(feature = "guest")]
mod probe;
#[cfg(feature = "guest")]
mod slow;
#[cfg(feature = "guest")]
mod stage;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use wideleaf_kit::named;

/// Its name.
pub const NAME: &str = "storm";

/// What the storm job's processes do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Who meets whom.
    pub scenario: Scenario,
    /// A folder that files can be written in.
    pub folder: PathBuf,
    /// Whether files are seen through an overlay over that folder, and copied up meanwhile.
    pub overlay: bool,
    /// Seconds of the guest's clock.
    pub seconds: u32,
    /// Seed of what each process does.
    pub seed: u64,
    /// Seconds of the guest's clock that a task may sleep uninterruptibly, and within which
    /// SIGKILL must end it.
    pub hung_s: u32,
    /// Whether allocations of wide folios are made to fail, which takes a kernel that can.
    pub fail_allocations: bool,
}

named!(
    /// What is played.
    Scenario, "scenario", {
        /// Everything at once, at random.
        All = "all",
        /// One drops a page of a block and asks for its collapse, another truncates into the
        /// block.
        CollapseTruncate = "collapse-truncate",
        /// One pins a page of a block and makes another come and go; a bystander's locked pages
        /// must stay mapped.
        Pinned = "pinned",
        /// One locks text as it faults it in (MLOCK_ONFAULT), another executes it again and again:
        /// locked pages must stay mapped, and the block is collapsed once nobody locks it.
        Locked = "locked",
        /// Pages are executed while their owner writes new ones with O_DIRECT.
        DirectWrite = "direct-write",
        /// The disk hardly answers: text that is cached runs on, and SIGKILL ends a task that waits.
        SlowRead = "slow-read",
        /// A realtime task keeps one CPU; nobody may wait for that.
        BusyCpu = "busy-cpu",
        /// Text moves from one memory cgroup to another; their statistics must follow.
        Charged = "charged",
    }
);

/// What a storm's processes did and saw, none of it wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How often, by name: `executed`, `checked`, `holes`, `collapses`, ...
    pub counts: BTreeMap<String, u64>,
}
