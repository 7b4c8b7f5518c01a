// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf policy`: how the kernel series read text, and why so.

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
    /// Run streams of touches through pristine kernels' rules and the series'
    ///
    /// A page cache and a page table in memory, no kernel: predicts bytes read, faults and
    /// leaves, not time. The lab measures the same on kernels that boot. With --trace the touches
    /// are those of real programs, which 'lab run program --trace' records.
    Simulate(simulate::Args),
}

/// Runs `wideleaf policy`.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::Simulate(args) => simulate::run(&args),
    }
}
