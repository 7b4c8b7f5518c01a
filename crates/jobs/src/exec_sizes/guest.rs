// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark as a job, at several sizes.

use super::{NAME, Report, Task};
use anyhow::Result;
use wideleaf_bench::exec::run;
use wideleaf_bench::options::ExecOptions;
use wideleaf_guest::kit::marking::Marking;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;
use wideleaf_kit::size::short;

/// The job's guest side.
pub struct ExecSizes;

/// The registry's entry.
pub const WORK: ExecSizes = ExecSizes;

impl Work for ExecSizes {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
        job(&task.runs, place, port)
    }
}

/// Runs it on one file after the other; the phases of each bear its size: `64K.cold`.
fn job(runs: &[ExecOptions], place: &Place<'_>, port: &Port) -> Result<Report> {
    let around = place.surroundings()?;
    let mut reports = Vec::new();
    for (nth, options) in runs.iter().enumerate() {
        let size = short(options.size.unwrap_or_default());
        let mut marking = Marking::announce(port, nth, &format!("{size}."))?;
        reports.push(run(options, &around, &mut marking)?);
    }
    Ok(Report {
        reports,
        read_ahead_kb: place.window,
    })
}
