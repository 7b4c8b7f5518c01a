// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of a run that can be compared, each under one name, with its unit.
//!
//! The names are those of the table, of `--expect` and of the JSON's
//! `figures`. Only counts are here: what repeats from run to run.

use crate::results::{BootResult, PhaseCounts};
use std::collections::BTreeMap;

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// How many.
    pub value: u64,
    /// Of what, in the plural: `faults`, `bytes`.
    pub unit: &'static str,
}

/// The figures of one run by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures(BTreeMap<String, Figure>);

impl Figures {
    /// Sets a figure.
    pub fn put(&mut self, name: impl Into<String>, unit: &'static str, value: u64) {
        self.0.insert(name.into(), Figure { value, unit });
    }

    /// Adds to a figure that is there.
    pub fn add(&mut self, name: &str, more: u64) {
        if let Some(figure) = self.0.get_mut(name) {
            figure.value += more;
        }
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<Figure> {
        self.0.get(name).copied()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, Figure)> {
        self.0.iter().map(|(name, figure)| (name, *figure))
    }

    /// Bytes by leaf, as `<name>.<leaf>`.
    pub fn put_leaves(&mut self, name: &str, leaves: &BTreeMap<String, u64>) {
        for (leaf, bytes) in leaves {
            self.put(format!("{name}.{leaf}"), "bytes", *bytes);
        }
    }

    /// What maps the text that the guest knows as `id`, as `text.<leaf>` after
    /// `prefix`.
    pub fn put_text(&mut self, prefix: &str, run: &BootResult, id: u64) {
        for coverage in run.coverage.iter().filter(|coverage| coverage.id == id) {
            self.put_leaves(&format!("{prefix}text"), &coverage.leaves);
        }
    }

    /// What the plugin counted in a phase, as `<phase>.<figure>` after `prefix`.
    pub fn put_phase(&mut self, prefix: &str, phase: &PhaseCounts) {
        let (user, kernel) = (&phase.user, &phase.kernel);
        let mut put = |what: &str, unit, value| {
            self.put(format!("{prefix}{}.{what}", phase.name), unit, value);
        };
        let instructions = "instructions";
        put(
            "instructions",
            instructions,
            user.instructions + kernel.instructions,
        );
        put("user_instructions", instructions, user.instructions);
        put("kernel_instructions", instructions, kernel.instructions);
        for (side, user, kernel) in [
            ("itlb", &user.itlb, &kernel.itlb),
            ("dtlb", &user.dtlb, &kernel.dtlb),
        ] {
            let mut put = |what, unit, value| put(&format!("{side}_{what}"), unit, value);
            put("accesses", "accesses", user.accesses + kernel.accesses);
            put("l1_misses", "misses", user.l1_misses + kernel.l1_misses);
            put("l2_misses", "misses", user.l2_misses + kernel.l2_misses);
        }
        put("text_walks", "walks", user.itlb.l2_misses);
        put("walks", "walks", user.walks + kernel.walks);
        put("walk_reads", "reads", user.walk_reads + kernel.walk_reads);
        put(
            "tlb_invalidations",
            instructions,
            user.tlb_invalidations + kernel.tlb_invalidations,
        );
    }
}
