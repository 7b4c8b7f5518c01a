// SPDX-License-Identifier: GPL-2.0-only
//! One core: arrays, walker and counters tied together.
//!
//! A lookup goes L1, L2, walk. What an L2 hit or a walk finds is put into L1
//! and, after a walk, into L2. An L1 hit does not touch L2, so the L2's order
//! of use is that of L1 misses, as in hardware. Nothing keeps the levels
//! inclusive: an entry evicted from L2 stays in L1.

use crate::leaf;
use crate::mmu::Mmu;
use crate::profile::{ArraySpec, Level2, Profile};
use crate::report;
use crate::tlb::{Array, Entry, Invalidate};
use crate::walk::{PhysMem, Walk};
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

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// EL0, CPL 3.
    User = 0,
    /// EL1, CPL 0.
    Kernel = 1,
}

/// Bucket for accesses that do not count (translation off).
const DISCARD: usize = leaf::COUNT;
const BUCKETS: usize = leaf::COUNT + 1;

/// Counters of one side, by leaf size as in [`leaf::LEAVES`].
#[derive(Clone, Copy, Default)]
struct SideCounters {
    accesses: [u64; BUCKETS],
    l1_misses: [u64; BUCKETS],
    l2_misses: [u64; BUCKETS],
}

/// Counters of one phase in one mode.
#[derive(Clone, Copy, Default)]
struct Counters {
    instructions: u64,
    sides: [SideCounters; 2],
    walks: u64,
    walk_reads: u64,
    tlb_invalidations: u64,
    function_calls: u64,
    function_instructions: u64,
}

/// The region that the last access of a side hit, so that the next access to
/// it needs no lookup. The entry is the most recently used of its set already,
/// hence skipping the lookup changes no order and no count.
#[derive(Clone, Copy)]
struct Last {
    base: u64,
    mask: u64,
    leaf: usize,
}

/// Matches no address: bits 63:55 of one are all equal.
const NOWHERE: u64 = 1 << 63;
const NO_LAST: Last = Last {
    base: NOWHERE,
    mask: u64::MAX,
    leaf: leaf::NONE,
};
/// Matches every address.
const OFF: Last = Last {
    base: 0,
    mask: 0,
    leaf: DISCARD,
};

/// One level of one side: arrays looked up in parallel.
struct Level(Vec<Array>);

impl Level {
    fn new(specs: &'static [ArraySpec]) -> Self {
        let array = |s: &ArraySpec| Array::new(s.entries, s.ways, s.sizes);
        Level(specs.iter().map(array).collect())
    }

    fn lookup(&mut self, va: u64, asid: u16) -> Option<(Entry, u8)> {
        self.0.iter_mut().find_map(|a| a.lookup(va, asid))
    }

    /// Inserts into the array that holds the leaf largest.
    fn insert(&mut self, va: u64, entry: Entry) -> Option<u8> {
        let best = self
            .0
            .iter_mut()
            .max_by_key(|a| a.holds(entry.leaf_shift))?;
        best.insert(va, entry)
    }
}

/// A walk that found nothing for an access that had succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedWalk {
    /// Virtual address.
    pub va: u64,
    /// What came of the walk.
    pub walk: Walk,
}

/// A core with its TLBs.
pub struct Core<M> {
    mem: M,
    mmu: Mmu,
    asid: u16,
    contiguous: bool,
    l1: [Level; 2],
    /// One if unified, else one per side.
    l2: Vec<Level>,
    last: [Last; 2],
    phase: usize,
    mode: Mode,
    counters: Box<[Counters]>,
    failed: u64,
    first_failed: Option<FailedWalk>,
}

impl<M: PhysMem> Core<M> {
    /// A core with empty TLBs in phase 0, kernel mode.
    pub fn new(profile: &Profile, mem: M, mmu: Mmu) -> Self {
        let l2 = match profile.l2 {
            Level2::Unified(arrays) => vec![Level::new(arrays)],
            Level2::Split { instruction, data } => {
                vec![Level::new(instruction), Level::new(data)]
            }
        };
        let mut core = Core {
            mem,
            mmu,
            asid: 0,
            contiguous: profile.contiguous,
            l1: [Level::new(profile.l1i), Level::new(profile.l1d)],
            l2,
            last: [NO_LAST; 2],
            phase: 0,
            mode: Mode::Kernel,
            counters: vec![Counters::default(); PHASES * 2].into_boxed_slice(),
            failed: 0,
            first_failed: None,
        };
        core.set_mmu(mmu);
        core
    }

    /// The translation registers in use.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// Guest memory.
    pub fn mem(&self) -> &M {
        &self.mem
    }

