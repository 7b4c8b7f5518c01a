// SPDX-License-Identifier: GPL-2.0-only
//! What a pass over processes came across, besides the processes.

use serde::Serialize;
use wideleaf_procmap::{Process, Sight};

/// What a pass came across.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// Processes reported, those without text included.
    pub processes: usize,
    /// Kernel threads and zombies among them.
    pub without_text: usize,
    /// Processes whose leaves below PMD size are unknown.
    pub partly: usize,
    /// Processes of which only the size of the text is known.
    pub blind: usize,
    /// Processes that ended before or while they were read.
    pub vanished: Vec<u32>,
    /// Processes that may not be read.
    pub denied: Vec<u32>,
    /// What the kernel refused of those that were asked for by number, as messages.
    #[serde(skip)]
    pub refusals: Vec<String>,
    /// Anything else that went wrong, as messages.
    pub failed: Vec<String>,
}

impl Seen {
    /// Counts a process that was read.
    pub fn note(&mut self, process: &Process) {
        self.processes += 1;
        self.without_text += usize::from(process.mappings.is_empty());
        self.partly += usize::from(process.total.unknown > 0);
        self.blind += usize::from(process.sight == Sight::Maps);
    }
}
