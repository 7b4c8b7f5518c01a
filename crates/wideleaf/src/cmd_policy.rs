// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf policy`: what the kernel's leaf policy decides, and why.

mod explain;
mod leaf_table;
mod replay;
mod simulate;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

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
    /// leaves, not time. The lab measures the same on kernels that boot. With --trace the touches
    /// are those of real programs, which 'lab run program --trace' records.
    Simulate(simulate::Args),
}

/// Runs `wideleaf policy`.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Explain(args) => explain::run(&args),
        Action::Simulate(args) => simulate::run(&args),
    }
}
