// SPDX-License-Identifier: GPL-2.0-only
//! What work tells whoever draws it.

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A row began; `place` is the node it runs on, empty for this machine.
    Began {
        /// The row's name.
        row: &'a str,
        /// Where it runs.
        place: &'a str,
    },
    /// A row has results now.
    Done {
        /// The row's name.
        row: &'a str,
    },
    /// A row failed.
    Failed {
        /// The row's name.
        row: &'a str,
        /// Why, in a line.
        reason: &'a str,
    },
    /// A row is left for the next time, though nothing is wrong with it.
    Left {
        /// The row's name.
        row: &'a str,
        /// Why, in a line.
        reason: &'a str,
    },
    /// The user should know this.
    Note(&'a str),
}

/// Takes events, from several threads.
pub trait Observer: Sync {
    /// Called from the thread that works; should return soon.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Sync> Observer for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
