// SPDX-License-Identifier: GPL-2.0-only
//! What this process was started with and Rust's runtime changes before main():
//! SIGPIPE is ignored, closed standard streams are opened on /dev/null
//! (library/std/src/sys/pal/unix/mod.rs, `init()`). A program that is started
//! in our place must find both as they were.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// A bit for each of the descriptors 0, 1, 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before the runtime, so nothing of it may be used.
extern "C" fn look() {
    // SAFETY: both calls take integers and a place of ours to write to, and
    // change nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0 {
            let ignored = action.sa_sigaction == libc::SIG_IGN;
            SIGPIPE_IGNORED.store(ignored, Ordering::Relaxed);
        }
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            }
        }
    }
}

// SAFETY: the section is a table of functions without arguments that are called
// one after the other before main(); `look` is one.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Makes both what they were. Whoever runs this has to exec next.
pub fn restore() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    let handler = match SIGPIPE_IGNORED.load(Ordering::Relaxed) {
        true => SigHandler::SigIgn,
        false => SigHandler::SigDfl,
    };
    // SAFETY: neither runs code of ours.
    let _ = unsafe { signal(Signal::SIGPIPE, handler) };
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed & 1 << fd != 0) {
        // SAFETY: nothing is written or read between here and exec, but for a
        // message if that fails, which may be lost.
        let _ = unsafe { libc::close(fd) };
    }
}