    /// Takes new translation registers. Does not invalidate anything: what
    /// the architecture drops with them is for the caller to say.
    pub fn set_mmu(&mut self, mmu: Mmu) {
        self.mmu = mmu;
        self.asid = mmu.asid();
        self.forget_last();
    }

    fn forget_last(&mut self) {
        let last = if self.mmu.enabled() { NO_LAST } else { OFF };
        self.last = [last; 2];
    }

    /// From now on counts go to `mode`.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Who runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// From now on counts go to `phase`, less than [`PHASES`].
    pub fn set_phase(&mut self, phase: u8) {
        assert!(usize::from(phase) < PHASES, "phase {phase} is above 127");
        self.phase = usize::from(phase);
    }

    /// The current phase.
    pub fn phase(&self) -> u8 {
        self.phase as u8
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.counters[self.phase * 2 + self.mode as usize]
    }

    /// Counts `n` instructions.
    pub fn add_instructions(&mut self, n: u64) {
        self.counters().instructions += n;
    }

    /// Counts an instruction that invalidates translations, here or on all cores. What it does
    /// to this core is for [`Core::invalidate`], which other cores' instructions call too.
    pub fn count_invalidation(&mut self) {
        self.counters().tlb_invalidations += 1;
    }

    /// Counts a call of the function that the guest named.
    pub fn count_call(&mut self) {
        self.counters().function_calls += 1;
    }

    /// Says that of the instructions counted `n` were of a call of that function.
    pub fn add_function_instructions(&mut self, n: u64) {
        self.counters().function_instructions += n;
    }

    /// One access of `side` to the byte at `va`.
    #[inline]
    pub fn access(&mut self, side: Side, va: u64) {
        let last = &self.last[side as usize];
        if (self.mmu.key(va) ^ last.base) & last.mask != 0 {
            self.look_up(side, va);
        }
        self.add_accesses(side, 1);
    }

    /// One access to `size` bytes at `va`: a second one if it ends in another
    /// page.
    #[inline]
    pub fn access_bytes(&mut self, side: Side, va: u64, size: u64) {
        self.access(side, va);
        let end = va.wrapping_add(size - 1);
        if (va ^ end) >> 12 != 0 && !self.is_last(side, end) {
            self.access(side, end);
        }
    }

    /// Is `va` in what the last access of `side` hit?
    #[inline]
    pub fn is_last(&self, side: Side, va: u64) -> bool {
        let last = &self.last[side as usize];
        (self.mmu.key(va) ^ last.base) & last.mask == 0
    }

    /// Counts `n` accesses to what the last lookup of `side` found.
    #[inline]
    pub fn add_accesses(&mut self, side: Side, n: u64) {
        let leaf = self.last[side as usize].leaf;
        self.counters().sides[side as usize].accesses[leaf] += n;
    }

    /// Did the last lookup of `side` find a translation that may be used
    /// again without another lookup?
    pub fn last_is_usable(&self, side: Side) -> bool {
        self.last[side as usize].base != NOWHERE
    }

    /// Looks `va` up for `side`, counting misses but not the access itself.
    pub fn look_up(&mut self, side: Side, va: u64) {
        if !self.mmu.enabled() {
            return;
        }
        let va = self.mmu.key(va);
        let (entry, held) = match self.l1[side as usize].lookup(va, self.asid) {
            Some((entry, shift)) => (Some(entry), Some(shift)),
            None => self.miss(side, va),
        };
        let leaf = entry.map_or(leaf::NONE, |e| leaf::index(e.leaf_shift));
        self.last[side as usize] = match held {
            Some(shift) => Last {
                base: va >> shift << shift,
                mask: u64::MAX << shift,
                leaf,
            },
            None => Last { leaf, ..NO_LAST },
        };
    }

    /// The L1 missed. Returns the translation, and the size at which L1 holds
    /// it now.
    fn miss(&mut self, side: Side, va: u64) -> (Option<Entry>, Option<u8>) {
        let l2 = side as usize % self.l2.len();
        let hit = self.l2[l2].lookup(va, self.asid);
        let entry = match hit {
            Some((entry, _)) => Some(entry),
            None => self.walk(l2, va),
        };
        let leaf = entry.map_or(leaf::NONE, |e| leaf::index(e.leaf_shift));
        let counters = &mut self.counters().sides[side as usize];
        counters.l1_misses[leaf] += 1;
        counters.l2_misses[leaf] += u64::from(hit.is_none());
        let held = entry.and_then(|e| self.l1[side as usize].insert(va, e));
        (entry, held)
    }

