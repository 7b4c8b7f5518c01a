// SPDX-License-Identifier: GPL-2.0-only
//! What the job's process does: mount the disk, make memory scarce, do the work.

use crate::port::Port;
use crate::protocol::{Job, Outcome, Task};
use crate::{entropy, exec, fault, kunit, memory, program, selftests, setup, sparse};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use wideleaf_bench::exec::Surroundings;

/// Where a task runs.
#[derive(Debug)]
pub struct Place<'a> {
    /// Name of the disk's device, if there is a disk.
    device: Option<&'a str>,
    /// The disk's readahead window in KiB as the kernel has it.
    pub window: Option<u32>,
    /// The cgroup that limits this process' memory, if one does.
    cgroup: Option<PathBuf>,
}

impl Place<'_> {
    /// The same for a benchmark, which needs a disk.
    pub fn surroundings(&self) -> Result<Surroundings> {
        let device = self
            .device
            .context("the job needs a disk, and names none")?;
        Ok(Surroundings::guest(device, self.cgroup.clone()))
    }
}

/// Runs a job's task to its end.
pub fn run(job: &Job, port: &Port) -> Result<Outcome> {
    // The base's selftests set khugepaged as they need it.
    if !matches!(job.task, Task::MmSelftests(_)) {
        setup::quiet_khugepaged()?;
    }
    let place = Place {
        window: job.disk.as_ref().map(setup::disk).transpose()?,
        device: job.disk.as_ref().map(|disk| disk.device.as_str()),
        cgroup: memory::arrange(&job.memory)?,
    };
    match &job.task {
        Task::Exec(options) => exec::job(options, &place, port),
        Task::ExecSizes { runs } => exec::sizes(runs, &place, port),
        Task::Sparse(options) => sparse::job(options, &place, port),
        Task::Kunit => kunit::collect(Path::new(kunit::DEBUGFS)).map(Outcome::Kunit),
        Task::Programs { root, programs } => program::job(root, programs, place.device, port),
        Task::Entropy { root, loads, cases } => entropy::job(root, *loads, cases, port),
        Task::MmSelftests(options) => selftests::run(options, port).map(Outcome::MmSelftests),
        Task::Boot => Ok(Outcome::Boot),
        Task::SelftestFault { fault } => fault::commit(*fault),
    }
}
