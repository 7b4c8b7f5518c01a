// SPDX-License-Identifier: GPL-2.0-only
//! The storm job: many processes use and change the same text, in every way at once.

mod cases;
mod charge;
mod mix;
mod page;
mod probe;
mod stage;

use crate::port::Port;
use crate::protocol::{Message, Scenario, StormOptions, StormReport};
use anyhow::Result;
use stage::Stage;
pub use stage::unit;

/// It is to collapse what the others use.
pub const WANTS_KHUGEPAGED: bool = true;

/// Plays a scenario.
pub fn job(options: &StormOptions, port: &Port) -> Result<StormReport> {
    probe::install()?;
    port.send(&Message::Progress {
        text: format!("{} for {} s", options.scenario.name(), options.seconds),
    })?;
    let stage = Stage::new(options)?;
    match options.scenario {
        Scenario::All => mix::all(stage),
        Scenario::CollapseTruncate => cases::collapse_truncate(stage),
        Scenario::Pinned => cases::pinned(stage),
        Scenario::DirectWrite => cases::direct_write(stage),
        Scenario::SlowRead => cases::slow_read(stage),
        Scenario::BusyCpu => cases::busy_cpu(stage),
        Scenario::Charged => charge::charged(stage),
    }
}
