// SPDX-License-Identifier: GPL-2.0-only
//! Draws the events of all work: a live line on a terminal, plain lines at milestones elsewhere.
//! Both go to standard error; what is printed meanwhile goes to standard output above the line.

mod late;
mod rows;
mod style;

use crate::stdout::{tell, write_bytes};
use anyhow::Result;
use indicatif::ProgressBar;
pub use late::Late;
use rows::Rows;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use style::style;
use wideleaf_kit::events::{Event, Observer, Row};

/// Elsewhere than on a terminal, a line about progress comes this often.
const EVERY: Duration = Duration::from_secs(30);

/// Draws events until it is dropped.
pub struct Screen {
    /// On a terminal: the line that is drawn anew.
    line: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    /// When the last line about progress was written.
    last: Instant,
    /// A matrix's rows, from when they are about to be done.
    rows: Option<Rows>,
}

impl Screen {
    /// As standard error demands.
    pub fn new() -> Self {
        let line = std::io::stderr().is_terminal().then(|| {
            let line = ProgressBar::new_spinner();
            line.enable_steady_tick(Duration::from_millis(200));
            line
        });
        let state = Mutex::new(State {
            last: Instant::now(),
            rows: None,
        });
        Self { line, state }
    }

    /// Writes to standard output.
    ///
    /// # Errors
    ///
    /// As [`write_bytes`].
    pub fn print(&self, text: &str) -> Result<()> {
        let _state = self.lock();
        self.above(|| write_bytes(text.as_bytes()))
    }

    /// Does `write` with the live line out of its way.
    fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.line {
            Some(line) => line.suspend(write),
            None => write(),
        }
    }

    fn say(&self, text: &str) {
        self.above(|| tell!("wideleaf: {text}"));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn progress(&self, state: &mut State, done: u64, total: Option<u64>) {
        if let Some(line) = &self.line {
            count(line, done, total);
        } else if state.last.elapsed() >= EVERY {
            state.last = Instant::now();
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            self.say(&format!("{done}{of} files"));
        }
    }

    fn row(&self, state: &mut State, row: &str, now: Row<'_>) {
        let mut to_go = String::new();
        if let Some(rows) = &mut state.rows {
            rows.take(row, now);
            to_go = format!(", {} to go", rows.to_go());
            self.show(rows);
        }
        match now {
            Row::Began(_) => {}
            // What went well shows in the line that is redrawn.
            Row::Done if self.line.is_some() => {}
            Row::Done => self.say(&format!("{row}: done{to_go}")),
            Row::Failed(reason) => self.say(&format!("{row}: failed: {reason}")),
            Row::Left(reason) => self.say(&format!("{row}: not done: {reason}")),
        }
    }

    fn show(&self, rows: &Rows) {
        if let Some(line) = &self.line {
            line.set_message(rows.line());
        }
    }
}

impl Observer for Screen {
    fn event(&self, event: Event<'_>) {
        let mut state = self.lock();
        match (event, &self.line) {
            (Event::Step(text), Some(line)) => begin(line, text),
            (Event::Step(text), None) => {
                state.last = Instant::now();
                self.say(text);
            }
            (Event::Progress { done, total }, _) => self.progress(&mut state, done, total),
            (Event::Waiting(text), Some(line)) => line.set_message(format!("waiting for {text}")),
            (Event::Waiting(text), None) => self.say(&format!("waiting for {text}")),
            (Event::Guest { kernel, text }, Some(line)) => {
                line.set_message(format!("{kernel}: {text}"));
            }
            (Event::Guest { .. }, None) => {}
            (Event::Rows(all), line) => {
                if let Some(line) = line {
                    line.set_style(style("{spinner} {wide_msg}"));
                }
                self.show(state.rows.insert(Rows::new(all)));
            }
            (Event::Row { row, now }, _) => self.row(&mut state, row, now),
            (Event::Note(text), _) => self.say(text),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}

fn begin(line: &ProgressBar, text: &str) {
    line.unset_length();
    line.set_style(style("{spinner} {msg} ({elapsed})"));
    line.reset_elapsed();
    line.set_message(text.to_string());
}

fn count(line: &ProgressBar, done: u64, total: Option<u64>) {
    match total {
        Some(total) => {
            line.set_style(style("{msg} [{bar:30}] {pos}/{len} files ({elapsed})"));
            line.set_length(total);
        }
        None => line.set_style(style("{spinner} {msg} {pos} files ({elapsed})")),
    }
    line.set_position(done);
}
