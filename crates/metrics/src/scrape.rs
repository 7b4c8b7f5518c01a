// SPDX-License-Identifier: GPL-2.0-only
//! One look at all processes and at the kernel's own counts.

use crate::Snapshot;
use std::time::Instant;
use wideleaf_containers::Containers;
use wideleaf_procmap::{Error, Scope, Select, linear};
use wideleaf_procset::Machinery;

/// What is to be counted, and how finely.
#[derive(Debug)]
pub struct Wanted {
    /// Which processes.
    pub select: Select,
    /// The containers that are known.
    pub containers: Containers,
    /// Parts of a control group's path that make a service.
    pub depth: usize,
    /// Services at most; the smallest others are summed up.
    pub max_services: usize,
    /// Version of the program.
    pub version: &'static str,
}

/// Counts.
///
/// # Errors
///
/// If the list of processes cannot be read.
pub fn scrape(machine: &mut Machinery, wanted: &Wanted) -> Result<Snapshot, Error> {
    let started = Instant::now();
    let mut processes = Vec::new();
    let seen = machine.pass(None, Scope::Text, &wanted.select, |mut process| {
        process.mappings = Vec::new();
        processes.push(process);
    })?;
    let mut snapshot = Snapshot {
        page: machine.page,
        version: wanted.version,
        ..Snapshot::default()
    };
    for process in &processes {
        let pressure = machine.pressure(&process.total);
        snapshot.add(process, wanted.depth, pressure.needed, pressure.load_last);
    }
    snapshot.limit(wanted.max_services);
    snapshot.name(|cgroup| wanted.containers.of(cgroup));
    snapshot.unasked = wanted.containers.errors.len() as u64;
    if let Some(tlb) = &machine.cpu.tlb {
        let levels = 1..=tlb.last_level().unwrap_or(0);
        snapshot.tlb = levels.map(|level| (level, tlb.entries(level))).collect();
    }
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    snapshot.linear = linear::leaves(&text("/proc/meminfo"));
    snapshot.linear_events = linear::events(&text("/proc/vmstat"));
    snapshot.unreadable = vec![
        ("denied", seen.denied.len() as u64),
        ("failed", seen.failed.len() as u64),
    ];
    snapshot.partly = (seen.partly + seen.blind) as u64;
    snapshot.seconds = started.elapsed().as_secs_f64();
    Ok(snapshot)
}
