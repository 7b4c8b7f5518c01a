// SPDX-License-Identifier: GPL-2.0-only
//! Changes live page-table entries in every way that a process can ask for:
//! work for the referee.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "maintenance";

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {}

/// What it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How many steps went as they should: all.
    pub steps: u32,
}
