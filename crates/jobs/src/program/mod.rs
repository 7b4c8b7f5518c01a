// SPDX-License-Identifier: GPL-2.0-only
//! Real programs of a Debian user land, under the real loaders.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "guest")]
mod identify;
#[cfg(feature = "host")]
mod record;

use serde::{Deserialize, Serialize};
use std::ops::Deref;
use wideleaf_guest::kit::program::{self, Program};
use wideleaf_policy::trace::Text;

/// Its name.
pub const NAME: &str = "program";

/// What a [`Program`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// As any job counts it.
    #[serde(flatten)]
    pub of: program::Worked,
    /// Files that pages executed from in the warm run may be of; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executables: Vec<Executable>,
}

impl From<program::Worked> for Worked {
    fn from(of: program::Worked) -> Self {
        let executables = Vec::new();
        Self { of, executables }
    }
}

impl Deref for Worked {
    type Target = program::Worked;

    fn deref(&self) -> &program::Worked {
        &self.of
    }
}

/// A program or library of the disk of which pages are in the page cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executable {
    /// By which the plugin's record of its pages is known.
    pub id: u64,
    /// Its path as the program sees it.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// Its executable segments.
    pub text: Vec<Text>,
}

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The folder that the programs see as `/`.
    pub root: String,
    /// One after the other, each from an empty page cache.
    pub programs: Vec<Program>,
    /// Whether it is to be recorded from which pages they execute.
    #[serde(default)]
    pub record: bool,
    /// Whether they see that folder through an overlay.
    #[serde(default)]
    pub overlay: bool,
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One for each program, in their order.
    pub programs: Vec<Worked>,
}
