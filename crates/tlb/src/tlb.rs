// SPDX-License-Identifier: GPL-2.0-only
//! One TLB array: set-associative, entries of several sizes.
//!
//! An entry is keyed by its virtual page number at the size that it is held
//! at, by address-space identifier (ASID, PCID) and global bit. A lookup does
//! not know the size in advance, so each size that the array holds at the
//! moment is tried, as hardware with a unified array does.

use crate::design::Geometry;
use crate::leaf;
use crate::replacement::{Order, Replacement};

/// A translation as a TLB sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Size of the leaf in the page table, log2 of bytes.
    pub leaf_shift: u8,
    /// The most that may be held as one: the leaf, or the group of leaves
    /// around it that is coalesced, log2 of bytes.
    pub span_shift: u8,
    /// Address space; meaningless if `global`.
    pub asid: u16,
    /// Valid in every address space.
    pub global: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Start of what this slot translates; aligned to `1 << shift`.
    base: u64,
    /// Time of last use; 0 = empty.
    stamp: u64,
    asid: u16,
    /// Size that this slot translates, log2 of bytes.
    shift: u8,
    /// Size of the leaf it is part of. Larger than `shift` if the array does
    /// not hold leaves of that size and keeps a fragment; smaller if it holds
    /// several leaves as one.
    leaf_shift: u8,
    global: bool,
}

const EMPTY: Slot = Slot {
    base: 0,
    stamp: 0,
    asid: 0,
    shift: 0,
    leaf_shift: 0,
    global: false,
};

impl Slot {
    fn is_empty(&self) -> bool {
        self.stamp == 0
    }

    fn matches(&self, va: u64, asid: u16) -> bool {
        !self.is_empty()
            && (va ^ self.base) >> self.shift == 0
            && (self.global || self.asid == asid)
    }

    fn entry(&self) -> Entry {
        Entry {
            leaf_shift: self.leaf_shift,
            span_shift: self.span_shift(),
            asid: self.asid,
            global: self.global,
        }
    }

    fn span_shift(&self) -> u8 {
        self.leaf_shift.max(self.shift)
    }

    /// Does the *leaf* this slot belongs to, or the group of leaves that it is,
    /// overlap `start..=last`? Maintenance by address must remove a cached
    /// fragment whichever address in the leaf it names, and a group whichever
    /// leaf: software does not know what the TLB made of them.
    fn leaf_overlaps(&self, start: u64, last: u64) -> bool {
        let shift = self.span_shift();
        let first = self.base >> shift << shift;
        let end = first | ((1 << shift) - 1);
        first <= last && end >= start
    }
}

/// Which entries a TLB maintenance operation removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalidate {
    /// Everything. arm64 TLBI VMALLE1; x86 change of CR4.PGE, INVPCID type 2.
    All,
    /// Everything that is not global. x86 MOV to CR3 without PCIDs, INVPCID
    /// type 3.
    NonGlobal,
    /// What is not global of one address space. arm64 TLBI ASIDE1; x86 MOV to
    /// CR3 with PCIDs, INVPCID type 1.
    Asid(u16),
    /// By address.
    Range {
        /// First byte.
        start: u64,
        /// Last byte, inclusive, so that a range may end with the address
        /// space.
        last: u64,
        /// Only this address space; `None` for all (arm64 VAA forms).
        asid: Option<u16>,
        /// Global entries too? False only for INVPCID type 0.
        globals: bool,
    },
}

impl Invalidate {
    /// The entry that translates `va`, in `asid` or global.
    pub fn va(va: u64, asid: Option<u16>) -> Self {
        Invalidate::Range {
            start: va,
            last: va,
            asid,
            globals: true,
        }
    }

    fn covers(&self, slot: &Slot) -> bool {
        match *self {
            Invalidate::All => true,
            Invalidate::NonGlobal => !slot.global,
            Invalidate::Asid(asid) => !slot.global && slot.asid == asid,
            Invalidate::Range {
                start,
                last,
                asid,
                globals,
            } => {
                let space = if slot.global {
                    globals
                } else {
                    asid.is_none_or(|a| a == slot.asid)
                };
                space && slot.leaf_overlaps(start, last)
            }
        }
    }
}

/// Entries of the lookup shortcut; see [`Array::hint`].
const HINTS: usize = 256;

/// One array of entries.
pub struct Array {
    slots: Box<[Slot]>,
    ways: usize,
    set_mask: u64,
    /// By how many bits the page number is shifted before it is XORed into the
    /// number of the set; 63: by all.
    fold: u32,
    /// The state of the replacement policy besides times of use.
    order: Order,
    /// Sizes that the array can hold, log2 of bytes, ascending.
    sizes: Box<[u8]>,
    /// Entries held at each of `sizes`.
    held: Vec<u32>,
    clock: u64,
    /// Where the last hit on a page was, by a hash of its address: saves the
    /// search of a fully associative array. Always verified, so it can be
    /// stale without changing any count.
    hint: Box<[u16; HINTS]>,
}

fn hint_of(va: u64) -> usize {
    ((va >> 12) ^ (va >> 20) ^ (va >> 28)) as usize % HINTS
}