    /// Walks, and puts what is found into level 2.
    fn walk(&mut self, l2: usize, va: u64) -> Option<Entry> {
        let walk = self.mmu.walk(&self.mem, va);
        let counters = self.counters();
        counters.walks += 1;
        counters.walk_reads += u64::from(walk.reads());
        let Walk::Found(t) = walk else {
            self.failed += 1;
            self.first_failed.get_or_insert(FailedWalk { va, walk });
            return None;
        };
        let entry = Entry {
            leaf_shift: if self.contiguous {
                t.shift
            } else {
                t.unit_shift
            },
            asid: self.asid,
            global: t.global,
        };
        self.l2[l2].insert(va, entry);
        Some(entry)
    }

    /// Removes what `op` covers from all arrays; returns how many entries.
    pub fn invalidate(&mut self, op: &Invalidate) -> usize {
        self.forget_last();
        let levels = self.l1.iter_mut().chain(&mut self.l2);
        levels
            .flat_map(|l| &mut l.0)
            .map(|a| a.invalidate(op))
            .sum()
    }

    /// Bytes of `start .. start + len` by the leaf that maps them in the
    /// current page tables, contiguous groups included whatever the profile
    /// says; `"unmapped"` for the rest.
    pub fn coverage(&self, start: u64, len: u64) -> BTreeMap<String, u64> {
        let mut leaves = BTreeMap::new();
        self.walk_range(start, len, |_, bytes, walk| {
            let name = match walk {
                Walk::Found(t) => leaf::name_of_shift(t.shift),
                Walk::Fault { .. } | Walk::Unbacked { .. } => "unmapped",
            };
            *leaves.entry(name.to_owned()).or_default() += bytes;
        });
        leaves
    }

    /// Bytes of the tables that translate `len` bytes at `start`: each once, the first one as
    /// large as the others.
    pub fn table_bytes(&self, start: u64, len: u64) -> u64 {
        let mut bytes = 0;
        // The last table that was seen at each depth, by what it translates.
        let mut last = Vec::<u64>::new();
        self.walk_range(start, len, |va, _, walk| {
            last.truncate(walk.reads().into());
            for depth in 0..walk.reads() {
                let (shift, size) = self.mmu.table(va, depth);
                let number = va.checked_shr(shift.into()).unwrap_or(0);
                match last.get_mut(usize::from(depth)) {
                    Some(was) if *was == number => continue,
                    Some(was) => *was = number,
                    None => last.push(number),
                }
                bytes += size;
            }
        });
        bytes
    }

    /// Walks for `len` bytes at `start`: `each` gets the first address that a walk is about, how
    /// many bytes of the range, and what it came to.
    fn walk_range(&self, start: u64, len: u64, mut each: impl FnMut(u64, u64, Walk)) {
        let end = start.saturating_add(len);
        let mut va = start;
        while va < end {
            let walk = self.mmu.walk(&self.mem, va);
            let span = match walk {
                Walk::Found(t) => t.unit_shift,
                Walk::Fault { span_shift, .. } => span_shift,
                Walk::Unbacked { .. } => 12,
            };
            let next = (va | ((1 << span) - 1)).saturating_add(1).min(end);
            each(va, next - va, walk);
            va = next;
        }
    }

    /// Walks that found nothing though the access had succeeded: how many,
    /// and the first.
    pub fn failed_walks(&self) -> (u64, Option<FailedWalk>) {
        (self.failed, self.first_failed)
    }

    /// The counters of all phases that have any, in order.
    pub fn phases(&self) -> Vec<report::Phase> {
        let both = self.counters.chunks_exact(2).enumerate();
        both.map(|(i, c)| report::Phase {
            phase: i as u8,
            user: c[Mode::User as usize].report(),
            kernel: c[Mode::Kernel as usize].report(),
        })
        .filter(|p| p.user != Default::default() || p.kernel != Default::default())
        .collect()
    }
}

impl Counters {
    fn report(&self) -> report::Counts {
        report::Counts {
            instructions: self.instructions,
            itlb: self.sides[Side::Instruction as usize].report(),
            dtlb: self.sides[Side::Data as usize].report(),
            walks: self.walks,
            walk_reads: self.walk_reads,
            tlb_invalidations: self.tlb_invalidations,
            function_calls: self.function_calls,
            function_instructions: self.function_instructions,
        }
    }
}

impl SideCounters {
    fn report(&self) -> report::Tlb {
        let mut tlb = report::Tlb::default();
        for i in 0..leaf::COUNT {
            let counts = report::LeafCounts {
                accesses: self.accesses[i],
                l1_misses: self.l1_misses[i],
                l2_misses: self.l2_misses[i],
            };
            if counts != report::LeafCounts::default() {
                tlb.add(leaf::name(i), counts);
            }
        }
        tlb
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
