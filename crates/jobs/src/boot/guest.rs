// SPDX-License-Identifier: GPL-2.0-only
//! Nothing: that the guest boots, answers and goes off is all.

use super::{NAME, Report, Task};
use anyhow::Result;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Boot;

/// The registry's entry.
pub const WORK: Boot = Boot;

impl Work for Boot {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, _: &Task, _: &Place<'_>, _: &Port) -> Result<Report> {
        Ok(Report {})
    }
}
