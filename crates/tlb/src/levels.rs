// SPDX-License-Identifier: GPL-2.0-only
//! The arrays of one core and its walker, and what misses them.
//!
//! A lookup goes L1, L2, walk. L1 takes the entry that an L2 hit or a walk
//! finds, and L2 one that a walk finds. An L1 hit does not touch L2, so the L2's order
//! of use is that of L1 misses, as in hardware. Nothing keeps the levels
//! inclusive: an entry evicted from L2 stays in L1.

use crate::design::{Coalescing, Design, Geometry};
use crate::leaf;
use crate::mmu::Mmu;
use crate::replacement::Replacement;
use crate::report::{LeafCounts, Missed};
use crate::tlb::{Array, Entry, Invalidate};
use crate::walk::{PhysMem, Translation, Walk};
use std::collections::BTreeMap;

/// Phases a job can name: 0 (outside any) to 127.
pub const PHASES: usize = 128;

/// Which TLBs an access goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instruction fetch.
    Instruction = 0,
    /// Load or store.
    Data = 1,
}

/// A walk that found nothing for an access that had succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedWalk {
    /// Virtual address.
    pub va: u64,
    /// Its walk.
    pub walk: Walk,
}

/// Memory and registers by which addresses are translated.
pub(crate) struct Space<M> {
    pub mem: M,
    pub mmu: Mmu,
    pub asid: u16,
}

impl<M: PhysMem> Space<M> {
    pub fn walk(&self, va: u64) -> Walk {
        self.mmu.walk(&self.mem, va)
    }
}

/// Misses of one side, by leaf size as in [`leaf::LEAVES`].
#[derive(Clone, Copy, Default)]
pub(crate) struct SideMisses {
    pub l1: [u64; leaf::COUNT],
    pub l2: [u64; leaf::COUNT],
}

/// Misses of one phase in one mode.
#[derive(Clone, Copy, Default)]
pub(crate) struct Misses {
    pub sides: [SideMisses; 2],
    pub walk_reads: u64,
}

impl Misses {
    pub fn report(&self) -> Missed {
        let [i, d] = &self.sides;
        let sum = |counts: &[u64]| counts.iter().sum();
        Missed {
            itlb_l1_misses: sum(&i.l1),
            itlb_l2_misses: sum(&i.l2),
            dtlb_l1_misses: sum(&d.l1),
            dtlb_l2_misses: sum(&d.l2),
            walk_reads: self.walk_reads,
        }
    }

    pub fn of_leaf(&self, side: Side, leaf: usize) -> LeafCounts {
        let side = &self.sides[side as usize];
        LeafCounts {
            accesses: 0,
            l1_misses: side.l1[leaf],
            l2_misses: side.l2[leaf],
        }
    }
}

/// One level of one side: arrays looked up in parallel.
struct Level(Vec<Array>);

impl Level {
    fn lookup(&mut self, va: u64, asid: u16) -> Option<(Entry, u8)> {
        self.0.iter_mut().find_map(|a| a.lookup(va, asid))
    }

    /// Inserts into the array that holds the leaf largest.
    fn insert(&mut self, va: u64, entry: Entry) -> Option<u8> {
        let best = self
            .0
            .iter_mut()
            .max_by_key(|a| a.holds(entry.span_shift))?;
        best.insert(va, entry)
    }
}

/// The arrays of a core.
pub(crate) struct Levels {
    contiguous: bool,
    coalescing: Coalescing,
    prefetch: bool,
    l1: [Level; 2],
    /// One if unified, else one per side.
    l2: Vec<Level>,
    tables: Option<WalkCache>,
    /// By phase and mode.
    pub misses: Box<[Misses]>,
    pub failed: u64,
    pub first_failed: Option<FailedWalk>,
}

impl Levels {
    pub fn new(design: &Design) -> Self {
        let Design {
            coalescing,
            replacement,
            ..
        } = *design;
        let level = |arrays: &[Geometry], hashed, log2_pages| {
            let array = |a: &Geometry| Array::new(a, replacement, hashed, log2_pages);
            Level(arrays.iter().map(array).collect())
        };
        let first = match coalescing.first_level {
            true => coalescing.log2_pages,
            false => 0,
        };
        let second = |a: &Vec<Geometry>| level(a, design.hashed, coalescing.log2_pages);
        Levels {
            contiguous: design.contiguous,
            coalescing,
            prefetch: design.prefetch,
            l1: [
                level(&design.l1[0], false, first),
                level(&design.l1[1], false, first),
            ],
            l2: design.l2.iter().map(second).collect(),
            tables: (design.walk_cache > 0).then(|| WalkCache::new(design.walk_cache)),
            misses: vec![Misses::default(); PHASES * 2].into_boxed_slice(),
            failed: 0,
            first_failed: None,
        }
    }

    /// Looks `va` up for `side`, and counts misses at `at` of [`Levels::misses`]. Returns the index
    /// of the leaf in [`leaf::LEAVES`], and the size at which L1 holds it now.
    #[inline]
    pub fn look_up<M: PhysMem>(
        &mut self,
        space: &Space<M>,
        at: usize,
        side: Side,
        va: u64,
    ) -> (usize, Option<u8>) {
        match self.l1[side as usize].lookup(va, space.asid) {
            Some((entry, shift)) => (leaf::index(entry.leaf_shift), Some(shift)),
            None => self.miss(space, at, side, va),
        }
    }

