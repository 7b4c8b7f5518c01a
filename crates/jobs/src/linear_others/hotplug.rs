// SPDX-License-Identifier: GPL-2.0-only
//! Memory that comes and goes: the host plugs it into the guest's virtio-mem device when asked.

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::inject::{self, Injection};
use wideleaf_guest::kit::linear;
use wideleaf_guest::kit::linear_owned::Owned;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;

/// For what new memory is used.
const POLICY: &str = "/sys/devices/system/memory/auto_online_blocks";

/// The blocks of memory.
const BLOCKS: &str = "/sys/devices/system/memory";

/// Bytes of one of them, in hexadecimal digits.
const BLOCK: &str = "/sys/devices/system/memory/block_size_bytes";

/// How long memory may take to come or go. Blocks are emptied page by page, and a kernel with KASAN
/// takes more than a minute for 1G on a busy host. Where a page cannot be moved at that moment, the
/// driver tries again after 50, 100 and 200 s (VIRTIO_MEM_RETRY_TIMER_MIN_MS).
const PATIENCE: Duration = Duration::from_secs(600);

/// How long allocations fail while memory is plugged. Adding 128M takes less.
const SHORT: Duration = Duration::from_secs(5);
const SHORT_TRIES: u32 = 10;

/// How much of what was plugged is used, in bytes at most.
const USED: u64 = 64 << 20;

/// For whom memory is that is plugged.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    /// For what can be moved elsewhere, so that all of it can go again.
    Movable,
    /// For anybody.
    Kernel,
}

/// Memory that is there.
#[derive(Debug)]
pub struct Plugged {
    /// What the linear map maps without it, and with it, in bytes.
    before: u64,
    with: u64,
}

/// Bytes in which memory comes and goes.
pub fn block() -> Result<u64> {
    let text = fs::read_to_string(BLOCK).context(BLOCK)?;
    u64::from_str_radix(text.trim(), 16).context(BLOCK)
}

/// Asks the host for memory and waits until the linear map maps all of it.
pub fn plug(port: &Port, bytes: u64, whom: Use) -> Result<Plugged> {
    let policy = match whom {
        Use::Movable => "online_movable",
        Use::Kernel => "online_kernel",
    };
    fs::write(POLICY, policy).context(POLICY)?;
    let before = mapped();
    ask(port, bytes)?;
    wait("plugged memory", || mapped() >= before + bytes)?;
    Ok(Plugged {
        before,
        with: mapped(),
    })
}

/// Plugs memory, uses some of it and has it taken away. What was in it must still be there, and the
/// linear map must map what it did before.
pub fn movable(port: &Port, bytes: u64) -> Result<()> {
    let plugged = plug(port, bytes, Use::Movable)?;
    let mut owned = Owned::filled(USED.min(bytes / 2), &mut Rng::with_seed(bytes))?;
    ask(port, 0)?;
    wait("memory gone", || mapped() <= plugged.before)?;
    let left = mapped();
    ensure!(
        left == plugged.before,
        "the linear map has {left} bytes, {} before memory came and went",
        plugged.before
    );
    owned.check_all().map(drop)
}

/// Plugs memory while one in ten allocations of the kernel's workers fails, the driver's among them,
/// and has it taken away once it is there: the driver tries again after 50 s. Returns how many
/// failed: none if the kernel has no such faults.
pub fn short(port: &Port, bytes: u64) -> Result<u64> {
    if !inject::possible() {
        return Ok(0);
    }
    fs::write(POLICY, "online_movable").context(POLICY)?;
    // A worker that begins meanwhile may add all of it before it is told to fail.
    for _ in 0..SHORT_TRIES {
        let failed = plug_short(port, bytes)?;
        if failed > 0 {
            return Ok(failed);
        }
    }
    bail!("no allocation failed, {SHORT_TRIES} times")
}

fn plug_short(port: &Port, bytes: u64) -> Result<u64> {
    let before = mapped();
    let injection = Injection::of_tasks()?;
    inject::make_workers_fail()?;
    ask(port, bytes)?;
    let begun = Instant::now();
    while begun.elapsed() < SHORT {
        inject::make_workers_fail()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let failed = injection.end()?;
    let all = || mapped() >= before + bytes;
    wait("memory after allocations failed", all)?;
    ask(port, 0)?;
    wait("memory gone after allocations failed", || {
        mapped() <= before
    })?;
    Ok(failed)
}

impl Plugged {
    /// Has as much of it taken away as nobody uses, a block at least. Returns how much.
    pub fn unplug_some(self, port: &Port) -> Result<u64> {
        let block = block()?;
        ask(port, 0)?;
        wait("a block of memory gone", || mapped() + block <= self.with)?;
        Ok(self.with - mapped())
    }
}

/// The bytes that the linear map maps, as the kernel counts. A split or a collapse changes one count
/// after the other, so the sum is believed once it was read three times in a row.
fn mapped() -> u64 {
    let read = || linear::leaves().values().sum::<u64>();
    let (mut sum, mut same, begun) = (read(), 1, Instant::now());
    while same < 3 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
        let next = read();
        same = if next == sum { same + 1 } else { 1 };
        sum = next;
    }
    sum
}

fn ask(port: &Port, bytes: u64) -> Result<()> {
    port.send(&Message::Plug { bytes })
        .context("cannot ask for memory")
}

fn wait(what: &str, done: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > PATIENCE {
            bail!(
                "no {what} in {} s; {} bytes are mapped; blocks of memory: {}",
                PATIENCE.as_secs(),
                mapped(),
                states()?
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// How many blocks of memory are in which state: `15 online, 1 offline`.
fn states() -> Result<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for block in fs::read_dir(BLOCKS).context(BLOCKS)? {
        // The folder has files too, and a block may go meanwhile.
        if let Ok(state) = fs::read_to_string(block?.path().join("state")) {
            *counts.entry(state.trim().into()).or_default() += 1;
        }
    }
    let words = counts
        .iter()
        .map(|(state, count)| format!("{count} {state}"));
    Ok(words.collect::<Vec<_>>().join(", "))
}
