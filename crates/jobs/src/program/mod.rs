// SPDX-License-Identifier: GPL-2.0-only
//! Real programs of a Debian user land, under the real loaders.

#[cfg(feature = "host")]
mod account;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "guest")]
mod identify;
#[cfg(feature = "guest")]
mod predict;
#[cfg(feature = "host")]
mod record;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Deref;
use wideleaf_guest::kit::program::{self, Program};
use wideleaf_policy::trace::Text;

/// Its name.
pub const NAME: &str = "program";

/// The runs of a [`Program`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// As any job counts it.
    #[serde(flatten)]
    pub of: program::Worked,
    /// Files that pages executed from in the warm run may be of; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executables: Vec<Executable>,
    /// The verdicts of `wideleaf inspect` on the text that its processes had at their ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicted: Vec<Predicted>,
}

impl From<program::Worked> for Worked {
    fn from(of: program::Worked) -> Self {
        Self {
            of,
            ..Self::default()
        }
    }
}

/// The verdict of `wideleaf inspect` on a segment with text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predicted {
    /// Its file, as [`Mapped`](wideleaf_guest::kit::trace::Mapped) names it.
    pub file: String,
    /// Where in the file its first page begins, in bytes.
    pub offset: u64,
    /// Bytes of its pages.
    pub len: u64,
    /// The column VERDICT, but `too small` where this machine has no leaf of the size it speaks of.
    pub verdict: String,
    /// By kernels, as `inspect` names them; empty where its assumptions do not hold.
    pub kernels: BTreeMap<String, Reach>,
}

/// How wide a kernel can map a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The file is sure to be loaded at a multiple of so many bytes, by chance at one of more.
    pub aligned: u64,
    /// Bytes by the size of the leaf, in bytes, the page included.
    pub leaves: BTreeMap<u64, u64>,
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

/// The guest's task.
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

/// Its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One for each program, in their order.
    pub programs: Vec<Worked>,
}
