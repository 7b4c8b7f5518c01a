// SPDX-License-Identifier: GPL-2.0-only
//! What `ps`, `top` and `metrics` have in common: the options that choose a
//! CPU and processes, and one pass over them.

use crate::usage::{Usage, misuse};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wideleaf_cpu::{Coalesce, Cpu};
use wideleaf_kit::size::{parse, short};
use wideleaf_procmap::{Coverage, Error, Extent, Process, Reader, Scope, Select, Sight};

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
        Select {
            name: self.name.clone(),
            cgroup: self.cgroup.as_deref().map(cgroup_path),
        }
    }
}

/// `/sys/fs/cgroup/system.slice` and, for v1, `/sys/fs/cgroup/memory/x` as
/// /proc/PID/cgroup has them.
fn cgroup_path(given: &str) -> String {
    let Some(inside) = given.strip_prefix("/sys/fs/cgroup") else {
        return given.to_owned();
    };
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return if inside.is_empty() {
            "/".to_owned()
        } else {
            inside.to_owned()
        };
    }
    // v1 or hybrid: the first part is the hierarchy.
    let path = inside
        .trim_start_matches('/')
        .split_once('/')
        .map_or("", |(_, path)| path);
    format!("/{path}")
}

/// The CPU, the sizes and the reader.
pub struct Machinery {
    /// Counted for this CPU.
    pub cpu: Cpu,
    /// Base page size in bytes.
    pub page: u64,
    /// Bytes that a PMD maps.
    pub pmd: u64,
    /// Reads processes.
    pub reader: Reader,
}

impl Machinery {
    /// Detects or looks up the CPU and opens /proc.
    pub fn new(options: &MachineArgs) -> Result<Self> {
        let (page, pmd) = wideleaf_procmap::sizes(Path::new("/sys"));
        let cpu = choose_cpu(options.cpu.as_deref(), page)?;
        let reader = Reader::new(&options.proc, page, pmd, &cpu.coalesce.sizes);
        Ok(Self {
            cpu,
            page,
            pmd,
            reader,
        })
    }

    /// The leaf sizes that always have a column, widest first.
    pub fn leaves(&self) -> Vec<u64> {
        let between = self
            .cpu
            .coalesce
            .sizes
            .iter()
            .copied()
            .filter(|s| *s > self.page && *s < self.pmd);
        std::iter::once(self.pmd)
            .chain(between)
            .chain([self.page])
            .collect()
    }

    /// TLB entries that `coverage` needs and what the CPU has.
    pub fn pressure(&self, coverage: &Coverage) -> Pressure {
        let demand = coverage.entries(self.page);
        let tlb = self.cpu.tlb.as_ref();
        let last = tlb.and_then(wideleaf_cpu::Tlb::last_level);
        Pressure {
            needed: demand.values().sum(),
            needed_by_leaf: demand.clone(),
            entries_l1: tlb.map(|t| t.entries(1)).filter(|e| *e > 0),
            entries_last: tlb.zip(last).map(|(t, level)| t.entries(level)),
            load_l1: tlb.and_then(|t| t.load(1, &demand)),
            load_last: tlb.zip(last).and_then(|(t, level)| t.load(level, &demand)),
        }
    }

    /// One pass over `pids`, or over all processes. `take` gets each one that
    /// matches; mappings without resident text stay in.
    pub fn pass(
        &mut self,
        pids: Option<&[u32]>,
        scope: Scope,
        select: &Select,
        mut take: impl FnMut(Process),
    ) -> Result<Seen> {
        let all;
        let list = match pids {
            Some(pids) => pids,
            None => {
                all = self.reader.pids()?;
                &all
            }
        };
        self.reader.refresh();
        let mut seen = Seen::default();
        for &pid in list {
            match self.reader.read(pid, scope, select, &mut |_: Extent| {}) {
                Ok(None) => {}
                Ok(Some(process)) => {
                    seen.note(&process);
                    take(process);
                }
                Err(Error::Gone { .. }) => seen.vanished.push(pid),
                Err(Error::Denied { .. }) => seen.denied.push(pid),
                Err(error) => seen.failed.push(error.to_string()),
            }
        }
        Ok(seen)
    }

