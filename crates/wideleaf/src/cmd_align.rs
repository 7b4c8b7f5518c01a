// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align`: moves a file's segments to offsets that wide leaves can map.

mod args;
mod files;
mod images;
mod tree;

pub use args::Args;

use anyhow::Result;
use std::process::ExitCode;

/// Runs `wideleaf align`.
///
/// # Errors
///
/// If nothing says where results go, if standard output cannot be written, or if several results
/// are to go to what is no folder. Files that are refused are named on standard error and in the
/// exit status.
pub fn run(args: Args) -> Result<ExitCode> {
    args.check_destination()?;
    match () {
        () if args.oci => images::run(&args),
        () if args.recursive => tree::run(&args),
        () => files::run(&args),
    }
}
