// SPDX-License-Identifier: GPL-2.0-only
//! By which leaves the kernel maps its linear map after boot.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "linear-map";

/// What the guest is asked to do: to look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {}
