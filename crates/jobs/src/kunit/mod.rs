// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own KUnit suites.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::tap::{Status, Test};

/// Its name.
pub const NAME: &str = "kunit";

/// What the guest is asked to do: to collect what the kernel's built-in suites found at boot.
/// Wants CONFIG_KUNIT, CONFIG_KUNIT_DEBUGFS and CONFIG_DEBUG_FS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {}

/// All KUnit suites of a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In order of name.
    pub suites: Vec<Suite>,
}

impl Report {
    /// Number of tests with this status over all suites.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.suites
            .iter()
            .flat_map(|s| &s.tests)
            .filter(|t| t.status == status)
            .count()
    }

    /// Whether there was something to run and nothing failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.suites.is_empty()
            && self.suites.iter().all(|s| s.status != Status::Fail)
            && self.count(Status::Fail) == 0
    }
}

/// One KUnit suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suite {
    /// As the kernel names it.
    pub name: String,
    /// The suite's own line.
    pub status: Status,
    /// In order of execution; parameters of a parameterised test come before it, as
    /// `test/parameter`.
    pub tests: Vec<Test>,
    /// The whole KTAP text if anything failed, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kunit_without_suites_has_not_passed() {
        assert!(!Report::default().passed());
    }
}
