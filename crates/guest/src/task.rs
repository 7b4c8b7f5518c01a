// SPDX-License-Identifier: GPL-2.0-only
//! What the job's process does: mount the disk, make memory scarce, do the work.

use crate::jobs::{
    boot, contpte, entropy, exec, exec_sizes, fault, kunit, linear_map, linear_others,
    linear_storm, linear_work, maintenance, mm_selftests, program, shared_writes, sparse, storm,
};
use crate::kit::{huge_pages, memory};
use crate::place::Place;
use crate::port::Port;
use crate::protocol::{Job, Outcome, Task};
use crate::{jobs, setup};
use anyhow::Result;
use std::path::Path;

/// Runs a job's task to its end.
pub fn run(job: &Job, port: &Port) -> Result<Outcome> {
    if !jobs::wants_khugepaged(&job.task) {
        huge_pages::quiet_khugepaged()?;
    }
    let place = Place {
        window: job.disk.as_ref().map(setup::disk).transpose()?,
        device: job.disk.as_ref().map(|disk| disk.device.as_str()),
        cgroup: memory::arrange(&job.memory)?,
    };
    match &job.task {
        Task::Exec(options) => exec::job(options, &place, port),
        Task::ExecSizes { runs } => exec_sizes::job(runs, &place, port),
        Task::Sparse(options) => sparse::job(options, &place, port),
        Task::Kunit => kunit::collect(Path::new(kunit::DEBUGFS)).map(Outcome::Kunit),
        Task::Programs { root, programs } => program::job(root, programs, place.device, port),
        Task::Entropy { root, loads, cases } => entropy::job(root, *loads, cases, port),
        Task::MmSelftests(options) => mm_selftests::run(options, port).map(Outcome::MmSelftests),
        Task::Storm(options) => storm::job(options, port).map(Outcome::Storm),
        Task::Boot => boot::run(),
        Task::Maintenance => maintenance::run(),
        Task::LinearMap => Ok(linear_map::look()),
        Task::LinearStorm(options) => linear_storm::run(options, port).map(Outcome::Linear),
        Task::LinearOthers(options) => linear_others::run(options, port).map(Outcome::Linear),
        Task::LinearWork(options) => linear_work::run(options, port).map(Outcome::Linear),
        Task::Contpte { folder } => contpte::job(folder, port),
        Task::SharedWrites(options) => shared_writes::job(options, port),
        Task::SelftestFault { fault } => fault::commit(*fault),
    }
}
