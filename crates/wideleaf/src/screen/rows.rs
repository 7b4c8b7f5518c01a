// SPDX-License-Identifier: GPL-2.0-only
//! The state of a matrix's rows, in one line.

use std::time::Instant;
use wideleaf_kit::events::Row;

/// The rows that a matrix is about to do.
pub struct Rows {
    all: usize,
    done: usize,
    failed: usize,
    left: usize,
    /// Rows that run: since when, and where.
    running: Vec<(String, Instant, String)>,
}

impl Rows {
    /// So many, none of which has begun.
    pub fn new(all: usize) -> Self {
        Self {
            all,
            done: 0,
            failed: 0,
            left: 0,
            running: Vec::new(),
        }
    }

    /// Counts what became of `row`.
    pub fn take(&mut self, row: &str, now: Row<'_>) {
        match now {
            Row::Began(place) => {
                let began = (row.into(), Instant::now(), place.into());
                self.running.push(began);
                return;
            }
            Row::Done => self.done += 1,
            Row::Failed(_) => self.failed += 1,
            Row::Left(_) => self.left += 1,
        }
        self.running.retain(|(name, ..)| name != row);
    }

    /// How many have not ended.
    pub fn to_go(&self) -> usize {
        self.all.saturating_sub(self.done + self.failed + self.left)
    }

    /// `3 of 72 done, 1 failed, 68 to go; running a 0:07 on node1, b 0:12`
    pub fn line(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_runs_and_what_is_left() {
        let mut rows = Rows::new(5);
        for (row, now) in [
            ("a", Row::Began("")),
            ("b", Row::Began("node2")),
            ("a", Row::Done),
            ("c", Row::Began("")),
            ("c", Row::Failed("x")),
        ] {
            rows.take(row, now);
        }
        assert_eq!(
            rows.line(),
            "1 of 5 done, 1 failed, 3 to go; running b 0:00 on node2"
        );
    }
}
