// SPDX-License-Identifier: GPL-2.0-only
//! Work that the kernel does through its linear map, in phases that the plugin counts: files read
//! from the page cache, requests answered over a socket, permissions changed and changed back.

use crate::linear;
use crate::linear_change::{Secret, allow_secrets};
use crate::marker;
use crate::port::Port;
use crate::protocol::{LinearReport, LinearWorkOptions, Message};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Bytes of a random read, and of a value that is asked for.
const PIECE: usize = 4096;
const VALUE: usize = 1024;

/// How long the map may take to become wide again.
const SETTLE: Duration = Duration::from_secs(6);

/// The phases by number.
const PHASES: [&str; 7] = [
    "scan",
    "read",
    "request",
    "change",
    "restore",
    "settle",
    "read-again",
];

/// Does it.
pub fn run(options: &LinearWorkOptions, port: &Port) -> Result<LinearReport> {
    for (nth, name) in (1..).zip(PHASES) {
        port.send(&Message::Phase {
            id: nth,
            name: name.into(),
        })?;
    }
    allow_secrets()?;
    let file = filled(options.size)?;
    let mut report = LinearReport::default();
    linear::rest();
    linear::take(&mut report, "boot");
    phase("scan", || scan(&file, options.size))?;
    phase("read", || read(&file, options))?;
    phase("request", || requests(options))?;
    let mut secrets = Vec::new();
    let changes = if Secret::is_possible() {
        options.changes
    } else {
        0
    };
    phase("change", || {
        for nth in 0..changes {
            let page = wideleaf_bench::page_size() as usize;
            secrets.extend(Secret::new(page, nth)?);
        }
        Ok(())
    })?;
    ensure!(secrets.len() as u64 == changes, "no memory for secrets");
    linear::take(&mut report, "changed");
    phase("restore", || {
        secrets.clear();
        Ok(())
    })?;
    phase("settle", || {
        std::thread::sleep(SETTLE);
        Ok(())
    })?;
    linear::take(&mut report, "settled");
    phase("read-again", || read(&file, options))?;
    report.counts.insert("changes".into(), changes);
    report.counts.insert("calls".into(), options.calls);
    Ok(report)
}

fn phase(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let number = PHASES.iter().position(|known| *known == name);
    marker::enter(number.context("a phase")? as u8 + 1);
    let result = work();
    marker::leave();
    result.with_context(|| name.to_string())
}

/// A file in the page cache.
fn filled(size: u64) -> Result<File> {
    let file = memfd_create(c"cached", MFdFlags::empty()).context("memfd_create")?;
    let mut file = File::from(file);
    let piece = vec![1; 1 << 20];
    for _ in 0..size >> 20 {
        file.write_all(&piece).context("a file in the page cache")?;
    }
    Ok(file)
}

fn scan(file: &File, size: u64) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    for at in (0..size).step_by(buffer.len()) {
        file.read_exact_at(&mut buffer, at)?;
    }
    Ok(())
}

fn read(file: &File, options: &LinearWorkOptions) -> Result<()> {
    let mut rng = Rng::with_seed(options.seed);
    let mut buffer = [0; PIECE];
    for _ in 0..options.calls {
        let at = rng.u64(..options.size / PIECE as u64) * PIECE as u64;
        file.read_exact_at(&mut buffer, at)?;
    }
    Ok(())
}

/// Values in memory are asked for over a socket, as of a cache server; one process is both ends,
/// so that it does not depend on who runs when.
fn requests(options: &LinearWorkOptions) -> Result<()> {
    let values = vec![3_u8; options.size as usize / 4];
    let (mut client, mut server) = UnixStream::pair().context("socketpair")?;
    let mut rng = Rng::with_seed(options.seed);
    let (mut key, mut value) = ([0; 8], [0; VALUE]);
    let slots = (values.len() / VALUE).max(1);
    for _ in 0..options.calls {
        client.write_all(&rng.u64(..slots as u64).to_ne_bytes())?;
        server.read_exact(&mut key)?;
        let slot = u64::from_ne_bytes(key) as usize;
        server.write_all(&values[slot * VALUE..][..VALUE])?;
        client.read_exact(&mut value)?;
        ensure!(value[VALUE - 1] == 3, "a wrong answer");
    }
    Ok(())
}
