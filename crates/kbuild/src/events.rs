// SPDX-License-Identifier: GPL-2.0-only
//! What work tells whoever draws it.

/// Something that happened while a kernel was being made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A step begins: `unpacking linux-source-6.12 6.12.117-1~deb12u1`.
    Step(&'a str),
    /// The current step got on. Counts files; comes often.
    Progress {
        /// Files done.
        done: u64,
        /// Files expected, where a former build tells.
        total: Option<u64>,
    },
    /// The current step waits for another run.
    Waiting(&'a str),
    /// The user should know this.
    Note(&'a str),
}

/// Takes events.
pub trait Events {
    /// Called from the thread that works; should return soon.
    fn event(&mut self, event: Event<'_>);
}

impl<F: FnMut(Event<'_>)> Events for F {
    fn event(&mut self, event: Event<'_>) {
        self(event);
    }
}
