// SPDX-License-Identifier: GPL-2.0-only
//! Runs each rule through the touches of a trace: bytes read, faults, leaves.
//!
//! Each file has a page cache of its own; all processes of the program share one
//! page table. Only faults on text are known: what else is read of a file, its data and what the
//! loader looks at, is missing from both sides. A program is mapped as the series aligns it, and
//! that for pristine kernels too.

use crate::Table;
pub use crate::faults::Outcome;
use crate::faults::{self, Machine, Mapped};
use crate::strategy::Strategy;
use crate::trace::{File, PAGE_SHIFT, Trace};

/// The machine that a trace is run on.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Its leaves.
    pub table: Table,
    /// Readahead window in bytes.
    pub window: u64,
}

/// Runs a trace, with its pages made as wide as the machine's.
pub fn replay(trace: &Trace, strategy: Strategy, on: &Conditions) -> Outcome {
    let mut sum = Outcome::default();
    for (number, file) in (0..).zip(&trace.files) {
        let touches = trace.touches.iter().filter(|touch| touch.file == number);
        let touches: Vec<_> = touches.map(|t| u64::from(t.page) << PAGE_SHIFT).collect();
        sum += faults::run(strategy, &machine(file, on), &touches);
    }
    sum
}

fn machine(file: &File, on: &Conditions) -> Machine {
    let texts = file.text.iter().filter(|text| text.size > 0);
    let mapped = texts.map(|text| Mapped {
        range: text.offset..text.offset + text.size,
        congruent: (text.address ^ text.offset).trailing_zeros().min(63) as u8,
    });
    Machine {
        table: on.table,
        file_size: file.size,
        texts: mapped.collect(),
        window: on.window,
        markers: true,
    }
}
