// SPDX-License-Identifier: GPL-2.0-only
//! Signals that end or stop `wideleaf top`: the terminal has to be as it was
//! before they take effect.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag::{register, register_usize};
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signals that came.
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