impl Array {
    /// An empty array, which finds its sets by the page number's low bits, XOR
    /// the next ones if it is `hashed`, and can hold groups of
    /// `1 << log2_pages` pages as one.
    ///
    /// # Panics
    ///
    /// If the number of sets is not a power of two, or there are more than
    /// 65 535 entries.
    pub fn new(
        geometry: &Geometry,
        replacement: Replacement,
        hashed: bool,
        log2_pages: u8,
    ) -> Self {
        let &Geometry { entries, ways, .. } = geometry;
        let sets = geometry.sets();
        assert!(
            sets * ways == entries && sets.is_power_of_two() && entries < 1 << 16,
            "{entries} entries of {ways} ways: the number of sets must be a power of two"
        );
        let sizes = geometry.sizes_with_groups(log2_pages);
        Array {
            slots: vec![EMPTY; entries].into_boxed_slice(),
            ways,
            set_mask: sets as u64 - 1,
            fold: if hashed { sets.ilog2() } else { 63 },
            order: Order::new(replacement, sets, ways),
            held: vec![0; sizes.len()],
            sizes: sizes.into(),
            clock: 0,
            hint: Box::new([0; HINTS]),
        }
    }

    /// The size at which this array holds a leaf of `1 << leaf_shift` bytes:
    /// the largest it has that is not larger; `None` if it holds none.
    fn held_at(&self, leaf_shift: u8) -> Option<usize> {
        self.sizes.iter().rposition(|&s| s <= leaf_shift)
    }

    /// Size, log2 of bytes, at which this array holds a leaf of
    /// `1 << leaf_shift` bytes; `None` if it cannot.
    pub fn holds(&self, leaf_shift: u8) -> Option<u8> {
        self.held_at(leaf_shift).map(|i| self.sizes[i])
    }

    fn set_start(&self, va: u64, shift: u8) -> usize {
        let page = va >> shift;
        ((page ^ page >> self.fold) & self.set_mask) as usize * self.ways
    }

    fn find(&self, va: u64, asid: u16) -> Option<usize> {
        let hinted = usize::from(self.hint[hint_of(va)]);
        if self.slots[hinted].matches(va, asid) {
            return Some(hinted);
        }
        for (i, &shift) in self.sizes.iter().enumerate() {
            if self.held[i] == 0 {
                continue;
            }
            let start = self.set_start(va, shift);
            let set = &self.slots[start..start + self.ways];
            if let Some(way) = set.iter().position(|s| s.matches(va, asid)) {
                return Some(start + way);
            }
            if self.set_mask == 0 {
                return None; // one set: all sizes were searched at once
            }
        }
        None
    }

    /// Looks `va` up and makes what it finds the most recently used. Returns
    /// the entry and the size that it is held at, log2 of bytes.
    pub fn lookup(&mut self, va: u64, asid: u16) -> Option<(Entry, u8)> {
        let i = self.find(va, asid)?;
        self.used(i);
        self.hint[hint_of(va)] = i as u16;
        Some((self.slots[i].entry(), self.slots[i].shift))
    }

    /// Puts the part of `entry`'s span around `va` in, in place of an empty
    /// entry of its set or else of what the policy names. Returns the size that
    /// it is held at; `None`, and nothing happens, if the array holds no such
    /// size.
    pub fn insert(&mut self, va: u64, entry: Entry) -> Option<u8> {
        let size = self.held_at(entry.span_shift)?;
        let shift = self.sizes[size];
        let i = self.place(self.set_start(va, shift));
        self.forget(i);
        self.held[size] += 1;
        self.slots[i] = Slot {
            base: va >> shift << shift,
            stamp: 0,
            asid: entry.asid,
            shift,
            leaf_shift: entry.leaf_shift,
            global: entry.global,
        };
        self.used(i);
        self.hint[hint_of(va)] = i as u16;
        Some(shift)
    }

    /// Where in the set that begins at `start` the next entry goes.
    fn place(&mut self, start: usize) -> usize {
        let set = &self.slots[start..start + self.ways];
        let stamps = set.iter().map(|slot| slot.stamp).enumerate();
        let oldest = stamps.min_by_key(|&(_, stamp)| stamp);
        let (oldest, stamp) = oldest.unwrap_or_default();
        if stamp == 0 || matches!(self.order, Order::Stamps) {
            return start + oldest;
        }
        let victim = self.order.victim(start / self.ways, self.ways);
        start + victim.unwrap_or(oldest)
    }

    /// Entry `i` is the most recently used.
    #[inline]
    fn used(&mut self, i: usize) {
        self.clock += 1;
        self.slots[i].stamp = self.clock;
        if !matches!(self.order, Order::Stamps) {
            self.tell_order(i);
        }
    }

    /// Out of the way of LRU, which needs none of it.
    #[cold]
    fn tell_order(&mut self, i: usize) {
        self.order.used(i / self.ways, i % self.ways);
    }

    fn forget(&mut self, i: usize) {
        if self.slots[i].is_empty() {
            return;
        }
        let shift = self.slots[i].shift;
        if let Some(size) = self.sizes.iter().position(|&s| s == shift) {
            self.held[size] -= 1;
        }
        self.slots[i] = EMPTY;
    }

    /// Removes what `op` covers; returns how many entries that was.
    pub fn invalidate(&mut self, op: &Invalidate) -> usize {
        let mut removed = 0;
        for i in 0..self.slots.len() {
            if !self.slots[i].is_empty() && op.covers(&self.slots[i]) {
                self.forget(i);
                removed += 1;
            }
        }
        removed
    }

    /// Entries held, by leaf size as in [`leaf::LEAVES`].
    pub fn occupancy(&self) -> [usize; leaf::COUNT] {
        let mut count = [0; leaf::COUNT];
        for slot in self.slots.iter().filter(|s| !s.is_empty()) {
            count[leaf::index(slot.leaf_shift)] += 1;
        }
        count
    }
}

#[cfg(test)]
#[path = "tlb_tests.rs"]
mod tests;
