// SPDX-License-Identifier: GPL-2.0-only
//! What a run shows while it goes on.

use crate::progress::Progress;
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
    pub fn print(&self, text: &str) {
        use std::io::Write;
        let progress = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let write = || {
            let mut out = std::io::stdout().lock();
            // A reader that has seen enough, such as head(1), is no error.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        match &*progress {
            Progress::Live(bar) => bar.suspend(write),
            Progress::Lines { .. } => write(),
        }
    }
}

impl Observer for Screen {
    fn event(&self, event: Event<'_>) {
        use wideleaf_kernel::{Event as Kernel, Events};
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
