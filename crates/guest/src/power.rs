// SPDX-License-Identifier: GPL-2.0-only
//! Ends the machine.

use nix::sys::reboot::{RebootMode, reboot};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the job failed, so that tasks of it may hang.
static STUCK: AtomicBool = AtomicBool::new(false);

/// The job failed: what its tasks have written is not waited for.
pub fn do_not_wait() {
    STUCK.store(true, Ordering::Relaxed);
}

/// Ends the machine. If even that fails, PID 1 exits, which is a kernel panic and so no hang.
pub fn power_off() -> ! {
    // Where a task hangs in a file system, sync() would hang with it. What a failed job wrote
    // is of no use.
    if !STUCK.load(Ordering::Relaxed) {
        nix::unistd::sync();
    }
    // QEMU's microvm has no power button; it ends on a reset under -no-reboot.
    let mode = if cfg!(target_arch = "x86_64") {
        RebootMode::RB_AUTOBOOT
    } else {
        RebootMode::RB_POWER_OFF
    };
    let Err(error) = reboot(mode);
    eprintln!("wideleaf: cannot power off: {error}");
    std::process::exit(1)
}
