// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of a run that can be compared, and what they are.
//!
//! A figure is defined once: its name, unit and meaning, whether it is a headline, where the table
//! and the report's plots show it. The names are those of the table, of `--expect` and of the
//! JSON's `figures`. Only counts are here: what repeats from run to run.

use crate::results::{BootResult, PhaseCounts};
use std::collections::BTreeMap;
use wideleaf_tlb::leaf;

/// What a figure is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name, or that of several: `<pattern>` and so on stand for any text, `<leaf>` for the
    /// size of a leaf.
    pub name: &'static str,
    /// Of what it counts, in the plural: `faults`, `bytes`.
    pub unit: &'static str,
    /// What it is, for `docs/lab-schema.md`.
    pub about: &'static str,
    /// Whether `spread` is judged by it. Others can be next to nothing: one timer interrupt more
    /// is all there is of the kernel's instructions during random calls.
    pub is_headline: bool,
    /// Section and label of its row in the table. Figures that follow each other and have the same
    /// stand in one cell, with a slash between.
    pub row: Option<(&'static str, &'static str)>,
    /// What the report calls it where it plots it.
    pub plot: Option<&'static str>,
    /// Whether it depends on the modelled CPU.
    pub is_modelled: bool,
}

/// A figure that no table shows.
pub const fn figure(name: &'static str, unit: &'static str, about: &'static str) -> Figure {
    Figure {
        name,
        unit,
        about,
        is_headline: false,
        row: None,
        plot: None,
        is_modelled: false,
    }
}

/// `text.<leaf>`, after whatever is before that in `name`.
pub const fn text(name: &'static str) -> Figure {
    figure(
        name,
        "bytes",
        "of the mapping that leaves of this size map at the end, and `unmapped`",
    )
}

/// A figure of a phase that the plugin counts, `cold.walks`, to be shown.
///
/// # Panics
///
/// If it counts none of this name.
pub fn counted(name: &'static str) -> Figure {
    let known = find(&COUNTED, name).unwrap_or_else(|| panic!("{name} is not counted"));
    Figure {
        name,
        ..known.clone()
    }
}

impl Figure {
    /// A headline with a row in the table.
    pub const fn row(mut self, section: &'static str, label: &'static str) -> Self {
        self.row = Some((section, label));
        self.is_headline = true;
        self
    }

    /// A row in the table, but no headline.
    pub const fn shown(mut self, section: &'static str, label: &'static str) -> Self {
        self.row = Some((section, label));
        self
    }

    /// A headline of which the table has no row by itself.
    pub const fn headline(mut self) -> Self {
        self.is_headline = true;
        self
    }

    /// The report has a plot of it.
    pub const fn plotted(mut self, label: &'static str) -> Self {
        self.plot = Some(label);
        self
    }

    /// It depends on the modelled CPU.
    const fn modelled(mut self) -> Self {
        self.is_modelled = true;
        self
    }

    /// Whether it is the figure of this name.
    pub fn is(&self, name: &str) -> bool {
        matches(self.name, name)
    }

    /// Its name for a case, which stands in place of the first `<...>`.
    pub fn of_case(&self, case: &str) -> String {
        match (self.name.find('<'), self.name.find('>')) {
            (Some(start), Some(end)) => [&self.name[..start], case, &self.name[end + 1..]].concat(),
            _ => self.name.into(),
        }
    }
}

/// The definition of the figure of this name.
pub fn find<'a>(definitions: &'a [Figure], name: &str) -> Option<&'a Figure> {
    definitions.iter().find(|figure| figure.is(name))
}

/// Whether a name is of a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let Some(start) = pattern.find('<') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(&pattern[..start]) else {
        return false;
    };
    let end = start + pattern[start..].find('>').unwrap_or(0);
    let (place, after) = (&pattern[start + 1..end], &pattern[end + 1..]);
    let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.into_iter()
        .any(|end| fits(place, &rest[..end]) && matches(after, &rest[end..]))
}

/// Whether a text can stand in this place.
fn fits(place: &str, text: &str) -> bool {
    match place {
        "leaf" => text == "unmapped" || leaf::LEAVES.iter().any(|(_, name)| *name == text),
        "event" => !text.contains('.'),
        _ => true,
    }
}

