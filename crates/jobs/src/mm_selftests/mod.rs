// SPDX-License-Identifier: GPL-2.0-only
//! The base's own selftests/mm, by their own runner.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wideleaf_guest::kit::tap::{Status, Test};

/// Its name.
pub const NAME: &str = "mm-selftests";

/// Which of the selftests to run, and where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Folder with the runner, static `bash` and `busybox` for it, and the tests, which run in it
    /// and write to it.
    pub tests: PathBuf,
    /// A folder on XFS that tests may write to.
    pub xfs: PathBuf,
    /// The runner's categories, separated by blanks; empty for all.
    pub categories: String,
    /// Programs that are not run, and not told of.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Seconds of the guest's clock after which a test is killed.
    pub test_limit_s: u32,
}

/// What the runner of selftests/mm said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In order of execution.
    pub programs: Vec<Program>,
}

/// One program with its arguments: what the runner counts as a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The command line: `khugepaged -s 2`.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Its exit status if it failed, or that it was killed at its limit; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The tests in it, if it tells of them.
    pub tests: Vec<Test>,
    /// The end of its output if it did not pass, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
}
