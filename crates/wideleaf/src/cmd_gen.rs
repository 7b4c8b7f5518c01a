// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf gen`: manual pages and shell completions, made from the same
//! definitions that parse the command line.

use crate::stdout::write_out;
use anyhow::{Context, Result};
use clap::{Command, Subcommand};
use clap_complete::Shell;
use roff::{Roff, roman};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `wideleaf gen`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf gen man /usr/local/share/man/man1
  wideleaf gen completions bash >/etc/bash_completion.d/wideleaf")]
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
            command.build();
            pages(&command, "wideleaf", &folder)?;
        }
        What::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut command, "wideleaf", &mut out);
            write_out(&String::from_utf8_lossy(&out))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A page for a command, and for each of its commands.
fn pages(command: &Command, name: &str, folder: &Path) -> Result<()> {
    let path = folder.join(format!("{name}.1"));
    let page = page(command, name).with_context(|| path.display().to_string())?;
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    let below = command.get_subcommands();
    for sub in below.filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), folder)?;
    }
    Ok(())
}

/// The page of clap_mangen, but for the text after the options: that has
/// columns and command lines, which it would run together.
fn page(command: &Command, name: &str) -> std::io::Result<Vec<u8>> {
    let after = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string);
    let bare = command.clone().after_help("").after_long_help("");
    // The names of pages are 'static for clap; there are a few dozen.
    let name: &'static str = name.to_owned().leak();
    let man = clap_mangen::Man::new(bare.name(name).display_name(name));
    let mut page = Vec::new();
    man.render(&mut page)?;
    if let Some(after) = after {
        page.extend_from_slice(as_it_stands(&after).as_bytes());
    }
    Ok(page)
}

/// A section whose lines stay lines.
fn as_it_stands(text: &str) -> String {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]).control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []).to_roff()
}
