// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark as a job, once or at several sizes.

use crate::kit::marking::Marking;
use crate::place::Place;
use crate::port::Port;
use crate::protocol::Outcome;
use anyhow::Result;
use wideleaf_bench::exec::run;
use wideleaf_bench::options::ExecOptions;
use wideleaf_kit::size::short;

/// Runs it on a file of the job's disk.
pub fn job(options: &ExecOptions, place: &Place<'_>, port: &Port) -> Result<Outcome> {
    let around = place.surroundings()?;
    let mut marking = Marking::announce(port, 0, "")?;
    Ok(Outcome::Exec {
        report: run(options, &around, &mut marking)?,
        read_ahead_kb: place.window,
    })
}

/// Runs it on one file after the other; the phases of each bear its size: `64K.cold`.
pub fn sizes(runs: &[ExecOptions], place: &Place<'_>, port: &Port) -> Result<Outcome> {
    let around = place.surroundings()?;
    let mut reports = Vec::new();
    for (nth, options) in runs.iter().enumerate() {
        let size = short(options.size.unwrap_or_default());
        let mut marking = Marking::announce(port, nth, &format!("{size}."))?;
        reports.push(run(options, &around, &mut marking)?);
    }
    Ok(Outcome::ExecSizes {
        reports,
        read_ahead_kb: place.window,
    })
}
