// SPDX-License-Identifier: GPL-2.0-only
//! Work that the kernel does through its linear map, in phases that the plugin counts: files read
//! from the page cache, requests answered over a socket, blocks written to an encrypted disk, by
//! ourselves and by fio, permissions changed and changed back.

use super::disk::Disk;
use super::fio::Fio;
use super::{NAME, Task};
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, setrlimit};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use wideleaf_guest::kit::linear;
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_guest::kit::linear_change::{Secret, allow_secrets};
use wideleaf_guest::kit::marker;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct LinearWork;

/// The registry's entry.
pub const WORK: LinearWork = LinearWork;

impl Work for LinearWork {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = LinearReport;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<LinearReport> {
        run(task, port)
    }
}

/// Bytes of a random read, and of a value that is asked for.
const PIECE: usize = 4096;
const VALUE: usize = 1024;

/// Bytes that are taken between a change and the next, so that they are in different leaves.
const APART: usize = 2 << 20;

/// Bytes of a pipe, the most that one has (fs.pipe-max-size).
const PIPE: usize = 1 << 20;

/// Where a pipe is read, and where it is written.
type Pipe = (OwnedFd, File);

/// How long the map may take to become wide again.
const SETTLE: Duration = Duration::from_secs(6);

/// One page of secret memory that comes and goes: how often, and how long each is there and gone.
const LOOPS: u64 = 2000;
const LOOP: Duration = Duration::from_millis(5);

/// The phases by number.
const PHASES: [&str; 10] = [
    "scan",
    "read",
    "request",
    "encrypt",
    "fio",
    "change",
    "restore",
    "settle",
    "read-again",
    "loop",
];

/// Does it.
fn run(options: &Task, port: &Port) -> Result<LinearReport> {
    for (nth, name) in (1..).zip(PHASES) {
        port.send(&Message::Phase {
            id: nth,
            name: name.into(),
        })?;
    }
    allow_secrets()?;
    allow_pipes(options.changes)?;
    let file = filled(options.size)?;
    let mut disk = Disk::new(options.disk, options.seed)?;
    linear::count_collapses()?;
    let mut report = LinearReport::default();
    linear::rest();
    linear::take(&mut report, "boot");
    phase("scan", || scan(&file, options.size))?;
    phase("read", || read(&file, options))?;
    phase("request", || requests(options))?;
    phase("encrypt", || disk.write(options.calls, options.seed))?;
    disk.check().context("the encrypted disk")?;
    let writes = options.calls.min(disk.blocks());
    let fio = Fio::new(&options.root, disk.path(), writes, options.seed)?;
    phase("fio", || fio.write())?;
    fio.check()?;
    let changes = if Secret::is_possible() {
        options.changes
    } else {
        0
    };
    let (mut secrets, _between) = change(changes)?;
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
    // As before the first reads: what the collapse invalidated is in the TLB again.
    scan(&file, options.size)?;
    phase("read-again", || read(&file, options))?;
    let loops = if changes > 0 { LOOPS } else { 0 };
    phase("loop", || come_and_go(loops))?;
    linear::take(&mut report, "looped");
    linear::take_longest_hold(&mut report);
    report.counts.insert("loops".into(), loops);
    report.counts.insert("changes".into(), changes);
    report.counts.insert("calls".into(), options.calls);
    report.counts.insert("checked_bytes".into(), disk.size());
    Ok(report)
}

fn phase(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let number = PHASES.iter().position(|known| *known == name);
    marker::enter(number.context("a phase")? as u8 + 1);
    let result = work();
    marker::leave();
    result.with_context(|| name.to_string())
}

/// Makes secret areas, each of a page, and pipes that keep them apart.
fn change(changes: u64) -> Result<(Vec<Secret>, Vec<Pipe>)> {
    let (mut secrets, mut between) = (Vec::new(), Vec::new());
    // Without changes the phase has counts too.
    phase("change", || Ok(()))?;
    for nth in 0..changes {
        phase("change", || {
            let page = wideleaf_bench::page_size() as usize;
            secrets.extend(Secret::new(page, nth)?);
            Ok(())
        })?;
        for _ in 0..APART / PIPE {
            between.push(full_pipe().context("memory between changes")?);
        }
    }
    ensure!(secrets.len() as u64 == changes, "no memory for secrets");
    Ok((secrets, between))
}

/// The same leaf is split, and becomes wide if the kernel lets it, again and again.
fn come_and_go(loops: u64) -> Result<()> {
    for nth in 0..loops {
        let page = wideleaf_bench::page_size() as usize;
        let secret = Secret::new(page, nth)?.context("no memory for a secret")?;
        std::thread::sleep(LOOP);
        drop(secret);
        std::thread::sleep(LOOP);
    }
    Ok(())
}

/// Memory that the kernel cannot move. Secret memory is of that kind, so who asks for some next gets
/// it from behind this.
fn full_pipe() -> Result<Pipe> {
    let (read, write) = nix::unistd::pipe()?;
    fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE as i32))?;
    let mut write = File::from(write);
    write.write_all(&vec![0; PIPE])?;
    Ok((read, write))
}

/// Lets this process have them all open, and some other files.
fn allow_pipes(changes: u64) -> Result<()> {
    let most = changes * (2 * APART / PIPE) as u64 + 100;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("RLIMIT_NOFILE")
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

fn read(file: &File, options: &Task) -> Result<()> {
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
fn requests(options: &Task) -> Result<()> {
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
