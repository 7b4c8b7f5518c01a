// SPDX-License-Identifier: GPL-2.0-only
//! For the tests that start the program as another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tempfile::TempDir;

/// The program where every user can reach it: cargo's folder may lie in root's own.
pub struct Reachable(TempDir);

impl Reachable {
    /// A copy, which goes with the value.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        // By cp: while this process has it open for writing, a child that another test has
        // just forked has it open as well, and nobody could execute it.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_wideleaf"))
            .arg(dir.path().join("wideleaf"))
            .status();
        assert!(copied.unwrap().success());
        Self(dir)
    }

    /// The program, without arguments.
    pub fn command(&self) -> Command {
        Command::new(self.0.path().join("wideleaf"))
    }
}
