// SPDX-License-Identifier: GPL-2.0-only
//! A line on a terminal for what takes longer than one waits without a word.

use super::style::style;
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Work that takes longer shows how far it is.
const SILENT: Duration = Duration::from_secs(2);

/// Says how far work is, on standard error, until it is dropped.
pub struct Late {
    start: Instant,
    line: Option<ProgressBar>,
}

impl Late {
    /// Work begins.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            line: None,
        }
    }

    /// Shows what `text` gives, once it takes long.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if self.start.elapsed() < SILENT || !std::io::stderr().is_terminal() {
            return;
        }
        let line = self.line.get_or_insert_with(|| {
            let line = ProgressBar::new_spinner();
            line.set_style(style("{spinner} {wide_msg}"));
            line
        });
        line.set_message(text());
        line.tick();
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
