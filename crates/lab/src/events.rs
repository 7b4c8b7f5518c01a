// SPDX-License-Identifier: GPL-2.0-only
//! What work tells whoever draws it.

use wideleaf_kbuild::Variant;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A step begins; the one before it has ended.
    Step(&'a str),
    /// The current step got on. Comes often.
    Progress {
        /// Units done.
        done: u64,
        /// Units expected, where known.
        total: Option<u64>,
    },
    /// What a guest is doing.
    Guest {
        /// Whose kernel it runs.
        variant: Variant,
        /// In words.
        text: &'a str,
    },
    /// The user should know this.
    Note(&'a str),
}

/// Takes events, from several threads when two guests run.
pub trait Observer: Sync {
    /// Called from the thread that works; should return soon.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Sync> Observer for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
