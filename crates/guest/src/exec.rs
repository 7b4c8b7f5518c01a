// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark as a job.

use crate::marker;
use crate::port::Port;
use crate::protocol::{COVERAGE_TEXT, Disk, Message, Outcome, PHASE_COLD, PHASE_RANDOM};
use anyhow::{Context, Result};
use wideleaf_bench::exec::{Phase, Surroundings, Watcher, run};
use wideleaf_bench::options::ExecOptions;

/// Tells the plugin by markers and the host by messages.
struct Marking<'a>(&'a Port);

impl Watcher for Marking<'_> {
    #[inline(never)]
    fn enter(&mut self, phase: Phase) {
        match phase {
            Phase::Cold => marker::enter::<PHASE_COLD>(),
            Phase::Random => marker::enter::<PHASE_RANDOM>(),
        }
    }

    #[inline(never)]
    fn leave(&mut self) {
        marker::leave();
    }

    fn look(&mut self, address: u64, len: u64) {
        marker::coverage(address, len, COVERAGE_TEXT);
    }

    fn progress(&mut self, text: &str) {
        // Only decoration; the result will fail loudly if the port is gone.
        let _ = self.0.send(&Message::Progress { text: text.into() });
    }
}

/// Runs it on a file of the job's disk, mounted with this readahead window.
pub fn job(options: &ExecOptions, disk: Option<(&Disk, u32)>, port: &Port) -> Result<Outcome> {
    let (disk, window) = disk.context("the exec job needs a disk; the job names none")?;
    for (id, name) in [(PHASE_COLD, "cold"), (PHASE_RANDOM, "random")] {
        port.send(&Message::Phase {
            id,
            name: name.into(),
        })?;
    }
    let report = run(
        options,
        &Surroundings::guest(&disk.device),
        &mut Marking(port),
    )?;
    Ok(Outcome::Exec {
        report,
        read_ahead_kb: Some(window),
    })
}
