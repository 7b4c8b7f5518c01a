// SPDX-License-Identifier: GPL-2.0-only
//! The `wideleaf` command: the lab, the kernel series and the tool in one
//! static binary, which is also the lab guest's init.

mod cmd_bench;
mod cmd_cache;
mod cmd_inspect;
mod cmd_kernel;
mod cmd_lab;
mod cmd_policy;
mod progress;
mod table;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Makes Linux map text by the widest leaf that the hardware can hold, and
/// proves it.
#[derive(Parser)]
#[command(name = "wideleaf", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the exec benchmark on this machine
    Bench(cmd_bench::Args),
    /// List or prune what the lab keeps in the user's cache folder
    Cache(cmd_cache::Args),
    /// Tell which leaves could map a file's text, and why not wider ones
    Inspect(cmd_inspect::Args),
    /// Get kernel sources, build kernels, export and check the patch series
    Kernel(cmd_kernel::Args),
    /// Run the same work with pristine and patched kernels and compare
    Lab(cmd_lab::Args),
    /// Explain or simulate what the kernel's exec policy decides
    Policy(cmd_policy::Args),
}

fn main() -> ExitCode {
    if wideleaf_guest::init::wanted() {
        wideleaf_guest::init::main();
    }
    let result = match Cli::parse().command {
        Command::Bench(args) => cmd_bench::run(args),
        Command::Cache(args) => cmd_cache::run(args),
        Command::Inspect(args) => cmd_inspect::run(args),
        Command::Kernel(args) => cmd_kernel::run(args),
        Command::Lab(args) => cmd_lab::run(args),
        Command::Policy(args) => cmd_policy::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("wideleaf: {error:#}");
        ExitCode::FAILURE
    })
}
