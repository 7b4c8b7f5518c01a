// SPDX-License-Identifier: GPL-2.0-only
//! Draws what the kernel crate tells of its work: a live line on a terminal,
//! plain lines at milestones elsewhere. Both go to standard error.

use crate::stdout::tell;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use wideleaf_kbuild::{Event, Events};

/// Elsewhere than on a terminal, a line about progress comes this often.
const EVERY: Duration = Duration::from_secs(30);

/// Draws events.
pub enum Progress {
    /// On a terminal.
    Live(ProgressBar),
    /// In a pipe or file.
    Lines {
        /// When the last line about progress was written.
        last: Instant,
    },
}

impl Progress {
    /// As standard error demands.
    pub fn new() -> Self {
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(200));
            Self::Live(bar)
        } else {
            Self::Lines {
                last: Instant::now(),
            }
        }
    }
}

impl Events for Progress {
    fn event(&mut self, event: Event<'_>) {
        match self {
            Self::Live(bar) => draw(bar, event),
            Self::Lines { last } => print(last, event),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn draw(bar: &ProgressBar, event: Event<'_>) {
    match event {
        Event::Step(text) => {
            bar.unset_length();
            bar.set_style(style("{spinner} {msg} ({elapsed})"));
            bar.reset_elapsed();
            bar.set_message(text.to_string());
        }
        Event::Progress { done, total } => {
            match total {
                Some(total) => {
                    bar.set_style(style("{msg} [{bar:30}] {pos}/{len} files ({elapsed})"));
                    bar.set_length(total);
                }
                None => bar.set_style(style("{spinner} {msg} {pos} files ({elapsed})")),
            }
            bar.set_position(done);
        }
        Event::Waiting(text) => bar.set_message(format!("waiting for {text}")),
        Event::Note(text) => bar.suspend(|| tell!("wideleaf: {text}")),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn print(last: &mut Instant, event: Event<'_>) {
    match event {
        Event::Step(text) => {
            *last = Instant::now();
            tell!("wideleaf: {text}");
        }
        Event::Progress { done, total } => {
            if last.elapsed() >= EVERY {
                *last = Instant::now();
                let of = total.map_or(String::new(), |total| format!(" of {total}"));
                tell!("wideleaf: {done}{of} files");
            }
        }
        Event::Waiting(text) => tell!("wideleaf: waiting for {text}"),
        Event::Note(text) => tell!("wideleaf: {text}"),
    }
}
