// SPDX-License-Identifier: GPL-2.0-only
//! glibc's own way to align large segments of libraries, and to ask for huge pages in them.

use crate::Refused;
use crate::program::loader;
use std::path::Path;
use std::process::{Command, Stdio};

/// Its name.
pub const TUNABLE: &str = "glibc.elf.thp";

/// Whether the loader of a program has the tunable.
pub fn has_tunable(program: &Path) -> bool {
    loader(program).is_some_and(|loader| known(&loader).unwrap_or(false))
}

/// Asks a loader.
fn known(loader: &Path) -> std::io::Result<bool> {
    let output = Command::new(loader)
        .arg("--list-tunables")
        .stdin(Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .any(|line| line.starts_with(&format!("{TUNABLE}:"))))
}

/// Sets the tunable in this process's environment, for what it becomes. This must be its only
/// thread.
///
/// # Errors
///
/// If glibc's own word is that it has no such tunable (2.44).
pub(crate) fn set(path: &Path) -> Result<(), Refused> {
    let loader = loader(path).ok_or(Refused::NoLoader)?;
    let known = known(&loader).map_err(Refused::io(loader.display().to_string()))?;
    if !known {
        return Err(Refused::NoTunable {
            loader: loader.display().to_string(),
            tunable: TUNABLE,
        });
    }
    let mut tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(format!("{TUNABLE}=1"));
    // SAFETY: there is one thread.
    unsafe { std::env::set_var("GLIBC_TUNABLES", tunables) };
    Ok(())
}
