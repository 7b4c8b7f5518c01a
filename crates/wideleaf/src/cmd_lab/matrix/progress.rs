// SPDX-License-Identifier: GPL-2.0-only
//! What a matrix shows while it goes on: on a terminal one line of what runs and what is left,
//! elsewhere a line for each row that ended. Both go to standard error.

use crate::stdout::tell;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wideleaf_matrix::events::{Event, Observer};

/// Draws the events of a matrix.
pub struct Progress {
    bar: ProgressBar,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    all: usize,
    done: usize,
    failed: usize,
    left: usize,
    /// What runs, since when, and where.
    running: Vec<(String, Instant, String)>,
}

impl Progress {
    /// As standard error demands; shows nothing until rows are expected.
    pub fn new() -> Self {
        Self {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
            count: Mutex::default(),
        }
    }

    /// So many rows are about to be done.
    pub fn expect(&self, rows: usize) {
        self.lock().all = rows;
        if std::io::stderr().is_terminal() && rows > 0 {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.set_style(
                ProgressStyle::with_template("{spinner} {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Count> {
        self.count
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Count {
    fn take(&mut self, event: Event<'_>) {
        let ended = match event {
            Event::Began { row, place } => {
                self.running
                    .push((row.into(), Instant::now(), place.into()));
                return;
            }
            Event::Note(_) => return,
            Event::Done { row } => {
                self.done += 1;
                row
            }
            Event::Failed { row, .. } => {
                self.failed += 1;
                row
            }
            Event::Left { row, .. } => {
                self.left += 1;
                row
            }
        };
        self.running.retain(|(row, ..)| row != ended);
    }

    fn to_go(&self) -> usize {
        self.all.saturating_sub(self.done + self.failed + self.left)
    }

    /// `3 of 72 done, 1 failed, 68 to go; running a (node1), b`
    fn line(&self) -> String {
        let mut text = format!("{} of {} done", self.done, self.all);
        if self.failed > 0 {
            text += &format!(", {} failed", self.failed);
        }
        text += &format!(", {} to go", self.to_go());
        let running: Vec<_> = self
            .running
            .iter()
            .map(|(row, since, place)| {
                let seconds = since.elapsed().as_secs();
                let time = format!("{}:{:02}", seconds / 60, seconds % 60);
                match place.is_empty() {
                    true => format!("{row} {time}"),
                    false => format!("{row} {time} on {place}"),
                }
            })
            .collect();
        if !running.is_empty() {
            text += &format!("; running {}", running.join(", "));
        }
        text
    }
}

impl Observer for Progress {
    fn event(&self, event: Event<'_>) {
        let mut count = self.lock();
        count.take(event);
        let to_go = count.to_go();
        let line = match event {
            Event::Began { .. } => None,
            Event::Done { row } => Some(format!("{row}: done, {to_go} to go")),
            Event::Failed { row, reason } => Some(format!("{row}: failed: {reason}")),
            Event::Left { row, reason } => Some(format!("{row}: not done: {reason}")),
            Event::Note(text) => Some(text.to_string()),
        };
        self.bar.set_message(count.line());
        // What went well shows in the line that is redrawn.
        let is_drawn = !self.bar.is_hidden() && matches!(event, Event::Done { .. });
        if let Some(line) = line.filter(|_| !is_drawn) {
            self.bar.suspend(|| tell!("wideleaf: {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_runs_and_what_is_left() {
        let mut count = Count {
            all: 5,
            ..Count::default()
        };
        let began = |row, place| Event::Began { row, place };
        for event in [
            began("a", ""),
            began("b", "node2"),
            Event::Done { row: "a" },
            began("c", ""),
            Event::Failed {
                row: "c",
                reason: "x",
            },
        ] {
            count.take(event);
        }
        assert_eq!(
            count.line(),
            "1 of 5 done, 1 failed, 3 to go; running b 0:00 on node2"
        );
    }
}
