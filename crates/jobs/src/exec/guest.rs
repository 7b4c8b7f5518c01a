// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark as a job, once.

use super::{NAME, Report, Task};
use anyhow::Result;
use wideleaf_bench::exec::{Surroundings, run};
use wideleaf_guest::kit::marking::Marking;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Exec;

/// The registry's entry.
pub const WORK: Exec = Exec;

impl Work for Exec {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
        let around = Surroundings {
            holder: place.holder.filter(|_| task.freed),
            ..place.surroundings()?
        };
        let mut marking = Marking::announce(port, 0, "")?;
        Ok(Report {
            report: run(&task.exec, &around, &mut marking)?,
            read_ahead_kb: place.window,
        })
    }
}
