// SPDX-License-Identifier: GPL-2.0-only
//! git, as a command.

use std::process::Command;

/// git, whatever repository the caller's environment names.
pub(crate) fn command() -> Command {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            git.env_remove(name);
        }
    }
    git
}
