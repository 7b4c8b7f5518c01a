// SPDX-License-Identifier: GPL-2.0-only
//! What the referee reports.

use super::format::{Desc, Leaf};
use serde::{Deserialize, Serialize};
use wideleaf_kit::named;

named!(
    /// The rule that was broken.
    Kind, "kind of finding", {
        /// An address was used while a TLB could still translate it elsewhere.
        StaleTranslation = "stale-translation",
        /// An access could still be granted by an entry that was taken away.
        StaleGrant = "stale-grant",
        /// A live entry was changed directly into one that needs an invalid one between.
        NoBreak = "no-break",
        /// The entry was made invalid between, but its old translation was not invalidated, or the
        /// invalidation was not complete.
        NoFlush = "no-flush",
        /// Two entries of different size could be cached for one address.
        SizeConflict = "size-conflict",
        /// Entries of one contiguous group do not agree.
        Contiguous = "contiguous",
        /// An entry was made valid in a table that was taken out of use and that a TLB could still
        /// walk.
        TableReuse = "table-reuse",
        /// A new kernel entry was used before the barriers that make it visible.
        Unsynchronised = "unsynchronised",
        /// Page tables were put to use under an ASID by which a TLB may still hold entries of
        /// others.
        AsidReuse = "asid-reuse",
    }
);

impl Kind {
    /// Is there such a rule on x86-64? It asks for no break-before-make, keeps no entries by ASID
    /// here, and invalidates at once.
    pub fn is_of_x86(self) -> bool {
        matches!(self, Kind::StaleTranslation | Kind::StaleGrant)
    }
}

/// Where something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// CPU.
    pub cpu: u32,
    /// The instruction.
    #[serde(flatten)]
    pub code: Code,
    /// Where the calls return to that led there, the innermost first, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Code>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Code {
    /// Its address.
    pub pc: u64,
    /// The same in words, if the lab knows the kernel's symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// `mm/memory.c:1573`, if the kernel was built with debug information; of an inlined function
    /// the line that calls it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// So many callers tell places apart, for between try_to_unmap_one() and reclaim or a collapse are
/// three; by those farther out one defect would be listed many times.
const APART: usize = 4;

impl Place {
    /// The same instruction, reached the same way, on whatever CPU?
    fn is_where(&self, other: &Self) -> bool {
        fn near(place: &Place) -> impl Iterator<Item = u64> {
            let callers = place.callers.iter().take(APART);
            callers.chain([&place.code]).map(|code| code.pc)
        }
        near(self).eq(near(other))
    }
}

impl Code {
    /// That at `pc`, of which no more is known.
    pub fn at(pc: u64) -> Self {
        Self {
            pc,
            ..Self::default()
        }
    }
}

/// A broken rule, at the first of its occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule.
    pub kind: Kind,
    /// The virtual address.
    pub va: u64,
    /// The address space; `None` for entries that hold in all.
    pub asid: Option<u16>,
    /// What a TLB could hold.
    pub old: String,
    /// What the tables say.
    pub new: String,
    /// The store that took `old` out of the tables.
    pub change: Place,
    /// The access, or the store that made the second entry.
    pub usage: Place,
    /// How often the same two instructions did it, called from the same places.
    pub count: u64,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Each pair of instructions, and of callers, once.
    pub list: Vec<Finding>,
    /// Findings that the list had no room for.
    pub left_out: u64,
    /// Stores to page tables that were looked at.
    pub table_writes: u64,
    /// Largest number of old translations that were remembered at a time.
    pub most_stale: u64,
    /// Largest number of page-table pages at a time.
    pub most_tables: u64,
    /// Old translations that were not remembered for want of room: what is
    /// said of them is incomplete.
    pub forgotten: u64,
}

/// Pairs of places that are listed.
const MOST: usize = 256;

impl Findings {
    /// Adds `finding`, or counts it with those of the same instructions.
    pub fn add(&mut self, finding: Finding) {
        let same = |f: &&mut Finding| {
            f.kind == finding.kind
                && f.change.is_where(&finding.change)
                && f.usage.is_where(&finding.usage)
        };
        if let Some(known) = self.list.iter_mut().find(same) {
            known.count += 1;
        } else if self.list.len() < MOST {
            self.list.push(finding);
        } else {
            self.left_out += 1;
        }
    }

    /// Nothing found?
    pub fn is_clean(&self) -> bool {
        self.list.is_empty()
    }
}

/// An entry in words: `64K at 0x80010000, kernel rw-, user r-x, contiguous 2M, attributes 0x6ff`.
pub fn describe(desc: &Desc) -> String {
    match desc {
        Desc::Invalid => "invalid".into(),
        Desc::Table(pa) => format!("table at {pa:#x}"),
        Desc::Leaf(leaf) => describe_leaf(leaf),
    }
}

fn describe_leaf(leaf: &Leaf) -> String {
    use super::format::grant::*;
    use crate::leaf::name_of_shift;
    let mut words = format!("{} at {:#x}", name_of_shift(leaf.shift), leaf.pa);
    let kernel = [KERNEL_READ, KERNEL_WRITE, KERNEL_FETCH];
    let user = [USER_READ, USER_WRITE, USER_FETCH];
    for (who, bits) in [("kernel", kernel), ("user", user)] {
        let letters = bits.iter().zip("rwx".chars());
        let granted: String = letters
            .map(|(bit, c)| if leaf.grants & bit != 0 { c } else { '-' })
            .collect();
        words += &format!(", {who} {granted}");
    }
    if leaf.group != leaf.shift {
        words += &format!(", contiguous {}", name_of_shift(leaf.group));
    }
    if leaf.global {
        words += ", global";
    }
    words + &format!(", attributes {:#x}", leaf.attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(pc: u64) -> Finding {
        Finding {
            kind: Kind::NoBreak,
            va: 0,
            asid: None,
            old: String::new(),
            new: String::new(),
            change: Place::default(),
            usage: Place {
                code: Code::at(pc),
                ..Place::default()
            },
            count: 1,
        }
    }

    #[test]
    fn the_same_instructions_are_listed_once_and_the_list_ends() {
        let mut f = Findings::default();
        for pc in 0..300 {
            f.add(finding(pc));
            f.add(finding(pc));
        }
        assert_eq!((f.list.len(), f.list[0].count), (MOST, 2));
        assert_eq!(f.left_out, 2 * (300 - MOST as u64));
    }

    #[test]
    fn what_was_reached_another_way_is_another_finding() {
        let mut findings = Findings::default();
        for callers in [
            &[8, 9, 10, 11, 12][..],
            &[8, 9, 10, 11, 13],
            &[8, 9, 10, 7],
            &[],
        ] {
            let mut one = finding(4);
            one.change.callers = callers.iter().copied().map(Code::at).collect();
            findings.add(one);
        }
        let counts: Vec<_> = findings.list.iter().map(|f| f.count).collect();
        assert_eq!(counts, [2, 1, 1]);
    }

    #[test]
    fn kinds_are_called_the_same_everywhere() {
        for kind in [Kind::StaleTranslation, Kind::NoBreak, Kind::AsidReuse] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
