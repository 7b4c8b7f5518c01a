// SPDX-License-Identifier: GPL-2.0-only
//! What `ps`, `top`, `metrics` and `collapse` have in common on the command line: the options that
//! choose a CPU and processes, and the CPU in words.

use crate::usage::Usage;
use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};
use wideleaf_containers::{Containers, Wanted};
use wideleaf_kit::size::short;
use wideleaf_procmap::{Select, Within};
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
    /// Only processes in containers of this pod, by its name or as NAMESPACE/POD
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,
    /// Only processes in this container, by its name or the beginning of its id
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
}

/// The option that chooses processes by what they were made from.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Image {
    /// Only processes in containers of this image, as `node:22` or by its whole name
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
}

/// Where runtimes keep what they know.
const ROOT: &str = "/";

impl Choice {
    /// Whether it chooses any.
    pub fn any(&self) -> bool {
        let given = [&self.cgroup, &self.name, &self.pod, &self.container];
        given.iter().any(|given| given.is_some())
    }

    /// As the reader wants it; of containers of `image`, if one is given.
    ///
    /// # Errors
    ///
    /// If no container is known by such a name.
    pub fn select(&self, image: Option<&str>) -> Result<Select> {
        let mut select = wideleaf_procset::select(self.name.as_deref(), self.cgroup.as_deref());
        let wanted = Wanted {
            pod: self.pod.clone(),
            container: self.container.clone(),
            image: image.map(str::to_owned),
        };
        if wanted.any() {
            let known = containers();
            if let Err(error) = known.check(&wanted) {
                // A runtime that could not be asked may be the reason.
                let why = known.errors.iter().map(|error| format!("; {error}"));
                return Err(anyhow!("{error}{}", why.collect::<String>()));
            }
            select.within = Some(Within::new(known.takes(wanted, ROOT.into())));
        }
        Ok(select)
    }
}

/// The containers of this machine.
pub fn containers() -> Containers {
    Containers::look(Path::new(ROOT))
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
