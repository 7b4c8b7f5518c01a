// SPDX-License-Identifier: GPL-2.0-only
//! Real programs of a Debian user land, under the real loaders.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wideleaf_guest::kit::trace::Mapped;

/// Its name.
pub const NAME: &str = "program";

/// A program's work: commands that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// By which its figures go.
    pub name: String,
    /// All of the environment.
    pub env: BTreeMap<String, String>,
    /// Program and arguments, without blanks in them.
    pub commands: Vec<String>,
}

/// What a [`Program`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// Its name.
    pub name: String,
    /// From an empty page cache.
    pub cold: Run,
    /// Again, with all that the first run left there.
    pub warm: Run,
    /// What its last command wrote to standard error, if it failed.
    pub complaint: String,
    /// The executable mappings that a third run of its last command had when it ended.
    pub text: Vec<Mapped>,
}

/// One run of all of a program's commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Of its processes, from fork to exit, without reading from the disk.
    pub minor_faults: u64,
    /// The same, with reading.
    pub major_faults: u64,
    /// Read from the disk by the whole guest meanwhile.
    pub read_bytes: u64,
    /// As wait(2) tells, by command; 0 is success.
    pub status: Vec<i32>,
    /// Standard output of all commands.
    pub output: String,
}

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The folder that the programs see as `/`.
    pub root: String,
    /// One after the other, each from an empty page cache.
    pub programs: Vec<Program>,
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One for each program, in their order.
    pub programs: Vec<Worked>,
}
