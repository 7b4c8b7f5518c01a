// SPDX-License-Identifier: GPL-2.0-only
//! The storm job: many processes use and change the same text, in every way at once.

use super::stage::Stage;
use super::{NAME, Report, Scenario, Task, cases, charge, locked, mix, probe, slow};
use anyhow::Result;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Storm;

/// The registry's entry.
pub const WORK: Storm = Storm;

impl Work for Storm {
    const NAME: &'static str = NAME;
    /// It is to collapse what the others use.
    const WANTS_KHUGEPAGED: bool = true;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, port)
    }
}

/// Plays a scenario.
fn job(options: &Task, port: &Port) -> Result<Report> {
    probe::install()?;
    port.send(&Message::Progress {
        text: format!("{} for {} s", options.scenario.name(), options.seconds),
    })?;
    let stage = Stage::new(options)?;
    match options.scenario {
        Scenario::All => mix::all(stage),
        Scenario::CollapseTruncate => cases::collapse_truncate(stage),
        Scenario::Pinned => cases::pinned(stage),
        Scenario::Locked => locked::locked(stage),
        Scenario::DirectWrite => cases::direct_write(stage),
        Scenario::SlowRead => slow::slow_read(stage),
        Scenario::BusyCpu => cases::busy_cpu(stage),
        Scenario::Charged => charge::charged(stage),
    }
}
