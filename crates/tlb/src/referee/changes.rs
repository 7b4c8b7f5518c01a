// SPDX-License-Identifier: GPL-2.0-only
//! Stores to page tables: what they take away, and what may not follow what.

use super::finding::Kind;
use super::format::{self, Desc, Leaf, Shape};
use super::stale::{At, Record, Scope};
use super::tables::{Stored, Way};
use super::uses::are_copies;
use super::{Fresh, Referee, rules};
use crate::mmu::Mmu;
use crate::walk::PhysMem;

/// A store to an entry.
struct Change {
    at: At,
    way: Way,
    /// CPUs that may have cached the old entry.
    reach: u64,
    shape: Shape,
    va: u64,
    old: Desc,
    new: Desc,
}

impl Referee {
    /// Entries were stored to.
    pub(super) fn changes(&mut self, at: At, changed: &[Stored], mem: &impl PhysMem) {
        let Some(mmu) = self.cpus[at.cpu].mmu else {
            return;
        };
        for stored in changed {
            self.findings.table_writes += 1;
            let Some(table) = self.tables.get(stored.table) else {
                continue;
            };
            let (shape, ways) = (table.shape, table.ways.clone());
            for way in ways {
                let reach = self.reach(way);
                let Some(table) = self.tables.get(stored.table) else {
                    break;
                };
                let change = Change {
                    at,
                    reach,
                    way,
                    shape,
                    va: table.entry_va(way.va, stored.index),
                    old: format::decode(&mmu, shape, stored.old),
                    new: format::decode(&mmu, shape, stored.new),
                };
                self.change(&mmu, mem, stored, &change);
            }
            self.retire(stored, &mmu);
        }
    }

    /// The CPUs that may walk this way: all, or those that may still have an
    /// entry that led to it.
    fn reach(&mut self, way: Way) -> u64 {
        if !way.removed {
            return u64::MAX;
        }
        let scopes = self.own_scopes(way);
        let mut cpus = 0;
        self.stale.overlapping(&scopes, way.va, way.va, |r| {
            if matches!(r.old, Desc::Table(_)) {
                cpus |= r.holders;
            }
        });
        cpus
    }

    /// The address spaces that entries for tables of this way hold in.
    fn own_scopes(&self, way: Way) -> Vec<Scope> {
        let scopes = self.scopes(way.root, way.va, false);
        scopes.into_iter().map(|(scope, _)| scope).collect()
    }

    /// A root that nobody has installed and that became empty is none.
    fn retire(&mut self, stored: &Stored, mmu: &Mmu) {
        if stored.new != 0 {
            return;
        }
        let idle = self.roots.idle(stored.table);
        if let Some(id) = idle.filter(|id| self.roots.is_empty(*id, &self.tables)) {
            self.drop_root(id, mmu);
        }
    }

    fn change(&mut self, mmu: &Mmu, mem: &impl PhysMem, stored: &Stored, c: &Change) {
        if c.way.removed {
            self.change_in_removed(c);
        }
        if !rules::harmless(&c.old, &c.new) {
            self.remember(mmu, c);
        }
        if let Desc::Table(child) = c.new
            && c.old != c.new
        {
            self.check_moved(c, child);
            let way = Way { va: c.va, ..c.way };
            self.tables
                .link(mmu, mem, child, format::next(mmu, c.shape), way);
        }
        if !self.regime.breaks || c.way.removed {
            return;
        }
        if let Some(table) = self.tables.get(stored.table) {
            let way = (c.way.root, c.way.va);
            (self.groups).stored(mmu, (stored.table, table), way, stored.index, c.at);
        }
        if c.new == Desc::Invalid {
            return;
        }
        self.check_break(c, mem);
        if let Desc::Leaf(leaf) = &c.new {
            self.check_group(mmu, stored, c, leaf);
        }
        if c.old == Desc::Invalid {
            self.fresh(c);
        }
    }

    /// A new entry. Whoever cannot be interrupted by a fault there minds: the
    /// kernel, on the CPU that made the entry; on others Linux makes up for
    /// the fault (`is_spurious_el1_translation_fault()`).
    fn fresh(&mut self, c: &Change) {
        for (i, cpu) in self.cpus.iter_mut().enumerate() {
            let own = i == c.at.cpu;
            if self.strict || (own && c.shape.high) {
                cpu.fresh.push(Fresh {
                    va: c.va,
                    last: c.va | ((1 << c.shape.unit) - 1),
                    at: c.at,
                    new: c.new,
                    // Others wait for the store in their own way.
                    stored: !own,
                });
            }
        }
    }

    /// Does a table go to another address space while a TLB may still walk it
    /// in the one that it was taken from? Within one, Linux moves tables first
    /// and flushes then (`move_normal_pmd()`).
    fn check_moved(&mut self, c: &Change, child: u64) {
        let Some(table) = self.tables.get(child) else {
            return;
        };
        let elsewhere = |w: &Way| w.removed && w.root != c.way.root;
        if !self.regime.breaks || !table.ways.iter().all(elsewhere) {
            return;
        }
        let ways = table.ways.clone();
        let led = ways.into_iter().find_map(|w| self.led_to(w, child));
        if let Some(r) = led {
            self.report(Kind::TableReuse, c.va, &r, &c.new, c.at);
        }
    }

    /// The old entry that led to the table at `base` on this way.
    fn led_to(&mut self, way: Way, base: u64) -> Option<Record> {
        let scopes = self.own_scopes(way);
        let mut found = None;
        self.stale.overlapping(&scopes, way.va, way.va, |r| {
            if r.old == Desc::Table(base) && r.holders != 0 {
                found.get_or_insert(r.clone());
            }
        });
        found
    }

