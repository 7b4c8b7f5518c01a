// SPDX-License-Identifier: GPL-2.0-only
//! Where a task runs: its disk, its cgroup, its CPU.

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::path::PathBuf;
use wideleaf_bench::exec::Surroundings;

/// Where a task runs.
#[derive(Debug)]
pub struct Place<'a> {
    /// Name of the disk's device, if there is a disk.
    pub device: Option<&'a str>,
    /// The disk's readahead window in KiB as the kernel has it.
    pub window: Option<u32>,
    /// The cgroup that limits this process' memory, if one does.
    pub cgroup: Option<PathBuf>,
    /// The child that holds memory so that little is free, if one does.
    pub holder: Option<Pid>,
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

/// Keeps this thread on one CPU.
pub fn pin_to(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    let pinned = set
        .set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.with_context(|| format!("CPU {cpu}"))
}
