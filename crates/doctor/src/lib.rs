// SPDX-License-Identifier: GPL-2.0-only
//! What a machine allows for wide text leaves: a list of checks, each with
//! what was found, why it matters, what to change and how to make it last.
//!
//! Everything is read through [`Host`], so that tests can present a machine
//! that is not there.

mod collapse;
mod filesystems;
mod host;
mod kernel;
#[cfg(test)]
mod tests;
mod thp;
mod toolchain;

pub use host::Host;

use serde::Serialize;
use wideleaf_cpu::Cpu;
use wideleaf_size::short;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As good as it gets on this machine.
    Good,
    /// Something can be changed for wider leaves.
    Improve,
    /// Nothing to change, but good to know.
    Note,
    /// It could not be found out.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// A short name that does not change, for scripts.
    pub id: &'static str,
    /// What was looked at.
    pub title: &'static str,
    /// The outcome.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// Why it matters for the leaves of text.
    pub why: &'static str,
    /// What to do now; empty if nothing.
    pub change: String,
    /// How to make that last over a reboot; empty if nothing.
    pub persist: String,
}

impl Check {
    fn new(id: &'static str, title: &'static str, why: &'static str) -> Self {
        let status = Status::Unknown;
        Self {
            id,
            title,
            status,
            found: String::new(),
            why,
            change: String::new(),
            persist: String::new(),
        }
    }

    fn good(self, found: impl Into<String>) -> Self {
        Self {
            status: Status::Good,
            found: found.into(),
            ..self
        }
    }

    fn note(self, found: impl Into<String>) -> Self {
        Self {
            status: Status::Note,
            found: found.into(),
            ..self
        }
    }

    fn unknown(self, found: impl Into<String>) -> Self {
        Self {
            status: Status::Unknown,
            found: found.into(),
            ..self
        }
    }

    fn improve(
        self,
        found: impl Into<String>,
        change: impl Into<String>,
        persist: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Improve,
            found: found.into(),
            change: change.into(),
            persist: persist.into(),
            ..self
        }
    }
}

/// Makes all checks, in the order in which they build on each other.
pub fn examine(host: &Host, cpu: &Cpu) -> Vec<Check> {
    let release = kernel::release(host);
    let config = kernel::config(host);
    let mut checks = vec![kernel::version(&release), tlb(cpu)];
    checks.extend(thp::checks(host, &release, &config));
    let text = filesystems::text(host, &release, &config);
    let large = text.status == Status::Good;
    checks.push(text);
    checks.push(filesystems::tmpfs(host));
    checks.extend(collapse::checks(host, &release, &config, large));
    checks.extend(toolchain::checks(host));
    checks
}

fn tlb(cpu: &Cpu) -> Check {
    let check = Check::new(
        "cpu-tlb",
        "TLBs of the CPU",
        "text that needs more entries than the TLBs have misses all day; a wider leaf makes one entry reach further",
    );
    let Some(tlb) = &cpu.tlb else {
        return check.unknown(format!(
            "{}: neither the CPU nor a table tells the sizes; {}",
            cpu.name, cpu.coalesce.why
        ));
    };
    let reach = |level: u8| {
        let entries = tlb.entries(level);
        let sizes: Vec<String> = [4u64 << 10, 2 << 20]
            .iter()
            .map(|leaf| {
                format!(
                    "{}iB by {} leaves",
                    short(u64::from(entries) * leaf),
                    short(*leaf)
                )
            })
            .collect();
        format!(
            "level {level}: {entries} entries for instructions ({})",
            sizes.join(", ")
        )
    };
    let levels: Vec<String> = (1..=tlb.last_level().unwrap_or(1)).map(reach).collect();
    check.note(format!(
        "{}; {}; {} [{}]",
        cpu.name,
        levels.join("; "),
        cpu.coalesce.why,
        tlb.source
    ))
}
