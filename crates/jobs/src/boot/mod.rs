// SPDX-License-Identifier: GPL-2.0-only
//! Boots and powers off.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "boot";

/// What the guest is asked to do: nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {}

/// What it found: that it boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {}
