// SPDX-License-Identifier: GPL-2.0-only
//! The `wideleaf` command: the lab, the kernel series and the tool in one
//! static binary, which is also the lab guest's init.

mod cmd_bench;
mod cmd_cache;
mod cmd_doctor;
mod cmd_gen;
mod cmd_inspect;
mod cmd_kernel;
mod cmd_lab;
mod cmd_metrics;
mod cmd_policy;
mod cmd_ps;
mod cmd_top;
mod procset;
mod progress;
mod stdout;
mod table;
mod top_app;
#[cfg(test)]
mod top_tests;
mod top_view;

use clap::{CommandFactory, Parser, Subcommand};
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
    /// Tell what this machine allows, what to change and how to persist it
    Doctor(cmd_doctor::Args),
    /// Write manual pages and shell completions
    Gen(cmd_gen::Args),
    /// Tell which leaves could map a file's text, and why not wider ones
    Inspect(cmd_inspect::Args),
    /// Get kernel sources, build kernels, export and check the patch series
    Kernel(cmd_kernel::Args),
    /// Run the same work with pristine and patched kernels and compare
    Lab(cmd_lab::Args),
    /// Export the coverage of each service for Prometheus
    Metrics(cmd_metrics::Args),
    /// Explain or simulate what the kernel's exec policy decides
    Policy(cmd_policy::Args),
    /// Show which leaves map the text of running processes
    Ps(cmd_ps::Args),
    /// Show the same live, with the text of a process drawn
    Top(cmd_top::Args),
}

impl Command {
    /// Whether it feeds other programs, whose death must be an error and not
    /// its own end.
    fn writes_to_pipes_of_its_own(&self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Lab(_) | Self::Metrics(_))
    }
}

/// Has SIGPIPE end the program, as in C: `wideleaf ps | head` is no error.
fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: the default action runs no code of ours.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

fn main() -> ExitCode {
    if wideleaf_guest::init::wanted() {
        wideleaf_guest::init::main();
    }
    let command = Cli::parse().command;
    if !command.writes_to_pipes_of_its_own() {
        end_with_the_reader();
    }
    let result = match command {
        Command::Bench(args) => cmd_bench::run(args),
        Command::Cache(args) => cmd_cache::run(args),
        Command::Doctor(args) => cmd_doctor::run(args),
        Command::Gen(args) => cmd_gen::run(args, Cli::command()),
        Command::Inspect(args) => cmd_inspect::run(args),
        Command::Kernel(args) => cmd_kernel::run(args),
        Command::Lab(args) => cmd_lab::run(args),
        Command::Metrics(args) => cmd_metrics::run(args),
        Command::Policy(args) => cmd_policy::run(args),
        Command::Ps(args) => cmd_ps::run(args),
        Command::Top(args) => cmd_top::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("wideleaf: {error:#}");
        ExitCode::FAILURE
    })
}
