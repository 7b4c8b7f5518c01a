// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab`: boot pristine and patched kernels, run the same work in
//! both, print the figures side by side.

mod arguments;
mod command;
mod execute;
mod figures;
mod files;
mod list;
mod matrix;
mod outcome;
mod referee;
mod repeat;
mod report;

use crate::stdout::tell;
use crate::usage::STATUS;
use anyhow::Result;
use arguments::Run;
use clap::Subcommand;
use std::ffi::OsString;
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
    Run(Box<Run>),
    /// Run many comparisons that a file lists, here or on a Slurm cluster
    Matrix(Box<matrix::Matrix>),
    /// Run the rows of matrix files as tests: what passed with the same inputs is not run again
    Check(matrix::check::Check),
    /// Run one row of a matrix, on a node of a cluster
    #[command(hide = true)]
    MatrixRow(matrix::MatrixRow),
    /// Boot any kernel under the referee and report what is wrong with its TLB maintenance
    Referee(Box<referee::Referee>),
    /// Show results as one HTML page, commit their figures, fill tables of pages
    Report(report::Report),
    /// List jobs, bases, architectures, page sizes, file systems, profiles, faults
    List(list::List),
}

/// A command line with the job in front of what `lab run` takes.
pub fn with_job(mut line: Vec<OsString>) -> Vec<OsString> {
    if is_lab_run(&line) {
        let words = line.split_off(3);
        line.extend(command::with_job(words));
    }
    line
}

fn is_lab_run(line: &[OsString]) -> bool {
    line.len() > 2 && line[1] == "lab" && line[2] == "run"
}

/// The error of a command line, where clap cannot know.
pub fn explain(error: &clap::Error, line: &[OsString]) -> Option<String> {
    match is_lab_run(line) {
        true => command::explain(error, &line[3..]),
        false => None,
    }
}

/// Runs `wideleaf lab`.
///
/// # Errors
///
/// If a run fails; wrong usage is told here and becomes exit status 2.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::List(list) => list.run(),
        Action::Matrix(matrix) => matrix.run(),
        Action::Check(check) => interruptible(check.run()),
        Action::MatrixRow(row) => row.run(),
        Action::Referee(referee) => referee.run(),
        Action::Report(report) => report.run(),
        Action::Run(run) => match run.targets() {
            Ok(targets) => interruptible(run.execute(&targets)),
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
