// SPDX-License-Identifier: GPL-2.0-only
//! Permissions of the linear map change in every way at once, while others read through it; then
//! it is to become as wide as it was.

use super::{NAME, Task, fail};
use anyhow::{Result, ensure};
use std::time::Duration;
use wideleaf_guest::kit::inject::{Injection, make_workers_fail};
use wideleaf_guest::kit::linear;
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_guest::kit::linear_crew::{Changes, Owners, settle};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct LinearStorm;

/// The registry's entry.
pub const WORK: LinearStorm = LinearStorm;

impl Work for LinearStorm {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = LinearReport;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<LinearReport> {
        run(task, port)
    }
}

/// Memory that is owned and checked, in bytes at most.
const OWNED: u64 = 1 << 30;

/// Plays it.
fn run(options: &Task, port: &Port) -> Result<LinearReport> {
    let mut report = LinearReport::default();
    linear::rest();
    linear::take(&mut report, "boot");
    let injection = match options.fail_allocations {
        true => Some(Injection::of_tasks()?),
        false => None,
    };
    let owners = Owners::begin(options.seed, OWNED)?;
    if options.fail_allocations {
        make_workers_fail()?;
    }
    let changes = Changes {
        rounds: options.rounds,
        secrets: true,
        fail_allocations: options.fail_allocations,
    };
    owners.change(changes)?.end()?;
    linear::take(&mut report, "storm");
    if let Some(injection) = injection {
        let failed = injection.end()?;
        ensure!(
            failed > 0,
            "no allocation was made to fail, though one in ten was to"
        );
        report.counts.insert("failed_allocations".into(), failed);
        // Only decoration.
        let _ = port.send(&Message::Progress {
            text: "each allocation of a change fails once".into(),
        });
        fail::each(&mut report)?;
    }
    owners.end(&mut report)?;
    // Only decoration.
    let _ = port.send(&Message::Progress {
        text: "the map settles".into(),
    });
    let patience = Duration::from_secs(options.settle_s.into());
    let waited = settle(&report.moments[0].leaves, patience);
    linear::take(&mut report, "settled");
    report
        .counts
        .insert("settled_ms".into(), waited.as_millis() as u64);
    Ok(report)
}
