// SPDX-License-Identifier: GPL-2.0-only
//! What the job's process does: mount the disk, do the work.

use crate::port::Port;
use crate::protocol::{Job, Outcome, Task};
use crate::{exec, fault, kunit, setup};
use anyhow::Result;
use std::path::Path;

/// Runs a job's task to its end.
pub fn run(job: &Job, port: &Port) -> Result<Outcome> {
    let window = job.disk.as_ref().map(setup::disk).transpose()?;
    let disk = job.disk.as_ref().zip(window);
    match &job.task {
        Task::Exec(options) => exec::job(options, disk, port),
        Task::Kunit => kunit::collect(Path::new(kunit::DEBUGFS)).map(Outcome::Kunit),
        Task::Boot => Ok(Outcome::Boot),
        Task::SelftestFault { fault } => fault::commit(*fault),
    }
}
