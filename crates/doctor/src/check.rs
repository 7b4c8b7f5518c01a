// SPDX-License-Identifier: GPL-2.0-only
//! A check: what was looked at, what was found, what to change.

use serde::Serialize;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As good as it gets on this machine.
    Good,
    /// Something can be changed for wider leaves.
    Improve,
    /// Nothing to change, but good to know.
    Note,
    /// It could not be found out.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// A short name that does not change, for scripts.
    pub id: &'static str,
    /// What was looked at.
    pub title: &'static str,
    /// The outcome.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// Why it matters for the leaves of text.
    pub why: &'static str,
    /// What to do now; empty if nothing.
    pub change: String,
    /// How to make that last over a reboot; empty if nothing.
    pub persist: String,
}

impl Check {
    pub(crate) fn new(id: &'static str, title: &'static str, why: &'static str) -> Self {
        let status = Status::Unknown;
        Self {
            id,
            title,
            status,
            found: String::new(),
            why,
            change: String::new(),
            persist: String::new(),
        }
    }

    pub(crate) fn good(self, found: impl Into<String>) -> Self {
        Self {
            status: Status::Good,
            found: found.into(),
            ..self
        }
    }

    pub(crate) fn note(self, found: impl Into<String>) -> Self {
        Self {
            status: Status::Note,
            found: found.into(),
            ..self
        }
    }

    pub(crate) fn unknown(self, found: impl Into<String>) -> Self {
        Self {
            status: Status::Unknown,
            found: found.into(),
            ..self
        }
    }

    pub(crate) fn improve(
        self,
        found: impl Into<String>,
        change: impl Into<String>,
        persist: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Improve,
            found: found.into(),
            change: change.into(),
            persist: persist.into(),
            ..self
        }
    }
}
