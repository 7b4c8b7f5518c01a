// SPDX-License-Identifier: GPL-2.0-only
//! Debian's stress-ng, fsx and fsstress, a stressor at a time, beside text of the same file system
//! that is executed and replaced.

#[cfg(feature = "guest")]
mod again;
#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "host")]
mod sets;
#[cfg(feature = "guest")]
mod stage;
#[cfg(feature = "guest")]
mod text;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wideleaf_kit::named;

/// Its name.
pub const NAME: &str = "stress-ng";

named!(
    /// Which stressors.
    Set, "set", {
        /// They map, fault, advise, lock, move, truncate, fork and swap.
        Memory = "memory",
        /// They make, change and remove files.
        Files = "files",
    }
);

/// The guest's task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The folder that programs see as `/`; the guest may write to it.
    pub root: String,
    /// One after the other.
    pub stressors: Vec<Stressor>,
    /// Seconds of the guest's clock that each lasts.
    pub seconds: u32,
    /// Instances of each.
    pub instances: u32,
    /// Bytes of the swap file.
    pub swap: u64,
    /// Of stress-ng.
    pub seed: u64,
    /// Whether files are written to an overlay over the disk's file system.
    pub overlay: bool,
    /// Seconds of the guest's clock that each may take to begin and to end, besides.
    pub grace_s: u32,
    /// Seconds of the guest's clock that a task may sleep uninterruptibly, and within which
    /// SIGKILL must end it.
    pub hung_s: u32,
}

/// A stressor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stressor {
    /// As stress-ng's option names it, or ours.
    pub name: String,
    /// Its program.
    pub program: Program,
}

/// A program that stresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// stress-ng, with further options, separated by blanks.
    StressNg(String),
    /// One that is run again and again.
    Again(Again),
}

/// A program that ends after some operations on files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Again {
    /// fsx, with its configuration (TOML).
    Fsx(String),
    /// fsstress.
    Fsstress,
}

/// The guest's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In order.
    pub stressors: Vec<Stressed>,
    /// How often something happened meanwhile: `executed`, `replaced`, `truncated`, `dropped`,
    /// `reclaimed`, `swapped_out`.
    pub counts: BTreeMap<String, u64>,
}

/// How one stressor fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stressed {
    /// As in the task.
    pub name: String,
    /// How its program ended.
    pub end: End,
    /// Its operations, of all instances: stress-ng's bogo operations, or those of fsx and fsstress.
    pub operations: u64,
    /// Both ends of its output if it was no success, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It ran into its limit.
    Killed,
}
