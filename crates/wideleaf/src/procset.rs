// SPDX-License-Identifier: GPL-2.0-only
//! What `ps`, `top`, `metrics` and `collapse` have in common on the command line: the options that
//! choose a CPU and processes, and the CPU in words.

use crate::usage::Usage;
use anyhow::Result;
use std::path::PathBuf;
use wideleaf_kit::size::short;
use wideleaf_procmap::Select;
pub use wideleaf_procset::{Machinery, Pressure, Seen};

/// Options that say what the leaves are measured against.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineArgs {
    /// Count for this CPU instead of the one at hand: a name (an unknown one
    /// lists all) or the sizes that it coalesces, like 16K,32K or none
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<String>,
    /// Where the proc file system to look at is mounted
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/proc",
        hide_short_help = true
    )]
    pub proc: PathBuf,
}

impl MachineArgs {
    /// What they ask for.
    pub fn machinery(&self) -> Result<Machinery> {
        let machine = Machinery::new(&self.proc, self.cpu.as_deref());
        Ok(machine.map_err(|error| Usage(error.to_string()))?)
    }
}

/// Options that choose processes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    /// Only processes in this control group or below it, as a path in
    /// /sys/fs/cgroup or as /proc/PID/cgroup shows it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// Only processes whose command or executable has this name; `*` stands
    /// for any characters
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

impl Choice {
    /// As the reader wants it.
    pub fn select(&self) -> Select {
        wideleaf_procset::select(self.name.as_deref(), self.cgroup.as_deref())
    }
}

/// What the figures are counted for, in three lines for a human.
pub fn describe(machine: &Machinery) -> String {
    let cpu = &machine.cpu;
    let sizes: Vec<String> = machine.leaves().iter().map(|s| short(*s)).collect();
    let tlb = cpu.tlb.as_ref().map_or_else(
        || "TLB sizes are unknown for this CPU".to_owned(),
        |tlb| {
            let last = tlb.last_level().unwrap_or(1);
            let second = if last > 1 {
                format!(" and {} (level {last})", tlb.entries(last))
            } else {
                String::new()
            };
            format!(
                "TLB entries for instructions: {} (level 1){second}; from {}",
                tlb.entries(1),
                tlb.source
            )
        },
    );
    format!(
        "CPU: {} ({})\nleaves: {}; {}\n{tlb}",
        cpu.name,
        cpu.origin,
        sizes.join(", "),
        cpu.coalesce.why
    )
}
