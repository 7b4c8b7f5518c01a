// SPDX-License-Identifier: GPL-2.0-only
//! A library is upgraded by dpkg while a service runs that maps its text.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Its name.
pub const NAME: &str = "upgrade";

/// The work that the guest is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Seconds that text gets to become wide.
    pub patience_s: u32,
}

/// Text of the library in the service's process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Bytes that are mapped.
    pub size: u64,
    /// Bytes by the leaf that maps them, as `64K`; of those that no page is at yet, `unmapped`.
    pub leaves: BTreeMap<String, u64>,
    /// Bytes that leaves map which are wider than a page.
    pub wide: u64,
    /// Hundredths of a second of guest time from when systemd had started the process to the moment
    /// after which no more of it became wide; `None`: nothing did.
    pub wide_after_cs: Option<u64>,
}

/// The guest's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The first version, which dpkg installed before its process began.
    pub before: Text,
    /// The same process when dpkg had installed the second version.
    pub replaced: Text,
    /// The second version, in the process that took the place of the first.
    pub after: Text,
}
