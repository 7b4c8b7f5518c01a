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
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// Names of jobs and what [`Task`] calls them, where that is something else.
const KINDS: [(&str, &str); 2] = [("program", "programs"), ("selftest", "selftest-fault")];

/// The task of a job.
pub fn of(job: &Job) -> Result<Task> {
    let mut task = match &job.task {
        Value::Object(fields) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    let known = KINDS.iter().find(|(name, _)| *name == job.name);
    let kind = known.map_or(job.name.as_str(), |(_, kind)| kind);
    task.insert("kind".into(), kind.into());
    serde_json::from_value(Value::Object(task))
        .with_context(|| format!("{}: no task that this guest understands", job.name))
}

/// Runs a job's task to its end.
pub fn run(job: &Job, port: &Port) -> Result<Value> {
    let outcome = run_task(job, &of(job)?, port)?;
    Ok(serde_json::to_value(outcome)?)
}

fn run_task(job: &Job, task: &Task, port: &Port) -> Result<Outcome> {
    if !jobs::wants_khugepaged(task) {
        huge_pages::quiet_khugepaged()?;
    }
    let place = Place {
        window: job.disk.as_ref().map(setup::disk).transpose()?,
        device: job.disk.as_ref().map(|disk| disk.device.as_str()),
        cgroup: memory::arrange(&job.memory)?,
    };
    match task {
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
