// SPDX-License-Identifier: GPL-2.0-only
//! What work says of itself to whoever draws it: one stream, from the builder of kernels, the
//! guests and the rows of a matrix up to the screen.

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A step begins, and the one before it has ended: `unpacking linux-source-6.12 6.12.117-1`.
    Step(&'a str),
    /// The current step got on. Comes often.
    Progress {
        /// Files done.
        done: u64,
        /// Files expected, where that is known.
        total: Option<u64>,
    },
    /// The current step waits for something: `another run that unpacks ...`.
    Waiting(&'a str),
    /// What a guest is doing.
    Guest {
        /// Which kernel it runs.
        kernel: &'a str,
        /// In words.
        text: &'a str,
    },
    /// So many rows of a matrix are about to be done.
    Rows(usize),
    /// Something became of a row of a matrix.
    Row {
        /// The row's name.
        row: &'a str,
        /// What became of it.
        now: Row<'a>,
    },
    /// The user should know this.
    Note(&'a str),
}

/// What became of a row of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// It began, on this node; empty: on this machine.
    Began(&'a str),
    /// It has results now.
    Done,
    /// It failed, for this reason, in a line.
    Failed(&'a str),
    /// It is left for the next time, for this reason, though nothing is wrong with it.
    Left(&'a str),
}

/// Takes events, from several threads when several guests run.
pub trait Observer: Sync {
    /// Called from the thread that works; should return soon.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Sync> Observer for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
