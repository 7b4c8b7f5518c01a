// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab`: boot pristine and patched kernels, run the same work in
//! both, print the figures side by side.

mod arguments;
mod execute;
mod figures;
mod files;
mod list;
mod matrix;
mod outcome;
mod repeat;
mod report;

use crate::stdout::tell;
use crate::usage::STATUS;
use anyhow::Result;
use arguments::RunArgs;
use clap::Subcommand;
use std::process::ExitCode;
use wideleaf_kbuild::Interrupted;

/// Arguments of `wideleaf lab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run a job with the pristine and the patched kernel and compare
    Run(Box<RunArgs>),
    /// Run many comparisons that a file lists, here or on a Slurm cluster
    Matrix(Box<matrix::Matrix>),
    /// Run one row of a matrix, on a node of a cluster
    #[command(hide = true)]
    MatrixRow(matrix::MatrixRow),
    /// Show results as one HTML page, commit their figures, fill tables of pages
    Report(report::Report),
    /// List jobs, bases, architectures, page sizes, file systems, profiles
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `wideleaf lab`.
///
/// # Errors
///
/// If a run fails; wrong usage is told here and becomes exit status 2.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::List { json } => list::run(json),
        Action::Matrix(matrix) => matrix.run(),
        Action::MatrixRow(row) => row.run(),
        Action::Report(report) => report.run(),
        Action::Run(args) => match args.targets() {
            Ok(targets) => interruptible(args.execute(&targets)),
            Err(error) => {
                tell!("wideleaf: {error:#}\nTry 'wideleaf lab run --help'.");
                Ok(ExitCode::from(STATUS))
            }
        },
    }
}

/// A signal that came while a kernel was being built, as shells report it.
fn interruptible(result: Result<ExitCode>) -> Result<ExitCode> {
    let signal = match &result {
        Err(error) => error.downcast_ref().map(|Interrupted(signal)| *signal),
        Ok(_) => None,
    };
    match (result, signal) {
        (Err(error), Some(signal)) => {
            tell!("wideleaf: {error:#}");
            Ok(ExitCode::from(128 + signal as u8))
        }
        (result, _) => result,
    }
}
