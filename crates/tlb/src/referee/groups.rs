// SPDX-License-Identifier: GPL-2.0-only
//! Contiguous groups whose entries grant different things.
//!
//! A TLB may make one translation of a group from any entry that has the
//! contiguous bit, and use it for all of the group's addresses. So what one
//! entry refuses a neighbour may grant, flushed or not: the next walk brings it
//! back. (Arm ARM DDI 0487L.a, RNGLXZ and RJQQTC, as Linux' `contpte_convert()`
//! quotes them: a lookup gives what any of the programmed entries says.)
//!
//! A kernel that changes a group entry by entry goes through such states, and
//! may: until its flush an access is granted or not. They are judged when the
//! flush is complete, and when the task that made them returns to user space.

use super::format::{self, Desc};
use super::stale::At;
use super::tables::{RootId, Table, Tables, Way};
use crate::mmu::Mmu;
use std::collections::BTreeMap;

/// What one entry of a group refuses and another grants.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// The address that is refused.
    pub va: u64,
    /// What a TLB may use there: an entry of the same group.
    pub neighbour: Desc,
    /// What stands there.
    pub own: Desc,
    /// The last store to the group.
    pub at: At,
}

/// A group that does not agree.
#[derive(Clone, Copy, Debug)]
struct Open {
    table: u64,
    /// Index of its first entry, and how many there are.
    first: usize,
    count: usize,
    /// The group's last address.
    last: u64,
    /// The last store to it.
    at: At,
}

/// The groups that do not agree at the moment, by root and first address.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<(RootId, u64), Open>);

impl Groups {
    /// Do all agree?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry `index` of the table at `base`, which `root` leads to at `va`, was stored to.
    pub fn stored(
        &mut self,
        mmu: &Mmu,
        (base, table): (u64, &Table),
        (root, va): (RootId, u64),
        index: usize,
        at: At,
    ) {
        let shape = table.shape;
        let shift = format::group(mmu, shape.high, shape.unit);
        let count = 1usize << (shift - shape.unit);
        if count == 1 {
            return;
        }
        let first = index / count * count;
        let start = table.entry_va(va, first);
        let open = Open {
            table: base,
            first,
            count,
            last: start | ((1 << shift) - 1),
            at,
        };
        match misfit(mmu, table, start, &open) {
            Some(_) => drop(self.0.insert((root, start), open)),
            None => drop(self.0.remove(&(root, start))),
        }
    }

    /// `task` has flushed these addresses. What does not agree there now was left so.
    pub fn flushed(
        &mut self,
        mmu: &Mmu,
        tables: &Tables,
        task: u64,
        ranges: &[(u64, u64)],
    ) -> Vec<Misfit> {
        self.left(mmu, tables, |start, open| {
            let among = |(low, high): &(u64, u64)| *low <= open.last && *high >= start;
            open.at.task == task && ranges.iter().any(among)
        })
    }

    /// `task` goes back to user space.
    pub fn lapsed(&mut self, mmu: &Mmu, tables: &Tables, task: u64) -> Vec<Misfit> {
        self.left(mmu, tables, |_, open| open.at.task == task)
    }

    /// Takes those that `which` chooses, and says what does not agree in each.
    fn left(
        &mut self,
        mmu: &Mmu,
        tables: &Tables,
        which: impl Fn(u64, &Open) -> bool,
    ) -> Vec<Misfit> {
        let all = self.0.iter();
        let chosen = all.filter(|((_, start), open)| which(*start, open));
        let keys: Vec<_> = chosen.map(|(key, _)| *key).collect();
        keys.into_iter()
            .filter_map(|key| {
                let open = self.0.remove(&key)?;
                let table = tables.get(open.table)?;
                // The table may have become another since.
                let led = |way: &Way| {
                    let start = table.entry_va(way.va, open.first);
                    (way.root, start) == key && !way.removed
                };
                table.ways.iter().any(led).then_some(())?;
                misfit(mmu, table, key.1, &open)
            })
            .collect()
    }
}

/// What does not agree in the group `open`, which begins at `start`.
fn misfit(mmu: &Mmu, table: &Table, start: u64, open: &Open) -> Option<Misfit> {
    const CONTIGUOUS: u64 = 1 << 52 | 1;
    let words = table.words.get(open.first..open.first + open.count)?;
    // Cheap: most have no such bit.
    if words.iter().all(|word| word & CONTIGUOUS != CONTIGUOUS) {
        return None;
    }
    let entries: Vec<Desc> = words
        .iter()
        .map(|word| format::decode(mmu, table.shape, *word))
        .collect();
    let offered = |desc: &Desc| match desc {
        Desc::Leaf(leaf) if leaf.group != leaf.shift && leaf.cacheable => leaf.grants,
        _ => 0,
    };
    let granted = |desc: &Desc| match desc {
        Desc::Leaf(leaf) => leaf.grants,
        // Of a table none of the entries below counts.
        _ => 0,
    };
    let all = entries.iter().fold(0, |all, desc| all | offered(desc));
    let index = entries.iter().position(|desc| all & !granted(desc) != 0)?;
    let own = entries[index];
    let more = |desc: &&Desc| offered(desc) & !granted(&own) != 0;
    Some(Misfit {
        va: start + ((index as u64) << table.shape.unit),
        neighbour: *entries.iter().find(more)?,
        own,
        at: open.at,
    })
}
