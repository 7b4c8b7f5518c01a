// SPDX-License-Identifier: GPL-2.0-only
//! Programs of the disk's user land as child processes.

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The command `line`, words with blanks between, as [`command_of`] takes words.
pub fn command(root: &str, line: &str, env: &BTreeMap<String, String>) -> Result<Command> {
    command_of(root, line.split_whitespace(), env)
}

/// The command of these words, with `root` as its `/` and nothing in its environment but `env`.
/// Input is empty, output goes where the caller says.
pub fn command_of<'a>(
    root: &str,
    words: impl IntoIterator<Item = &'a str>,
    env: &BTreeMap<String, String>,
) -> Result<Command> {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().context("an empty command")?);
    command
        .args(words)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null());
    let root = root.to_string();
    // SAFETY: chroot and chdir are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::chroot(root.as_str())?;
            nix::unistd::chdir("/").map_err(Into::into)
        });
    }
    Ok(command)
}

/// Where programs of a system are.
const PROGRAMS: &str = "/usr/sbin:/usr/bin";

/// Of what a program says that fails, so many bytes from the end.
const LAST: usize = 2000;

/// Runs a program of this system to its end, and gives its standard output.
///
/// # Errors
///
/// If it cannot be run or fails; with the end of what it said.
pub fn said(command: &mut Command) -> Result<String> {
    command.env("PATH", PROGRAMS).env("HOME", "/root");
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {name}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        let all = [&output.stdout[..], &output.stderr[..]].concat();
        let last = text(&all[all.len().saturating_sub(LAST)..]);
        bail!("{name}: {}: {}", output.status, last.trim());
    }
    Ok(text(&output.stdout))
}

/// Waits for the end of `child`. Gives the status as wait(2) tells it, and what it used.
pub fn wait(child: &Child) -> Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: all zeroes is a valid rusage.
    let mut usage = unsafe { std::mem::zeroed() };
    let pid = child.id().cast_signed();
    // SAFETY: valid pointers for the duration of the call.
    Errno::result(unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) })
        .context("wait4")?;
    Ok((status, usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_told_by_its_last_words() {
        let shell = |script: &str| said(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo yes").unwrap(), "yes\n");
        let script = format!("printf '%{LAST}d' 1; echo no such image >&2; exit 3");
        let text = shell(&script).unwrap_err().to_string();
        assert!(text.starts_with("sh: exit status: 3: "), "{text}");
        assert!(text.ends_with("no such image"), "{text}");
        assert!(text.len() < LAST + 50, "{}", text.len());
    }
}