/// What the plugin counts in each phase of each job that counts.
#[rustfmt::skip]
pub static COUNTED: [Figure; 13] = [
    figure("<phase>.instructions", "instructions", "executed in the guest"),
    figure("<phase>.user_instructions", "instructions", "of these, in user mode"),
    figure("<phase>.kernel_instructions", "instructions", "of these, in kernel mode"),
    figure("<phase>.itlb_accesses", "accesses", "by instruction fetches, one for each block of code and page, user and kernel"),
    figure("<phase>.itlb_l1_misses", "misses", "of these, those that missed the first level").modelled(),
    figure("<phase>.itlb_l2_misses", "misses", "of these, those that missed the second level too and made a walk").modelled(),
    figure("<phase>.dtlb_accesses", "accesses", "by loads and stores, user and kernel"),
    figure("<phase>.dtlb_l1_misses", "misses", "of these, those that missed the first level").modelled(),
    figure("<phase>.dtlb_l2_misses", "misses", "of these, those that missed the second level too and made a walk").modelled(),
    figure("<phase>.walks", "walks", "of page tables, for both, user and kernel").modelled(),
    figure("<phase>.text_walks", "walks", "of these, those for instruction fetches of user space").modelled(),
    figure("<phase>.walk_reads", "reads", "of page-table entries by the walks").modelled(),
    figure("<phase>.tlb_invalidations", "instructions", "that invalidated translations (TLBI; INVLPG, INVPCID, moves to CR3), by any CPU"),
];

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub value: u64,
    /// Of what.
    pub unit: &'static str,
}

/// The figures of one run by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    known: Vec<Figure>,
    counts: BTreeMap<String, Count>,
}

impl Figures {
    /// None yet of those that a job defines.
    pub fn of(definitions: Vec<Figure>) -> Self {
        Self {
            known: definitions,
            counts: BTreeMap::new(),
        }
    }

    /// Sets a figure.
    pub fn put(&mut self, name: impl Into<String>, value: u64) {
        let name = name.into();
        let known = find(&COUNTED, &name).or_else(|| find(&self.known, &name));
        let unit = known.map_or("?", |figure| figure.unit);
        self.counts.insert(name, Count { value, unit });
    }

    /// Adds to a figure that is there.
    pub fn add(&mut self, name: &str, more: u64) {
        if let Some(count) = self.counts.get_mut(name) {
            count.value += more;
        }
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<Count> {
        self.counts.get(name).copied()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, Count)> {
        self.counts.iter().map(|(name, count)| (name, *count))
    }

    /// Those that nobody defined.
    pub fn undefined(&self) -> impl Iterator<Item = &String> {
        let undefined = self.counts.iter().filter(|(_, count)| count.unit == "?");
        undefined.map(|(name, _)| name)
    }

    /// Bytes by leaf, as `<name>.<leaf>`.
    pub fn put_leaves(&mut self, name: &str, leaves: &BTreeMap<String, u64>) {
        for (leaf, bytes) in leaves {
            self.put(format!("{name}.{leaf}"), *bytes);
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
        let mut put = |what: &str, value| self.put(format!("{prefix}{}.{what}", phase.name), value);
        put("instructions", user.instructions + kernel.instructions);
        put("user_instructions", user.instructions);
        put("kernel_instructions", kernel.instructions);
        for (side, user, kernel) in [
            ("itlb", &user.itlb, &kernel.itlb),
            ("dtlb", &user.dtlb, &kernel.dtlb),
        ] {
            let mut put = |what, value| put(&format!("{side}_{what}"), value);
            put("accesses", user.accesses + kernel.accesses);
            put("l1_misses", user.l1_misses + kernel.l1_misses);
            put("l2_misses", user.l2_misses + kernel.l2_misses);
        }
        put("text_walks", user.itlb.l2_misses);
        put("walks", user.walks + kernel.walks);
        put("walk_reads", user.walk_reads + kernel.walk_reads);
        put(
            "tlb_invalidations",
            user.tlb_invalidations + kernel.tlb_invalidations,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_of_all_names_that_fit() {
        for (pattern, name, fits) in [
            ("cold.faults", "cold.faults", true),
            ("cold.faults", "64K.cold.faults", false),
            ("<size>.cold.faults", "64K.cold.faults", true),
            ("<size>.cold.faults", ".cold.faults", false),
            ("text.<leaf>", "text.64K", true),
            ("text.<leaf>", "text.unmapped", true),
            ("text.<leaf>", "text.64k", false),
            (
                "<program>.<file>.text.<leaf>",
                "perl.libc.so.6.text.2M",
                true,
            ),
            ("<moment>.<leaf>", "boot.tables", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_case_stands_in_the_first_place() {
        let case = figure("<size>.cold.<what>", "", "").of_case("64K");
        assert_eq!(case, "64K.cold.<what>");
        assert_eq!(figure("cold", "", "").of_case("64K"), "cold");
    }

    #[test]
    fn a_figure_that_nobody_defined_is_told() {
        let mut figures = Figures::of(vec![figure("a", "bytes", "")]);
        figures.put("a", 1);
        figures.put("b", 1);
        assert_eq!(figures.undefined().collect::<Vec<_>>(), ["b"]);
    }
}
