// SPDX-License-Identifier: GPL-2.0-only
//! Runs a guest that answers nothing: one whose kernel the lab did not build. Its console, and when
//! it went off, are all that is known of it.

use super::console;
use super::machine::{LAST_WORDS, POLL, Watch, read};
use super::qemu::{self, Guest};
use super::scratch::Tethered;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use wideleaf_guest::command::ENDED;

/// Console lines shown where the kernel did not complain.
const TAIL: usize = 20;

/// How a guest came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Why it did not come to a good one, and the lines that show it.
    pub failure: Option<String>,
    /// The exit status of its command, if the console tells.
    pub status: Option<i32>,
}

/// Runs `guest` in the QEMU at `program` for at most `limit`; `log` receives what QEMU itself
/// prints. Must be called from a thread that stays until it returns.
///
/// # Errors
///
/// If QEMU does not run the guest.
pub fn run(program: &Path, guest: &Guest<'_>, log: &Path, limit: Duration) -> Result<Ended> {
    let out = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = qemu::command(program, guest);
    command.stdout(out.try_clone()?).stderr(out);
    let start = Instant::now();
    let mut child = Tethered::spawn(&mut command)
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut watch = Watch::default();
    let status = loop {
        let status = child.try_wait()?;
        let over = start.elapsed() >= limit || watch.fault_drags_on(guest.console);
        if status.is_some() || over {
            break status;
        }
        std::thread::sleep(POLL);
    };
    child.end(LAST_WORDS);
    if let Some(status) = status.filter(|status| !status.success()) {
        let lines = console::tail(&read(log), TAIL).join("\n  | ");
        bail!("QEMU failed: {status}:\n  | {lines}");
    }
    let late = status.is_none().then_some(limit);
    Ok(judge(&read(guest.console), late))
}

/// `late`: the time limit, if the guest was still running then.
fn judge(console: &str, late: Option<Duration>) -> Ended {
    let said = |what: String, lines: Vec<String>| {
        let lines = lines.iter().map(|line| format!("\n  | {line}"));
        what + ":" + &lines.collect::<String>()
    };
    let splats = console::splats(console);
    let failure = match (splats.first(), late) {
        (Some(splat), _) => Some(said(
            format!("{} in the guest", splat.kind),
            splats
                .iter()
                .flat_map(|splat| splat.lines.clone())
                .collect(),
        )),
        (None, Some(limit)) => Some(said(
            format!(
                "the guest was still running at the time limit of {} s (--timeout); its last lines",
                limit.as_secs()
            ),
            console::tail(console, TAIL),
        )),
        (None, None) => None,
    };
    let status =
        (console.lines().rev()).find_map(|line| line.split_once(ENDED)?.1.trim().parse().ok());
    Ended { failure, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_goes_off_without_a_complaint_has_ended_well() {
        assert_eq!(judge("[ 1.0] reboot: Power down\n", None), Ended::default());
    }

    #[test]
    fn the_last_line_about_a_command_has_its_status() {
        let console = "[ 1.0] echo wideleaf-command: ended with status 0?\n\
                       [ 2.0] wideleaf-command: ended with status 3\r\n[ 2.1] reboot: Power down\n";
        assert_eq!(judge(console, None).status, Some(3));
    }

    #[test]
    fn complaints_and_time_limits_are_told_with_the_consoles_lines() {
        let console = "[ 1.0] Kernel panic - not syncing: Attempted to kill init!\n";
        for late in [None, Some(Duration::from_secs(9))] {
            let failure = judge(console, late).failure.unwrap();
            assert!(
                failure.starts_with("kernel panic in the guest:\n  | [ 1.0]"),
                "{failure}"
            );
        }
        let failure = judge("[ 1.0] waiting\n", Some(Duration::from_secs(9)))
            .failure
            .unwrap();
        assert!(
            failure.contains("9 s (--timeout)") && failure.contains("waiting"),
            "{failure}"
        );
    }
}
