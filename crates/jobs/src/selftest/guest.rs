// SPDX-License-Identifier: GPL-2.0-only
//! Goes wrong on purpose, so that the lab can be seen to notice.

use super::{Fault, NAME, Report, Task};
use anyhow::{Context, Result, bail};
use std::fs;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::power::power_off;
use wideleaf_guest::protocol::Disk;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Selftest;

/// The registry's entry.
pub const WORK: Selftest = Selftest;

impl Work for Selftest {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn in_init(&self, task: &Task, _disk: Option<&Disk>) -> Result<()> {
        in_init(task.fault)
    }

    fn run(&self, task: &Task, _: &Place<'_>, _: &Port) -> Result<Report> {
        commit(task.fault).map(|()| Report {})
    }
}

const LKDTM: &str = "/sys/kernel/debug/provoke-crash/DIRECT";

/// Whether the fault has to happen in PID 1.
fn is_for_init(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Panic | Fault::InitExit | Fault::Freeze | Fault::EarlyPowerOff
    )
}

/// Commits it in PID 1 if it has to happen there.
fn in_init(fault: Fault) -> Result<()> {
    if is_for_init(fault) {
        commit(fault)?;
    }
    Ok(())
}

/// Commits it. Returns only if the guest is none the worse for it, or could not do it.
fn commit(fault: Fault) -> Result<()> {
    match fault {
        Fault::Panic => {
            // Without CONFIG_MAGIC_SYSRQ the loss of PID 1 panics just as well.
            let _ = fs::write("/proc/sysrq-trigger", "c");
            std::process::exit(1)
        }
        Fault::InitExit => std::process::exit(1),
        Fault::Warn => provoke("WARNING"),
        Fault::Oops => provoke("BUG"),
        Fault::Hang | Fault::Freeze => loop {
            nix::unistd::pause();
        },
        Fault::EarlyPowerOff => power_off(),
        Fault::JobCrash => {
            // SAFETY: none; to be killed for it is what was asked for.
            unsafe { std::ptr::null_mut::<u8>().write_volatile(0) };
            bail!("a write to address 0 went through")
        }
        Fault::JobPanic => panic!("asked to panic"),
        Fault::ConsoleGarbage => {
            let mut garbage: Vec<u8> = (0..=255).cycle().take(4096).collect();
            garbage.extend(
                b"\n{\"message\":\"done\",\"tainted\":0,\"uptime_cs\":1}\n{\"message\":\"err",
            );
            fs::write("/dev/console", garbage).context("/dev/console")?;
            Ok(())
        }
    }
}

/// Asks the kernel's own fault injector.
fn provoke(what: &str) -> Result<()> {
    fs::write(LKDTM, what).with_context(|| {
        format!("{LKDTM}: cannot provoke {what}; the kernel needs CONFIG_LKDTM")
    })?;
    Ok(())
}
