// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's linear map after boot.

use super::{NAME, Task};
use anyhow::Result;
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_guest::kit::linear::{rest, take, take_longest_hold};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct LinearMap;

/// The registry's entry.
pub const WORK: LinearMap = LinearMap;

impl Work for LinearMap {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = LinearReport;

    fn run(&self, _: &Task, _: &Place<'_>, _: &Port) -> Result<LinearReport> {
        Ok(look())
    }
}

/// The map as it is once the kernel has made it as wide as it can after boot.
fn look() -> LinearReport {
    let mut report = LinearReport::default();
    rest();
    take(&mut report, "boot");
    take_longest_hold(&mut report);
    report
}
