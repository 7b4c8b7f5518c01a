// SPDX-License-Identifier: GPL-2.0-only
//! Which memory holds page tables, and what was in it before the last store.

use super::format::{self, Desc, Shape};
use crate::mmu::Mmu;
use crate::walk::PhysMem;
use std::collections::HashMap;

/// Number of a root.
pub type RootId = u32;

/// One way in which walks come to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// From this root.
    pub root: RootId,
    /// First address that the table translates there.
    pub va: u64,
    /// The entry that led to it is gone, but a TLB may still have it.
    pub removed: bool,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its shape.
    pub shape: Shape,
    /// How it is reached.
    pub ways: Vec<Way>,
    /// Its entries as last seen.
    pub words: Vec<u64>,
}

impl Table {
    /// The address that entry `index` translates, if reached at `va`.
    pub fn entry_va(&self, va: u64, index: usize) -> u64 {
        let at = va + ((index as u64) << self.shape.unit);
        if !self.shape.both {
            return at;
        }
        let above = 64 - u32::from(self.shape.unit + self.shape.index_bits);
        ((at << above) as i64 >> above) as u64
    }
}

/// An entry that was stored to.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The table.
    pub table: u64,
    /// The entry.
    pub index: usize,
    /// Before.
    pub old: u64,
    /// After.
    pub new: u64,
}

/// All tables.
#[derive(Debug, Default)]
pub struct Tables {
    tables: HashMap<u64, Table>,
    /// Tables by 4K frame that they lie in.
    frames: HashMap<u64, Vec<u64>>,
    /// A bit for each frame that has any: asked at every store.
    filter: Vec<u64>,
    /// Most at a time.
    pub most: usize,
}

/// Deepest nesting; a table that leads to itself ends here.
const DEEPEST: u8 = 5;

impl Tables {
    /// Does a table lie in the 4K frame of `pa`? Cheap.
    #[inline]
    pub fn may_be_table(&self, pa: u64) -> bool {
        let frame = pa >> 12;
        let word = self.filter.get((frame >> 6) as usize);
        word.is_some_and(|word| word >> (frame & 63) & 1 != 0)
    }

    /// The table at `base`.
    pub fn get(&self, base: u64) -> Option<&Table> {
        self.tables.get(&base)
    }

    /// The addresses that the entry at `pa` translates, with the shape of its
    /// table and the root from which it is reached.
    pub fn entries(&self, pa: u64) -> Vec<(u64, Shape, RootId)> {
        let mut found = Vec::new();
        for &base in self.frames.get(&(pa >> 12)).into_iter().flatten() {
            let Some(table) = self.tables.get(&base) else {
                continue;
            };
            let index = (pa.wrapping_sub(base) / 8) as usize;
            if index < table.words.len() {
                let ways = table.ways.iter();
                found.extend(ways.map(|w| (table.entry_va(w.va, index), table.shape, w.root)));
            }
        }
        found
    }

    /// Takes note of what is now in `pa .. pa + len`, where `read` tells what
    /// is, and returns the entries that differ.
    pub fn stored(&mut self, pa: u64, len: u64, read: impl Fn(u64) -> Option<u64>) -> Vec<Stored> {
        let mut changed = Vec::new();
        let mut at = pa & !7;
        while at < pa + len {
            for &base in self.frames.get(&(at >> 12)).into_iter().flatten() {
                let Some(table) = self.tables.get_mut(&base) else {
                    continue;
                };
                let index = (at.wrapping_sub(base) / 8) as usize;
                let (Some(word), Some(new)) = (table.words.get_mut(index), read(at)) else {
                    continue;
                };
                let old = std::mem::replace(word, new);
                if old != new {
                    changed.push(Stored {
                        table: base,
                        index,
                        old,
                        new,
                    });
                }
            }
            at += 8;
        }
        changed
    }

    /// Walks come to the table at `base` from now on, and to those below.
    pub fn link(&mut self, mmu: &Mmu, mem: &impl PhysMem, base: u64, shape: Shape, way: Way) {
        self.link_at(mmu, mem, base, shape, way, DEEPEST);
    }

