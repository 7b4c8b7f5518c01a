// SPDX-License-Identifier: GPL-2.0-only
//! The `wideleaf` command: the lab, the kernel series and the tool in one
//! static binary.

mod cmd_align;
mod cmd_bench;
mod cmd_cache;
mod cmd_collapse;
mod cmd_doctor;
mod cmd_enable;
mod cmd_fill;
mod cmd_gen;
mod cmd_inspect;
mod cmd_keep;
mod cmd_kernel;
mod cmd_lab;
mod cmd_metrics;
mod cmd_policy;
mod cmd_ps;
mod cmd_run;
mod cmd_stage;
mod cmd_top;
mod cmd_try;
mod columns;
mod help;
mod made_text;
mod order;
mod procset;
mod screen;
mod stdout;
mod top_app;
mod top_signals;
#[cfg(test)]
mod top_tests;
mod top_view;
mod usage;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use stdout::tell;
use usage::Usage;

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
    /// Move a file's segments to offsets that wide leaves can map
    Align(cmd_align::Args),
    /// Run the exec benchmark on this machine
    Bench(cmd_bench::Args),
    /// List or prune what the lab keeps in the user's cache folder
    Cache(cmd_cache::Args),
    /// Map the text of running processes by wide leaves, if the kernel can
    Collapse(cmd_collapse::Args),
    /// Report what this machine allows, and what to change
    Doctor(cmd_doctor::Args),
    /// Undo enable, byte for byte
    Disable(cmd_enable::DisableArgs),
    /// Write what keeps text wide from the next boot on, and show it first
    Enable(cmd_enable::Args),
    /// Read the text of files into the page cache by wide folios
    Fill(cmd_fill::Args),
    /// Write manual pages and shell completions
    Gen(cmd_gen::Args),
    /// Report which leaves could map a file's text, and why not wider ones
    Inspect(cmd_inspect::Args),
    /// Keep programs, services and container images wide
    Keep(cmd_keep::Args),
    /// Get kernel sources, build kernels, export and check the patch series
    Kernel(cmd_kernel::Args),
    /// Run the same work with pristine and patched kernels and compare
    Lab(cmd_lab::Args),
    /// Export the coverage of each service for Prometheus
    Metrics(cmd_metrics::Args),
    /// Simulate how rules for reads treat the text of programs
    Policy(cmd_policy::Args),
    /// Show which leaves map the text of running processes
    Ps(cmd_ps::Args),
    /// Start a program with its text mapped by wide leaves
    Run(cmd_run::Args),
    /// Put aligned copies of programs on huge pages in their place
    Stage(cmd_stage::Args),
    /// Show which leaves map the text of running processes, live
    Top(cmd_top::Args),
    /// Run a command plainly and with wide text in turns, and compare
    Try(cmd_try::Args),
    /// Undo stage
    Unstage(cmd_stage::UnstageArgs),
}

impl Command {
    /// Whether it feeds other programs, whose death must be an error and not
    /// its own end.
    fn writes_to_pipes_of_its_own(&self) -> bool {
        matches!(
            self,
            Self::Kernel(_) | Self::Lab(_) | Self::Metrics(_) | Self::Keep(_) | Self::Try(_)
        )
    }
}

/// Has SIGPIPE end the program, as in C: `wideleaf ps | head` is no error.
fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: the default action runs no code of ours.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

/// Help, the version, or what is wrong with the command line.
fn told(error: &clap::Error) -> ExitCode {
    match error.print() {
        // A reader that has seen enough: `wideleaf --help | head`.
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            tell!("wideleaf: cannot write: {why}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(error.exit_code() as u8),
    }
}

fn main() -> ExitCode {
    let line = cmd_lab::with_job(std::env::args_os().collect());
    let parsed = help::grouped(Cli::command()).try_get_matches_from(&line);
    let command = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli.command,
        Err(error) => match cmd_lab::explain(&error, &line) {
            Some(why) => {
                tell!("wideleaf: {why}\nTry 'wideleaf lab run --help'.");
                return ExitCode::from(usage::STATUS);
            }
            None => return told(&error),
        },
    };
    if !command.writes_to_pipes_of_its_own() {
        end_with_the_reader();
    }
    let result = match command {
        Command::Align(args) => cmd_align::run(args),
        Command::Bench(args) => cmd_bench::run(args),
        Command::Cache(args) => cmd_cache::run(args),
        Command::Collapse(args) => cmd_collapse::run(args),
        Command::Doctor(args) => cmd_doctor::run(args),
        Command::Disable(args) => cmd_enable::disable(args),
        Command::Enable(args) => cmd_enable::run(args),
        Command::Fill(args) => cmd_fill::run(args),
        Command::Gen(args) => cmd_gen::run(args, help::with_examples(Cli::command())),
        Command::Inspect(args) => cmd_inspect::run(args),
        Command::Keep(args) => cmd_keep::run(args),
        Command::Kernel(args) => cmd_kernel::run(args),
        Command::Lab(args) => cmd_lab::run(args),
        Command::Metrics(args) => cmd_metrics::run(args),
        Command::Policy(args) => cmd_policy::run(args),
        Command::Ps(args) => cmd_ps::run(args),
        Command::Run(args) => cmd_run::run(args),
        Command::Stage(args) => cmd_stage::run(args),
        Command::Top(args) => cmd_top::run(args),
        Command::Try(args) => cmd_try::run(args),
        Command::Unstage(args) => cmd_stage::unstage(args),
    };
    result.unwrap_or_else(|error| {
        tell!("wideleaf: {error:#}");
        match error.is::<Usage>() {
            true => ExitCode::from(usage::STATUS),
            false => ExitCode::FAILURE,
        }
    })
}
