// SPDX-License-Identifier: GPL-2.0-only
//! A program of a Debian user land: its commands, and what their runs did.

use crate::kit::trace::Mapped;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A program's work: commands that run one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// By which its figures go.
    pub name: String,
    /// All of the environment.
    pub env: BTreeMap<String, String>,
    /// The user that it runs as, by number.
    pub user: u32,
    /// Commands that run once before, and are not counted; each is a list of words.
    pub prepare: Vec<Vec<String>>,
    /// The commands, as lists of words.
    pub commands: Vec<Vec<String>>,
    /// Lines of standard output in which one of these stands are left out.
    pub ignore: Vec<String>,
    /// Texts that the lines that are left must have.
    pub expect: Vec<String>,
}

/// The runs of a [`Program`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// Its name.
    pub name: String,
    /// From an empty page cache.
    pub cold: Run,
    /// Again, with all that the first run left there. Empty if the first run failed.
    pub warm: Run,
    /// Why it failed; empty if it did not.
    pub complaint: String,
    /// The executable mappings that each process of a third run had when it ended.
    pub text: Vec<Mapped>,
    /// Processes of the third run.
    #[serde(default)]
    pub processes: u64,
    /// Of these, those whose mappings were not seen: a signal ended them, or there were too many.
    #[serde(default)]
    pub unseen: u64,
    /// Bytes of page tables of the process of the third run that had most, when it ended.
    #[serde(default)]
    pub page_tables: u64,
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
    /// Requests that this took, those that the kernel merged counted as one.
    #[serde(default)]
    pub read_requests: u64,
    /// By which the page cache of files of the disk grew meanwhile.
    #[serde(default)]
    pub page_cache: u64,
    /// As wait(2) tells, by command; 0 is success.
    pub status: Vec<i32>,
    /// Standard output of all commands without the lines that are ignored; of much output how it
    /// begins, its length and a hash.
    pub output: String,
}