    /// What could not be seen in a pass and what would help, for a human.
    pub fn losses(&self, seen: &Seen) -> Vec<String> {
        let mut notes = Vec::new();
        if seen.partly > 0 {
            let why = self
                .reader
                .loss()
                .unwrap_or("page frame numbers are hidden (CAP_SYS_ADMIN)");
            notes.push(format!(
                "leaves below {} are unknown (?) for {} of {} processes read: {why}; run as root",
                short(self.pmd),
                seen.partly,
                seen.processes
            ));
        }
        if seen.blind > 0 {
            notes.push(format!(
                "of {} processes only the size of their text is known: pagemap is not readable",
                seen.blind
            ));
        }
        if !seen.denied.is_empty() {
            // Even root is refused by some sandboxes.
            let hint = if nix::unistd::geteuid().is_root() {
                ""
            } else {
                "; run as root"
            };
            notes.push(format!(
                "{} more may not be read at all{hint}",
                seen.denied.len()
            ));
        }
        notes.extend(seen.failed.iter().cloned());
        notes
    }
}

/// What a pass came across.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// Processes reported, those without text included.
    pub processes: usize,
    /// Kernel threads and zombies among them.
    pub without_text: usize,
    /// Processes whose leaves below PMD size are unknown.
    pub partly: usize,
    /// Processes of which only the size of the text is known.
    pub blind: usize,
    /// Processes that ended before or while they were read.
    pub vanished: Vec<u32>,
    /// Processes that may not be read.
    pub denied: Vec<u32>,
    /// Anything else that went wrong, as messages.
    pub failed: Vec<String>,
}

impl Seen {
    /// Counts a process that was read.
    pub fn note(&mut self, process: &Process) {
        self.processes += 1;
        self.without_text += usize::from(process.mappings.is_empty());
        self.partly += usize::from(process.total.unknown > 0);
        self.blind += usize::from(process.sight == Sight::Maps);
    }
}

/// TLB entries needed against those there are.
#[derive(Clone, Debug, Serialize)]
pub struct Pressure {
    /// Entries to reach every resident byte; an upper bound where leaves are
    /// unknown.
    pub needed: u64,
    /// The same by leaf size in bytes.
    pub needed_by_leaf: BTreeMap<u64, u64>,
    /// Entries of the first level for instructions, if known.
    pub entries_l1: Option<u32>,
    /// Entries of the last level for instructions, if known.
    pub entries_last: Option<u32>,
    /// 1.0: the first level would be just full.
    pub load_l1: Option<f64>,
    /// 1.0: the last level would be just full.
    pub load_last: Option<f64>,
}

fn choose_cpu(given: Option<&str>, page: u64) -> Result<Cpu> {
    let Some(given) = given else {
        return Ok(wideleaf_cpu::detect(Path::new("/sys"), page));
    };
    if let Some(cpu) = wideleaf_cpu::named(given, page) {
        return Ok(cpu);
    }
    let known = || {
        format!(
            "known names: {}; or sizes that it coalesces, like 16K,32K, or none",
            wideleaf_cpu::names().join(", ")
        )
    };
    let sizes: Result<Vec<u64>, _> = if given == "none" {
        Ok(Vec::new())
    } else {
        given.split(',').map(parse).collect()
    };
    let Ok(sizes) = sizes else {
        misuse!("--cpu {given}: no such CPU; {}", known())
    };
    let coalesce = Coalesce::given(sizes, page).ok_or_else(|| {
        Usage(format!(
            "--cpu {given}: each size must be a power of two of at least two pages of {}",
            short(page)
        ))
    })?;
    // The hardware is the one at hand, only its coalescing is replaced.
    Ok(Cpu {
        coalesce,
        ..wideleaf_cpu::detect(Path::new("/sys"), page)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_chosen_by_name_or_by_sizes() {
        assert_eq!(
            choose_cpu(Some("neoverse-v2"), 4096)
                .unwrap()
                .coalesce
                .sizes,
            [65536]
        );
        assert_eq!(
            choose_cpu(Some("16K,64K"), 4096).unwrap().coalesce.sizes,
            [65536, 16384]
        );
        assert!(
            choose_cpu(Some("none"), 4096)
                .unwrap()
                .coalesce
                .sizes
                .is_empty()
        );
        assert!(
            choose_cpu(Some("pentium"), 4096)
                .unwrap_err()
                .to_string()
                .contains("neoverse-v2")
        );
        assert!(
            choose_cpu(Some("24K"), 4096)
                .unwrap_err()
                .to_string()
                .contains("power of two")
        );
    }

    #[test]
    fn a_control_group_may_be_given_as_it_stands_in_proc() {
        assert_eq!(cgroup_path("/system.slice/x"), "/system.slice/x");
    }
}
