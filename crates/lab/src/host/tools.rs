// SPDX-License-Identifier: GPL-2.0-only
//! Programs of the machine.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds `program` in `PATH`, and in `/usr/sbin` and `/sbin`, where Debian
/// keeps mkfs but which a user's `PATH` lacks.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Standard output and error of a short command, which may fail.
pub fn output(program: &Path, args: &[&str]) -> Result<String> {
    let out = Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text += &String::from_utf8_lossy(&out.stderr);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mkfs_is_found_without_sbin_in_path() {
        assert!(in_path("sh").is_some());
        assert!(in_path("no-such-program-as-this").is_none());
    }
}
