// SPDX-License-Identifier: GPL-2.0-only
//! Finds and runs other programs, and says what went wrong when they fail.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Finds `program` in `PATH`, and in `/usr/sbin` and `/sbin`, where Debian
/// keeps mkfs but which a user's `PATH` lacks.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Standard output and error of a short command, whatever its status.
///
/// # Errors
///
/// If it cannot be run.
pub fn said(program: &Path, args: &[&str]) -> Result<String> {
    let out = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text += &String::from_utf8_lossy(&out.stderr);
    Ok(text)
}

/// Runs `command` to its end and gives its output.
///
/// # Errors
///
/// If it cannot be run or fails; what it wrote is in the text.
pub fn output(command: &mut Command) -> Result<Output> {
    let name = name(command);
    // Messages are parsed in places, so they must not be translated.
    let output = command
        .env("LC_ALL", "C")
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let text = [
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        ]
        .concat();
        bail!("{name}: {}: {}", output.status, text.trim());
    }
    Ok(output)
}

/// Runs `command` and gives what it wrote to standard output.
///
/// # Errors
///
/// As [`output`].
pub fn stdout(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?.stdout).into_owned())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_path() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-as-this").is_none());
    }

    #[test]
    fn a_failure_carries_the_program_and_its_words() {
        let error = output(Command::new("sh").args(["-c", "echo no such wheel >&2; exit 3"]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("sh: exit status: 3: no such wheel"), "{text}");
        let text = format!("{:#}", output(&mut Command::new("wl-absent")).unwrap_err());
        assert!(text.contains("cannot run wl-absent"), "{text}");
    }
}
