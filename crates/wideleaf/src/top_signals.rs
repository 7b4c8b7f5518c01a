// SPDX-License-Identifier: GPL-2.0-only
//! Signals that end or stop `wideleaf top`: the terminal has to be as it was
//! before they take effect.

use anyhow::{Context, Result};
use ratatui::crossterm::terminal::disable_raw_mode;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag::{register, register_usize};
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often the watching thread looks, in milliseconds.
const WATCH: i32 = 100;
/// How long the main thread may take to end after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that came.
#[derive(Clone)]
pub struct Signals {
    /// The one to end by, 0 for none.
    end: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
}

impl Signals {
    /// From here on signals are noted and do nothing else.
    pub fn register() -> Result<Self> {
        let signals = Self {
            end: Arc::default(),
            stop: Arc::default(),
            goes_on: Arc::default(),
        };
        let context = "cannot handle signals";
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
            register_usize(signal, signals.end.clone(), signal as usize).context(context)?;
        }
        register(SIGTSTP, signals.stop.clone()).context(context)?;
        register(SIGCONT, signals.goes_on.clone()).context(context)?;
        Ok(signals)
    }

    /// Starts a thread that ends the process if the main thread cannot: at the terminal's end
    /// crossterm reads 0 bytes for ever, and a write to a terminal that nobody reads never returns.
    pub fn watch(&self) -> Result<()> {
        let signals = self.clone();
        std::thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(move || signals.end_when_due())
            .context("cannot start the thread that watches the terminal")?;
        Ok(())
    }

    fn end_when_due(&self) {
        let mut ending_since = None;
        loop {
            if hung_up(WATCH) {
                // The terminal has gone: there is nothing to restore.
                let _ = emulate_default_handler(SIGHUP);
            }
            let since = ending_since.unwrap_or_else(Instant::now);
            ending_since = self.ending().then_some(since);
            if self.ending() && since.elapsed() >= GRACE {
                let _ = disable_raw_mode();
                self.end();
            }
        }
    }

    /// Whether it has to end.
    pub fn ending(&self) -> bool {
        self.end.load(Ordering::Relaxed) != 0
    }

    /// Whether it is to stop. Tells once.
    pub fn stopping(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Whether it was stopped and goes on. Tells once.
    pub fn continued(&self) -> bool {
        self.goes_on.swap(false, Ordering::Relaxed)
    }

    /// Stops, as Ctrl-Z would have; returns when it is continued.
    pub fn stop(&self) -> Result<()> {
        emulate_default_handler(SIGTSTP).context("cannot stop")?;
        self.goes_on.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Ends by the signal that came, if one did, so that whoever waits sees
    /// which.
    pub fn end(&self) {
        let signal = self.end.load(Ordering::Relaxed);
        if signal != 0 {
            let _ = emulate_default_handler(signal as i32);
        }
    }
}

/// Whether the terminal has gone, which poll(2) tells without being asked for anything.
fn hung_up(milliseconds: i32) -> bool {
    let mut polled = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: 0,
        revents: 0,
    };
    // SAFETY: the kernel writes to the one entry that is there.
    let ready = unsafe { libc::poll(&mut polled, 1, milliseconds) };
    ready > 0
}