    fn link_at(
        &mut self,
        mmu: &Mmu,
        mem: &impl PhysMem,
        base: u64,
        shape: Shape,
        way: Way,
        depth: u8,
    ) {
        if mem.read_u64(base).is_none() || depth == 0 {
            return;
        }
        if let Some(table) = self.tables.get(&base)
            && table.shape != shape
        {
            // Used for something else before, and not seen to be freed.
            self.forget(base);
        }
        let table = match self.tables.get_mut(&base) {
            Some(table) => table,
            None => self.insert(base, shape),
        };
        let same = |known: &&mut Way| (known.root, known.va) == (way.root, way.va);
        match table.ways.iter_mut().find(same) {
            Some(known) if !known.removed => return,
            Some(known) => known.removed = false,
            None => table.ways.push(way),
        }
        for (index, word) in table.words.iter_mut().enumerate() {
            *word = mem.read_u64(base + index as u64 * 8).unwrap_or(0);
        }
        for (child, va) in self.children(mmu, base, way.va) {
            let way = Way { va, ..way };
            self.link_at(mmu, mem, child, format::next(mmu, shape), way, depth - 1);
        }
    }

    fn insert(&mut self, base: u64, shape: Shape) -> &mut Table {
        for frame in base >> 12..=(base + shape.bytes() - 1) >> 12 {
            self.frames.entry(frame).or_default().push(base);
            let word = (frame >> 6) as usize;
            if self.filter.len() <= word {
                self.filter.resize(word + 1, 0);
            }
            self.filter[word] |= 1 << (frame & 63);
        }
        self.most = self.most.max(self.tables.len() + 1);
        self.tables.entry(base).or_insert(Table {
            shape,
            ways: Vec::new(),
            words: vec![0; 1 << shape.index_bits],
        })
    }

    fn forget(&mut self, base: u64) {
        let Some(table) = self.tables.remove(&base) else {
            return;
        };
        for frame in base >> 12..=(base + table.shape.bytes() - 1) >> 12 {
            let Some(list) = self.frames.get_mut(&frame) else {
                continue;
            };
            list.retain(|b| *b != base);
            if list.is_empty() {
                self.frames.remove(&frame);
                self.filter[(frame >> 6) as usize] &= !(1 << (frame & 63));
            }
        }
    }

    /// Tables that the one at `base` leads to, with the addresses that they
    /// translate when it is reached at `va`.
    pub fn children(&self, mmu: &Mmu, base: u64, va: u64) -> Vec<(u64, u64)> {
        let Some(table) = self.tables.get(&base) else {
            return Vec::new();
        };
        let entries = table.words.iter().enumerate();
        entries
            .filter(|(_, word)| **word != 0)
            .filter_map(|(i, word)| match format::decode(mmu, table.shape, *word) {
                Desc::Table(child) => Some((child, table.entry_va(va, i))),
                _ => None,
            })
            .collect()
    }

    /// The entry that led from `root` to the table at `base` and address `va`
    /// is gone. With `keep` a TLB may still have it. Returns the leaves below.
    pub fn unlink(
        &mut self,
        mmu: &Mmu,
        base: u64,
        root: RootId,
        va: u64,
        keep: bool,
    ) -> Vec<(u64, Shape, Desc)> {
        let mut leaves = Vec::new();
        self.unlink_at(mmu, base, (root, va), keep, &mut leaves, DEEPEST);
        leaves
    }

    fn unlink_at(
        &mut self,
        mmu: &Mmu,
        base: u64,
        (root, va): (RootId, u64),
        keep: bool,
        leaves: &mut Vec<(u64, Shape, Desc)>,
        depth: u8,
    ) {
        let Some(table) = self.tables.get_mut(&base) else {
            return;
        };
        let Some(i) = table.ways.iter().position(|w| (w.root, w.va) == (root, va)) else {
            return;
        };
        if depth == 0 {
            return;
        }
        match keep {
            true => table.ways[i].removed = true,
            false => drop(table.ways.swap_remove(i)),
        }
        let unused = table.ways.is_empty();
        let children = self.children(mmu, base, va);
        if let Some(table) = self.tables.get(&base) {
            for (index, word) in table.words.iter().enumerate() {
                let desc = format::decode(mmu, table.shape, *word);
                if let Desc::Leaf(_) = desc {
                    leaves.push((table.entry_va(va, index), table.shape, desc));
                }
            }
        }
        if unused {
            self.forget(base);
        }
        for (child, va) in children {
            self.unlink_at(mmu, child, (root, va), keep, leaves, depth - 1);
        }
    }
}
