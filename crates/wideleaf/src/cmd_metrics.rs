// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf metrics`: coverage per service for the Prometheus there is.

use crate::procset::{Choice, Image, MachineArgs, Machinery, containers};
use crate::stdout::{tell, write_out};
use crate::usage::misuse;
use anyhow::{Context, Result, anyhow, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wideleaf_kit::fresh::folder;
use wideleaf_metrics::{Server, Snapshot, Wanted, render, replace, scrape};

/// Arguments of `wideleaf metrics`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Without --output and --listen the text is printed once.

Examples:
  wideleaf metrics --output /var/lib/prometheus/node-exporter/wideleaf.prom
  wideleaf metrics --listen 127.0.0.1:9752")]
pub struct Args {
    /// Write a file for node_exporter's textfile collector, replacing it in
    /// one step; its name has to end in .prom
    #[arg(short, long, value_name = "FILE", conflicts_with = "listen")]
    output: Option<PathBuf>,
    /// With --output: write again every so many seconds instead of once
    #[arg(long, value_name = "SECONDS", requires = "output", value_parser = clap::value_parser!(u64).range(1..))]
    interval: Option<u64>,
    /// Serve http://ADDRESS/metrics
    #[arg(short, long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9752")]
    listen: Option<SocketAddr>,
    /// Let --listen take an address that other machines can reach
    #[arg(long, requires = "listen")]
    allow_remote: bool,
    /// Parts of a control group's path that make a service
    #[arg(long, value_name = "N", default_value_t = 8)]
    depth: usize,
    /// At most this many services; the smallest others become "(other)"
    #[arg(long, value_name = "N", default_value_t = 500)]
    max_services: usize,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Runs `wideleaf metrics`.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut machine = args.machine.machinery()?;
    if let Some(address) = args.listen {
        return serve(&args, &mut machine, address);
    }
    let Some(path) = &args.output else {
        write_out(&render(&snapshot(&args, &mut machine)?))?;
        return Ok(ExitCode::SUCCESS);
    };
    if path.extension().is_none_or(|e| e != "prom") {
        misuse!(
            "--output {}: node_exporter reads only files whose name ends in .prom",
            path.display()
        );
    }
    let mut write = || -> Result<()> {
        let text = render(&snapshot(&args, &mut machine)?);
        put(path, &text).map_err(|why| anyhow!("--output {why:#}"))
    };
    let Some(seconds) = args.interval else {
        return write().map(|()| ExitCode::SUCCESS);
    };
    // A disk that is full now has room later; who reads the file sees its age.
    let mut last = String::new();
    loop {
        let failure = write().err().map_or(String::new(), |e| format!("{e:#}"));
        if failure != last {
            match failure.is_empty() {
                true => tell!("wideleaf: metrics: {} is written again", path.display()),
                false => tell!("wideleaf: metrics: {failure}; trying again every {seconds} s"),
            }
        }
        last = failure;
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

/// Replaces a file in one step.
///
/// # Errors
///
/// If there is no folder for it, or it cannot be written.
pub fn put(path: &Path, text: &str) -> Result<()> {
    let folder = folder(path);
    if !folder.is_dir() {
        bail!(
            "{}: there is no folder {}: make it first",
            path.display(),
            folder.display()
        );
    }
    replace(path, text).with_context(|| format!("{}: cannot write", path.display()))
}

fn serve(args: &Args, machine: &mut Machinery, address: SocketAddr) -> Result<ExitCode> {
    if !address.ip().is_loopback() && !args.allow_remote {
        misuse!(
            "--listen {address}: other machines could reach it; add --allow-remote if that is wanted"
        );
    }
    let mut server = Server::bind(address).with_context(|| format!("--listen {address}"))?;
    tell!(
        "wideleaf: metrics: serving http://{}/metrics",
        server.address()?
    );
    let mut content = || {
        snapshot(args, machine)
            .map(|s| render(&s))
            .map_err(Into::into)
    };
    Err(server.run(&mut content)).with_context(|| format!("--listen {address}"))
}

fn snapshot(args: &Args, machine: &mut Machinery) -> Result<Snapshot> {
    let wanted = Wanted {
        select: args.choice.select(args.image.image.as_deref())?,
        containers: containers(),
        depth: args.depth,
        max_services: args.max_services,
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(scrape(machine, &wanted)?)
}