    /// Was the table at `base` taken out while a TLB may still walk it? Then
    /// its memory must not be used for anything else.
    pub fn is_walked(&self, base: u64) -> bool {
        let table = self.tables.get(base);
        table.is_some_and(|t| t.ways.iter().any(|w| w.removed))
    }

    /// A table that a TLB may still walk must not become anything else: neither a table with other
    /// entries nor memory whose words look like some.
    fn change_in_removed(&mut self, c: &Change) {
        if !self.regime.breaks || !rules::is_other(&c.old, &c.new) {
            return;
        }
        let scopes = self.own_scopes(c.way);
        let mut before = None;
        self.stale.overlapping(&scopes, c.va, c.va, |r| {
            if matches!(r.old, Desc::Table(_)) && r.holders != 0 {
                before.get_or_insert(r.clone());
            }
        });
        if let Some(r) = before {
            self.report(Kind::TableReuse, c.va, &r, &c.new, c.at);
        }
    }

    /// What was there until now may be in TLBs.
    fn remember(&mut self, mmu: &Mmu, c: &Change) {
        let mut kept = false;
        if let Desc::Leaf(leaf) = &c.old {
            self.remember_leaf(mmu, c, c.va, leaf);
        }
        let Desc::Table(child) = c.old else {
            return;
        };
        // Tables are cached per address space, whatever their leaves are.
        for (scope, holders) in self.scopes(c.way.root, c.va, false) {
            let holders = holders & c.reach;
            if holders != 0 {
                kept = true;
                self.stale
                    .add(record(mmu, c, c.va, c.shape, c.old, scope, holders));
            }
        }
        let leaves = self.tables.unlink(mmu, child, c.way.root, c.va, kept);
        for (va, _, desc) in leaves {
            if let Desc::Leaf(leaf) = &desc
                && leaf.cacheable
            {
                self.remember_leaf(mmu, c, va, leaf);
            }
        }
    }

    fn remember_leaf(&mut self, mmu: &Mmu, c: &Change, va: u64, leaf: &Leaf) {
        let shape = Shape {
            unit: leaf.shift,
            ..c.shape
        };
        for (scope, holders) in self.scopes(c.way.root, va, leaf.global) {
            let holders = holders & c.reach;
            if holders != 0 {
                let old = Desc::Leaf(*leaf);
                self.stale
                    .add(record(mmu, c, va, shape, old, scope, holders));
            }
        }
    }

    /// Does an old translation forbid the new one?
    fn check_break(&mut self, c: &Change, mem: &impl PhysMem) {
        if self.stale.is_empty() {
            return;
        }
        let last = c.va | ((1 << c.shape.unit) - 1);
        let mut scopes = vec![Scope::Global, Scope::Kernel];
        let own = self.scopes(c.way.root, c.va, false);
        scopes.extend(own.into_iter().map(|(scope, _)| scope));
        scopes.dedup();
        let (new, bbm, strict) = (c.new, self.regime.bbm, self.strict);
        let mut broken = None;
        self.stale.overlapping(&scopes, c.va, last, |r| {
            // What lies below a new table is looked at when it is used, and what
            // lay above when it was changed.
            let below = matches!(new, Desc::Table(_)) && r.shift < c.shape.unit;
            let above = matches!(r.old, Desc::Table(_)) && r.shift > c.shape.unit;
            if r.holders == 0 || below || above {
                return;
            }
            if let Some(why) = rules::needs_break(&r.old, &new, c.va.max(r.va), bbm)
                && (strict || !are_copies(&r.old, &new, None, mem))
            {
                let direct = c.old == r.old && r.at == c.at && !c.way.removed;
                let kind = why.kind(direct);
                if broken.as_ref().is_none_or(|(k, _)| *k == Kind::NoFlush) {
                    broken = Some((kind, r.clone()));
                }
            }
        });
        if let Some((kind, r)) = broken {
            self.report(kind, c.va, &r, &c.new, c.at);
        }
    }

    /// Does the new entry agree with the others of its contiguous group?
    fn check_group(&mut self, mmu: &Mmu, stored: &Stored, c: &Change, leaf: &Leaf) {
        let group = format::group(mmu, c.shape.high, c.shape.unit);
        let Some(table) = self.tables.get(stored.table) else {
            return;
        };
        let count = 1usize << (group - c.shape.unit);
        let first = stored.index / count * count;
        let mut other = None;
        for (i, word) in table.words.iter().enumerate().skip(first).take(count) {
            let desc = format::decode(mmu, c.shape, *word);
            if let Desc::Leaf(neighbour) = &desc
                && i != stored.index
            {
                let va = table.entry_va(c.way.va, i);
                if !rules::neighbours_agree((leaf, c.va), (neighbour, va), self.regime.bbm) {
                    other = Some(desc);
                    break;
                }
            }
        }
        if let Some(other) = other {
            let asid = None;
            self.add(Kind::Contiguous, c.va, asid, &other, &c.new, c.at, c.at);
        }
    }
}

fn record(
    mmu: &Mmu,
    c: &Change,
    va: u64,
    shape: Shape,
    old: Desc,
    scope: Scope,
    holders: u64,
) -> Record {
    Record {
        va,
        shift: shape.unit,
        scope,
        level: format::level(mmu, shape.high, shape.unit),
        old,
        holders,
        seen_by: 1 << c.at.cpu,
        visible: false,
        in_flight: Vec::new(),
        unsynchronised: 0,
        at: c.at,
        lapsed: false,
    }
}
