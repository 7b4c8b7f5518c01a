// SPDX-License-Identifier: GPL-2.0-only
//! What a run shows while it goes on.

use crate::progress::Progress;
use crate::stdout::write_bytes;
use anyhow::Result;
use std::sync::Mutex;
use wideleaf_lab::events::{Event, Observer};

/// Draws the lab's events; tables go to standard output above them.
pub struct Screen(Mutex<Progress>);

impl Screen {
    /// An empty one.
    pub fn new() -> Self {
        Self(Mutex::new(Progress::new()))
    }

    /// Writes to standard output.
    ///
    /// # Errors
    ///
    /// As [`write_bytes`].
    pub fn print(&self, text: &str) -> Result<()> {
        let progress = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let write = || write_bytes(text.as_bytes());
        match &*progress {
            Progress::Live(bar) => bar.suspend(write),
            Progress::Lines { .. } => write(),
        }
    }
}

impl Observer for Screen {
    fn event(&self, event: Event<'_>) {
        use wideleaf_kbuild::{Event as Kernel, Events};
        let mut progress = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match event {
            Event::Step(text) => progress.event(Kernel::Step(text)),
            Event::Progress { done, total } => progress.event(Kernel::Progress { done, total }),
            Event::Note(text) => progress.event(Kernel::Note(text)),
            Event::Guest { variant, text } => {
                if let Progress::Live(bar) = &*progress {
                    bar.set_message(format!("{variant}: {text}"));
                }
            }
        }
    }
}
