// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf gen`: manual pages and shell completions, made from the same
//! definitions that parse the command line.

use crate::stdout::write_out;
use anyhow::{Context, Result};
use clap::{Command, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `wideleaf gen`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write a manual page for each command
    Man {
        /// Folder to write to, for example /usr/local/share/man/man1; made if
        /// it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the completions for a shell
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

/// Runs `wideleaf gen` on the definition of the whole command line.
pub fn run(args: Args, mut command: Command) -> Result<ExitCode> {
    match args.what {
        What::Man { folder } => {
            let context = || folder.display().to_string();
            std::fs::create_dir_all(&folder).with_context(context)?;
            clap_mangen::generate_to(command, &folder).with_context(context)?;
        }
        What::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut command, "wideleaf", &mut out);
            write_out(&String::from_utf8_lossy(&out))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
