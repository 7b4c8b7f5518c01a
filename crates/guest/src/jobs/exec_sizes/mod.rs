// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark as a job, at several sizes.

use crate::kit::marking::Marking;
use crate::place::Place;
use crate::port::Port;
use crate::protocol::Outcome;
use anyhow::Result;
use wideleaf_bench::exec::run;
use wideleaf_bench::options::ExecOptions;
use wideleaf_kit::size::short;

/// Runs it on one file after the other; the phases of each bear its size: `64K.cold`.
pub fn job(runs: &[ExecOptions], place: &Place<'_>, port: &Port) -> Result<Outcome> {
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
