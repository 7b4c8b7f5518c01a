// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf policy`: what the kernel's exec policy decides, and why.

mod explain;
mod simulate;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use std::process::ExitCode;
use wideleaf_policy::Table;
use wideleaf_size::{parse, short};

/// Arguments of `wideleaf policy`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Say which folios are read for a fault and which alignment a mapping gets
    ///
    /// Asks the same C code that a patched kernel runs. Each leaf that was considered is listed,
    /// widest first, with the rule that refused or took it. The rules are explained in
    /// docs/policy.md.
    Explain(Box<explain::Args>),
    /// Run streams of touches through pristine kernels' rules and the policy's
    ///
    /// A page cache and a page table in memory, no kernel: predicts bytes read, faults and
    /// leaves, not time. The lab measures the same on kernels that boot.
    Simulate(simulate::Args),
}

/// Runs `wideleaf policy`.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Explain(args) => explain::run(&args),
        Action::Simulate(args) => simulate::run(&args),
    }
}

/// The machine whose leaves are meant.
#[derive(clap::Args)]
struct Machine {
    /// arm64 or x86_64
    #[arg(long, default_value = host_arch())]
    arch: String,
    /// Base page size: 4K, 16K or 64K
    #[arg(long, value_parser = bytes, default_value = "4K", value_name = "SIZE")]
    page_size: u64,
}

fn host_arch() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x86_64"
    }
}

impl Machine {
    fn table(&self) -> Result<Table> {
        if !self.page_size.is_power_of_two() {
            bail!(
                "--page-size {} is not a power of two",
                short(self.page_size)
            );
        }
        let shift = self.page_size.trailing_zeros() as u8;
        Table::find(&self.arch, shift).with_context(|| {
            let known: Vec<String> = Table::all()
                .iter()
                .map(|table| format!("{} {}", table.arch(), short(1 << table.page_shift())))
                .collect();
            format!(
                "--arch {} --page-size {}: no such machine; there is {}",
                self.arch,
                short(self.page_size),
                known.join(", ")
            )
        })
    }
}

/// A size or an offset: `64K`, `512M`, `4096`, `0x1000`. Hexadecimal only here, because here
/// addresses and offsets are copied from `readelf` and `/proc/PID/maps`.
fn bytes(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16)
            .map_err(|error| format!("`{text}` is not a hexadecimal number: {error}")),
        None => parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn offsets_may_be_hexadecimal() {
        assert_eq!(bytes("0x1000"), Ok(4096));
        assert_eq!(bytes("37M"), Ok(37 << 20));
        assert!(bytes("0xg").is_err());
    }
}
