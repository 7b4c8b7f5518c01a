// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own KUnit suites.

#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};

/// Its name.
pub const NAME: &str = "kunit";

/// What the guest is asked to do: to collect what the kernel's built-in suites found at boot.
/// Wants CONFIG_KUNIT, CONFIG_KUNIT_DEBUGFS and CONFIG_DEBUG_FS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {}
