// SPDX-License-Identifier: GPL-2.0-only
//! Text of which only a part is executed, as a job.

use super::pattern::pattern;
use super::{NAME, Report, Task};
use anyhow::{Context, Result};
use std::fs;
use wideleaf_bench::{page_size, sparse};
use wideleaf_guest::kit::marking::Marking;
use wideleaf_guest::kit::page_cache::fault_around_bytes;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;
use wideleaf_policy::sim::{Pattern, touches};

/// The job's guest side.
pub struct Sparse;

/// The registry's entry.
pub const WORK: Sparse = Sparse;

impl Work for Sparse {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, place, port)
    }
}

/// Runs each pattern on the same file; its phases bear its name: `pages:10.cold`.
fn job(options: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
    let Task {
        file,
        patterns,
        seed,
        access,
        fault_around,
    } = options;
    if let Some(bytes) = fault_around {
        fault_around_bytes(*bytes)?;
    }
    let around = place.surroundings()?;
    let size = fs::metadata(file)
        .with_context(|| file.display().to_string())?
        .len();
    let mut reports = Vec::new();
    for (nth, name) in patterns.iter().enumerate() {
        let offsets = match pattern(name).map_err(anyhow::Error::msg)? {
            Pattern::Pages(_, share) => {
                let shift = page_size().trailing_zeros() as u8;
                touches(Pattern::Pages(shift, share), size, *seed)
            }
            other => touches(other, size, *seed),
        };
        let mut marking = Marking::announce(port, nth, &format!("{name}."))?;
        let report = sparse::run(file, name, &offsets, *seed, *access, &around, &mut marking)?;
        reports.push(report);
    }
    Ok(Report {
        reports,
        read_ahead_kb: place.window,
    })
}