    fn miss<M: PhysMem>(
        &mut self,
        space: &Space<M>,
        at: usize,
        side: Side,
        va: u64,
    ) -> (usize, Option<u8>) {
        let l2 = side as usize % self.l2.len();
        let hit = self.l2[l2].lookup(va, space.asid);
        let entry = match hit {
            Some((entry, _)) => Some(entry),
            None => self.walk(space, at, l2, va),
        };
        let leaf = entry.map_or(leaf::NONE, |e| leaf::index(e.leaf_shift));
        let misses = &mut self.misses[at].sides[side as usize];
        misses.l1[leaf] += 1;
        misses.l2[leaf] += u64::from(hit.is_none());
        let held = entry.and_then(|e| self.fill(side, va, e));
        (leaf, held)
    }

    /// Puts into level 1 what level 2 or a walk found.
    fn fill(&mut self, side: Side, va: u64, found: Entry) -> Option<u8> {
        let span_shift = match self.coalescing.first_level {
            true => found.span_shift,
            false => found.leaf_shift,
        };
        let entry = Entry {
            span_shift,
            ..found
        };
        self.l1[side as usize].insert(va, entry)
    }

    /// Walks, and puts what is found into level 2.
    fn walk<M: PhysMem>(
        &mut self,
        space: &Space<M>,
        at: usize,
        l2: usize,
        va: u64,
    ) -> Option<Entry> {
        let walk = space.walk(va);
        let reads = match &mut self.tables {
            Some(tables) => tables.reads(space, va, walk.reads()),
            None => walk.reads(),
        };
        self.misses[at].walk_reads += u64::from(reads);
        let Walk::Found(t) = walk else {
            self.failed += 1;
            self.first_failed.get_or_insert(FailedWalk { va, walk });
            return None;
        };
        let entry = self.entry(space, va, &t);
        self.l2[l2].insert(va, entry);
        if self.prefetch {
            self.bring_next(space, l2, va, entry.leaf_shift);
        }
        Some(entry)
    }

    /// The entry that TLBs make of a translation.
    fn entry<M: PhysMem>(&self, space: &Space<M>, va: u64, t: &Translation) -> Entry {
        let leaf_shift = match self.contiguous {
            true => t.shift,
            false => t.unit_shift,
        };
        let is_page = leaf_shift == t.unit_shift && leaf::PAGES.contains(&leaf_shift);
        let log2_pages = self.coalescing.log2_pages;
        let coalesces = log2_pages > 0 && is_page && is_group(space, va, t, log2_pages);
        Entry {
            leaf_shift,
            span_shift: leaf_shift + if coalesces { log2_pages } else { 0 },
            asid: space.asid,
            global: t.global,
        }
    }

    /// Puts the leaf after the one at `va` into level 2, if it is mapped and not there. Its walk is
    /// not counted: nothing waits for it.
    fn bring_next<M: PhysMem>(&mut self, space: &Space<M>, l2: usize, va: u64, shift: u8) {
        let next = ((va >> shift) + 1) << shift;
        if self.l2[l2].lookup(next, space.asid).is_none()
            && let Walk::Found(t) = space.walk(next)
        {
            let entry = self.entry(space, next, &t);
            self.l2[l2].insert(next, entry);
        }
    }

    /// Removes what `op` covers from all arrays; returns how many entries.
    pub fn invalidate(&mut self, op: &Invalidate) -> usize {
        if let Some(tables) = &mut self.tables {
            tables.invalidate(op);
        }
        let levels = self.l1.iter_mut().chain(&mut self.l2);
        levels
            .flat_map(|l| &mut l.0)
            .map(|a| a.invalidate(op))
            .sum()
    }
}

/// Do the page tables map the aligned group of `1 << log2_pages` pages around `va`, whose page `t`
/// translates, to memory that lies side by side and is aligned alike, with equal attributes?
fn is_group<M: PhysMem>(space: &Space<M>, va: u64, t: &Translation, log2_pages: u8) -> bool {
    let mask = (1 << (t.unit_shift + log2_pages)) - 1;
    let alike = |offset: u64| match space.walk(va & !mask | offset) {
        Walk::Found(page) => {
            let pa = t.pa & !mask | offset;
            let same = (page.unit_shift, page.attributes) == (t.unit_shift, t.attributes);
            same && page.pa == pa
        }
        Walk::Fault { .. } | Walk::Unbacked { .. } => false,
    };
    (0..1u64 << log2_pages).all(|page| alike(page << t.unit_shift))
}

/// Table entries that a walk need not read again, by the size that the table they point to
/// translates, log2 of bytes.
struct WalkCache {
    entries: usize,
    tables: BTreeMap<u8, Array>,
}

impl WalkCache {
    /// One of so many entries for each size.
    fn new(entries: usize) -> Self {
        Self {
            entries,
            tables: BTreeMap::new(),
        }
    }

    /// The descriptors that a walk for `va` reads, of `reads` that it would without this cache:
    /// those from the last table that it knows. Knows the tables below then.
    fn reads<M: PhysMem>(&mut self, space: &Space<M>, va: u64, reads: u8) -> u8 {
        let known = (1..reads).rev().find(|&depth| {
            let table = self.array(space.mmu.table(va, depth).0);
            table.lookup(va, space.asid).is_some()
        });
        let known = known.unwrap_or(0);
        for depth in known + 1..reads {
            let shift = space.mmu.table(va, depth).0;
            let entry = Entry {
                leaf_shift: shift,
                span_shift: shift,
                asid: space.asid,
                global: false,
            };
            self.array(shift).insert(va, entry);
        }
        reads - known
    }

    fn array(&mut self, shift: u8) -> &mut Array {
        let geometry = Geometry {
            entries: self.entries,
            ways: self.entries,
            sizes: vec![shift],
        };
        let new = || Array::new(&geometry, Replacement::Lru, false, 0);
        self.tables.entry(shift).or_insert_with(new)
    }

    fn invalidate(&mut self, op: &Invalidate) {
        for table in self.tables.values_mut() {
            table.invalidate(op);
        }
    }
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
