// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark as a job, once.

use crate::kit::marking::Marking;
use crate::place::Place;
use crate::port::Port;
use crate::protocol::Outcome;
use anyhow::Result;
use wideleaf_bench::exec::run;
use wideleaf_bench::options::ExecOptions;

/// Runs it on a file of the job's disk.
pub fn job(options: &ExecOptions, place: &Place<'_>, port: &Port) -> Result<Outcome> {
    let around = place.surroundings()?;
    let mut marking = Marking::announce(port, 0, "")?;
    Ok(Outcome::Exec {
        report: run(options, &around, &mut marking)?,
        read_ahead_kb: place.window,
    })
}
