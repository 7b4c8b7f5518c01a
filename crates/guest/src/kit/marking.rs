// SPDX-License-Identifier: GPL-2.0-only
//! A benchmark's phases, told to the plugin by markers and to the host by messages.

use crate::kit::marker;
use crate::port::Port;
use crate::protocol::Message;
use anyhow::Result;
use wideleaf_bench::exec::{Phase, Watcher};

/// The `nth` run of a benchmark in this guest, counted from 0: its cold phase has the number
/// 2 × n + 1, its random one 2 × n + 2, and its mapping is known as n + 1.
#[derive(Debug)]
pub struct Marking<'a> {
    port: &'a Port,
    nth: u8,
}

impl<'a> Marking<'a> {
    /// Tells the host the names of the phases: `cold` and `random` after `prefix`.
    pub fn announce(port: &'a Port, nth: usize, prefix: &str) -> Result<Self> {
        let marking = Self {
            port,
            nth: u8::try_from(nth)?,
        };
        for (phase, name) in [(Phase::Cold, "cold"), (Phase::Random, "random")] {
            port.send(&Message::Phase {
                id: marking.number(phase),
                name: format!("{prefix}{name}"),
            })?;
        }
        Ok(marking)
    }

    fn number(&self, phase: Phase) -> u8 {
        match phase {
            Phase::Cold => 2 * self.nth + 1,
            Phase::Random => 2 * self.nth + 2,
        }
    }
}

impl Watcher for Marking<'_> {
    #[inline(never)]
    fn enter(&mut self, phase: Phase) {
        marker::enter(self.number(phase));
    }

    #[inline(never)]
    fn leave(&mut self) {
        marker::leave();
    }

    fn look(&mut self, address: u64, len: u64) {
        marker::coverage(address, len, u64::from(self.nth) + 1);
    }

    fn begin(&mut self, phase: Phase, text: &str) {
        let message = Message::Begin {
            phase: self.number(phase),
            text: text.into(),
        };
        // As below.
        let _ = self.port.send(&message);
    }

    fn progress(&mut self, text: &str) {
        // Only decoration; the result will fail loudly if the port is gone.
        let _ = self.port.send(&Message::Progress { text: text.into() });
    }
}
