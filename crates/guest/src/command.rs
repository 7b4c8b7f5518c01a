// SPDX-License-Identifier: GPL-2.0-only
//! A guest of which one command is wanted, on a kernel that the lab did not build: such a kernel
//! may have no port for answers, so the command's end goes to the console.

use crate::power::power_off;
use crate::setup;
use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// Where the initramfs has the command, a JSON array of words.
pub const PATH: &str = "/command.json";

/// How the line on the console begins that tells of the command's end; its exit status follows.
pub const ENDED: &str = "wideleaf-command: ended with status ";

/// The exit status of a command that cannot be started, as in shells.
const NOT_FOUND: i32 = 127;

/// Where programs are looked for.
const PROGRAMS: &str = "/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin";

/// Whether this guest is to run a command rather than a job.
#[must_use]
pub fn wanted() -> bool {
    fs::exists(PATH).unwrap_or(false)
}

/// Runs the command from mount to power-off. Only for PID 1.
pub fn main() -> ! {
    // A kernel without devtmpfs has a console all the same, and the command may need no device.
    if let Err(error) = setup::pseudo_filesystems() {
        eprintln!("wideleaf: {error:#}");
    }
    let status = run().unwrap_or_else(|error| {
        eprintln!("wideleaf: {error:#}");
        NOT_FOUND
    });
    tell(status);
    power_off()
}

fn run() -> Result<i32> {
    let text = fs::read_to_string(PATH).context(PATH)?;
    let words: Vec<String> = serde_json::from_str(&text).context(PATH)?;
    let (first, rest) = words.split_first().context("no command")?;
    let mut command = Command::new(first);
    command.args(rest).env("PATH", PROGRAMS).env("HOME", "/");
    let status = command
        .status()
        .with_context(|| format!("cannot run {first}"))?;
    Ok(code(status))
}

/// As shells have it: 128 and the signal's number for one that was killed.
fn code(status: ExitStatus) -> i32 {
    let killed = || 128 + status.signal().unwrap_or_default();
    status.code().unwrap_or_else(killed)
}

/// A message of the kernel's log is one line of the console. The line of a program may be cut in two
/// by such a message.
fn tell(status: i32) {
    let line = format!("{ENDED}{status}\n");
    let told = fs::OpenOptions::new()
        .write(true)
        .open("/dev/kmsg")
        .and_then(|mut log| log.write_all(format!("<1>{line}").as_bytes()));
    if told.is_err() {
        eprint!("\n{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_those_of_shells() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
