// SPDX-License-Identifier: GPL-2.0-only
//! The storm job: many processes use and change the same text, in every way at once.

use crate::port::Port;
use crate::protocol::{Message, Scenario, StormOptions, StormReport};
use crate::storm_stage::Stage;
use crate::{storm_cases, storm_charge, storm_mix, storm_probe};
use anyhow::Result;

/// Plays a scenario.
pub fn job(options: &StormOptions, port: &Port) -> Result<StormReport> {
    storm_probe::install()?;
    port.send(&Message::Progress {
        text: format!("{} for {} s", options.scenario.name(), options.seconds),
    })?;
    let stage = Stage::new(options)?;
    match options.scenario {
        Scenario::All => storm_mix::all(stage),
        Scenario::CollapseTruncate => storm_cases::collapse_truncate(stage),
        Scenario::Pinned => storm_cases::pinned(stage),
        Scenario::DirectWrite => storm_cases::direct_write(stage),
        Scenario::SlowRead => storm_cases::slow_read(stage),
        Scenario::BusyCpu => storm_cases::busy_cpu(stage),
        Scenario::Charged => storm_charge::charged(stage),
    }
}
