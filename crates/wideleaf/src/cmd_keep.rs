// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf keep`: a list of programs, services and images stays wide.

use crate::cmd_metrics::put;
use crate::stdout::{printable_path, tell};
use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_keep::{Changes, Config, InVain, Pass, pass, render};
use wideleaf_kit::names::printable;

/// Arguments of `wideleaf keep`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Each pass looks at the files' text in the page cache and widens what has become
narrow: after a boot, an upgrade or a reclaim. A line on standard error tells each
change; there is none while all is well. The file is read again before each pass.

The file is TOML. Name at least one of programs, services, images, containers and
pods; all else may be left out:
  programs = [\"/usr/bin/node\"]        absolute paths
  libs = true                          their libraries, too
  services = [\"nginx.service\"]         or control groups by path
  images = [\"docker.io/library/node\"]  of podman or docker, else what runs of them
  containers = [\"web\"]                by name or id
  pods = [\"shop/web-0\"]               by name, or with the namespace
  means = [\"fill\", \"collapse\"]         and \"stage\", for programs
  interval = 60                        seconds between passes
  limit = \"512M\"                       new folios in a pass
  reclaim = true                       page cache may go for them
  rate = \"50M\"                         read in a second
  metrics = \"/var/lib/prometheus/node-exporter/wideleaf-keep.prom\"

Killed at any point it leaves nothing to undo. A second one with the same file
ends with an error.

Exit status: 1 an error; 2 usage; with --once 0 all is wide, 3 some is not.

Examples:
  wideleaf keep /etc/wideleaf/keep.toml
  wideleaf keep --once ./keep.toml")]
pub struct Args {
    /// The file that says what to keep wide
    #[arg(value_name = "CONFIG", default_value = "/etc/wideleaf/keep.toml")]
    config: PathBuf,
    /// End after one pass
    #[arg(long)]
    once: bool,
}

/// Something is not wide.
const LEFT: u8 = 3;

/// Runs `wideleaf keep`.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut config = Config::read(&args.config)?;
    let _lock = lock(&args.config)?;
    let mut changes = Changes::default();
    let mut in_vain = InVain::default();
    loop {
        let pass = pass(&config, &mut in_vain).context("cannot look at the page cache")?;
        changes.since(&pass).iter().for_each(|line| say(line));
        write_metrics(&config, &pass);
        if args.once {
            let wide = pass.files.iter().all(|file| file.wide == file.blocks);
            return Ok(match wide && pass.notes.is_empty() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(LEFT),
            });
        }
        std::thread::sleep(config.pause());
        match Config::read(&args.config) {
            Ok(new) if new == config => {}
            Ok(new) => {
                say(&format!("{}: read again", args.config.display()));
                config = new;
            }
            Err(why) => say(&format!("{why}; the settings before are kept")),
        }
    }
}

fn say(line: &str) {
    tell!("wideleaf: keep: {}", printable(line));
}

/// Held as long as the value lives, and by no process that has ended.
fn lock(path: &Path) -> Result<Flock<File>> {
    let file = File::open(path).with_context(|| printable_path(path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
            bail!(
                "{}: another wideleaf keep works by this file: end it first",
                printable_path(path)
            )
        }
        Err((_, errno)) => bail!("{}: cannot be locked: {errno}", printable_path(path)),
    }
}

/// A file that cannot be written is told of and tried again.
fn write_metrics(config: &Config, pass: &Pass) {
    if let Some(path) = &config.metrics
        && let Err(why) = put(path, &render(pass))
    {
        say(&why.to_string());
    }
}
