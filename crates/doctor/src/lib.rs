// SPDX-License-Identifier: GPL-2.0-only
//! What a machine allows for wide text leaves: a list of checks, each with
//! what was found, why it matters, what to change and how to make it last.
//!
//! Everything is read through [`Host`], so that tests can present a machine
//! that is not there. Two things are tried out instead of deduced: `trial` asks
//! the kernel for a collapse, `link` links a program.

mod check;
mod collapse;
mod filesystems;
mod host;
mod kernel;
mod linear;
mod link;
mod means;
mod memory;
#[cfg(test)]
mod tests;
mod thp;
mod toolchain;
mod trial;

pub use check::{Check, Status};
pub use host::Host;

use wideleaf_cpu::Cpu;
use wideleaf_kit::size::short;

/// Makes all checks, in the order in which they build on each other.
pub fn examine(host: &Host, cpu: &Cpu) -> Vec<Check> {
    let release = kernel::release(host);
    let config = kernel::config(host);
    let mut checks = vec![kernel::version(&release), tlb(cpu)];
    checks.extend(thp::checks(host, &release, &config));
    checks.push(filesystems::text(host, &release, &config));
    checks.push(filesystems::tmpfs(host));
    checks.push(filesystems::read_ahead(host));
    let trials = filesystems::trials(host);
    checks.extend(collapse::checks(host, &release, &config, &trials));
    checks.push(means::check(host, &release, &trials));
    checks.push(memory::check(host));
    checks.extend(toolchain::checks(host));
    checks.push(linear::map(host));
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
