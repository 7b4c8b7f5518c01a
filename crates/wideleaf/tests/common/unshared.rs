// SPDX-License-Identifier: GPL-2.0-only
//! For tests that mount.

use crate::text::text;
use std::process::{Command, Output};

/// Runs a script as root of namespaces of its own, after `prepare`. None if the host has no such
/// namespaces.
pub fn unshared(script: &str, prepare: impl FnOnce(&mut Command)) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]);
    prepare(&mut command);
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    if said.contains("unshare failed") {
        eprintln!("SKIPPED: no user namespaces here: {said}");
        return None;
    }
    Some(output)
}

/// All that it has printed.
pub fn both(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}
