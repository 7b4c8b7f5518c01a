// SPDX-License-Identifier: GPL-2.0-only
//! Programs of the disk's user land as child processes.

use anyhow::{Context, Result};
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
