// SPDX-License-Identifier: GPL-2.0-only
//! Real programs under their own loader as a job.

use super::identify::identify;
use super::predict::{Disk, leaves, predict};
use super::{NAME, Report, Task, Worked};
use anyhow::{Context, Result};
use wideleaf_bench::system::ReadCounter;
use wideleaf_guest::kit::runner::{Runner, adopt_leftovers};
use wideleaf_guest::kit::{overlay, root};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Programs;

/// The registry's entry.
pub const WORK: Programs = Programs;

impl Work for Programs {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
        let programs = job(task, place.device, port)?;
        Ok(Report { programs })
    }
}

/// When programs run: 2026 begins. A guest without a clock of its own is in 1970, where git takes no
/// file for changed and nginx writes to no address.
const NOW: i64 = 1_767_225_600;

/// Runs them all.
fn job(task: &Task, device: Option<&str>, port: &Port) -> Result<Vec<Worked>> {
    let device = device.context("the program job needs a disk; the job names none")?;
    let counter = ReadCounter::BlockDevice(device.to_string());
    let root = match task.overlay {
        true => overlay::over(&task.root)?,
        false => task.root.clone(),
    };
    root::furnish(&root)?;
    set_clock()?;
    adopt_leftovers()?;
    let leaves = leaves();
    let mut reports = Vec::new();
    for (program, number) in task.programs.iter().zip(0u8..) {
        let runner = Runner {
            root: &root,
            program,
            number,
            counter: &counter,
            tell: &|message| Ok(port.send(&message)?),
            record: task.record,
            leaves: &leaves,
        };
        let disk = Disk {
            root: &root,
            device,
            overlay: task.overlay,
        };
        let worked = run(&runner, &disk);
        reports.push(worked.with_context(|| program.name.clone())?);
    }
    Ok(reports)
}

fn set_clock() -> Result<()> {
    let now = libc::timespec {
        tv_sec: NOW,
        tv_nsec: 0,
    };
    // SAFETY: a valid pointer for the duration of the call.
    let result = unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const now) };
    nix::errno::Errno::result(result)
        .map(drop)
        .context("clock_settime")
}

fn run(runner: &Runner<'_>, disk: &Disk<'_>) -> Result<Worked> {
    let mut worked = Worked::from(runner.count()?);
    if worked.complaint.is_empty() && runner.record {
        runner.say("identifying the pages of")?;
        worked.executables = identify(runner.root, runner.first_mapping())?;
    }
    if worked.complaint.is_empty() {
        runner.look(&mut worked.of)?;
        worked.predicted = predict(&worked.of.text, disk)?;
    }
    Ok(worked)
}
