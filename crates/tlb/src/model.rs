// SPDX-License-Identifier: GPL-2.0-only
//! One core: its registers, its TLBs, and what it counts.
//!
//! Beside the TLBs of its profile a core can have variants of them, which see
//! the same accesses, page tables and maintenance.

use crate::design::Design;
use crate::leaf;
pub use crate::levels::{FailedWalk, PHASES, Side};
use crate::levels::{Levels, Misses, Space};
use crate::mmu::Mmu;
use crate::profile::Profile;
use crate::report;
use crate::tlb::Invalidate;
use crate::variant::Variant;
use crate::walk::{PhysMem, Walk};
use std::collections::BTreeMap;

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

/// Counters of one phase in one mode; accesses by side and leaf size, as in
/// [`leaf::LEAVES`].
#[derive(Clone, Copy, Default)]
struct Counters {
    instructions: u64,
    accesses: [[u64; BUCKETS]; 2],
    tlb_invalidations: u64,
    function_calls: u64,
    function_instructions: u64,
}

/// The region that the last access of a side hit, so that the next access to
/// it needs no lookup. The entry is the most recently used of its set already,
/// hence skipping the lookup changes no order and no count. Beside variants the
/// region is one page of 4K, the least that an entry of any can translate.
#[derive(Clone, Copy)]
struct Last {
    base: u64,
    mask: u64,
    /// As `mask`, of all that the entry translates.
    entry_mask: u64,
    leaf: usize,
}

/// Matches no address: bits 63:55 of one are all equal.
const NOWHERE: u64 = 1 << 63;
const NO_LAST: Last = Last {
    base: NOWHERE,
    mask: u64::MAX,
    entry_mask: u64::MAX,
    leaf: leaf::NONE,
};
/// Matches every address.
const OFF: Last = Last {
    base: 0,
    mask: 0,
    entry_mask: 0,
    leaf: DISCARD,
};

/// A core with its TLBs.
pub struct Core<M> {
    space: Space<M>,
    levels: Levels,
    variants: Vec<(Variant, Levels)>,
    last: [Last; 2],
    phase: usize,
    mode: Mode,
    counters: Box<[Counters]>,
}

impl<M: PhysMem> Core<M> {
    /// A core with empty TLBs in phase 0, kernel mode.
    pub fn new(profile: &Profile, mem: M, mmu: Mmu) -> Self {
        Self::with_variants(profile, Vec::new(), mem, mmu)
    }

    /// The same with these variants beside the profile.
    pub fn with_variants(profile: &Profile, variants: Vec<Variant>, mem: M, mmu: Mmu) -> Self {
        let built = |variant: Variant| {
            let levels = Levels::new(&variant.design);
            (variant, levels)
        };
        let mut core = Core {
            space: Space { mem, mmu, asid: 0 },
            levels: Levels::new(&Design::from(profile)),
            variants: variants.into_iter().map(built).collect(),
            last: [NO_LAST; 2],
            phase: 0,
            mode: Mode::Kernel,
            counters: vec![Counters::default(); PHASES * 2].into_boxed_slice(),
        };
        core.set_mmu(mmu);
        core
    }

    /// The translation registers in use.
    pub fn mmu(&self) -> &Mmu {
        &self.space.mmu
    }

    /// Guest memory.
    pub fn mem(&self) -> &M {
        &self.space.mem
    }

    /// Takes new translation registers. Does not invalidate anything: what
    /// the architecture drops with them is for the caller to say.
    pub fn set_mmu(&mut self, mmu: Mmu) {
        self.space.mmu = mmu;
        self.space.asid = mmu.asid();
        self.forget_last();
    }

    fn forget_last(&mut self) {
        let last = if self.space.mmu.enabled() {
            NO_LAST
        } else {
            OFF
        };
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

    /// Where counts belong now.
    fn at(&self) -> usize {
        self.phase * 2 + self.mode as usize
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
        if (self.space.mmu.key(va) ^ last.base) & last.mask != 0 {
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
            self.access_next_page(side, end);
        }
    }

    #[cold]
    fn access_next_page(&mut self, side: Side, va: u64) {
        let is_new = !self.is_in_entry(side, va);
        self.look_up(side, va);
        self.add_accesses(side, u64::from(is_new));
    }

    /// Is `va` in the entry that the last access of `side` hit?
    fn is_in_entry(&self, side: Side, va: u64) -> bool {
        let last = &self.last[side as usize];
        (self.space.mmu.key(va) ^ last.base) & last.entry_mask == 0
    }

    /// Is `va` in what the last access of `side` hit?
    #[inline]
    pub fn is_last(&self, side: Side, va: u64) -> bool {
        let last = &self.last[side as usize];
        (self.space.mmu.key(va) ^ last.base) & last.mask == 0
    }

    /// Counts `n` accesses to what the last lookup of `side` found.
    #[inline]
    pub fn add_accesses(&mut self, side: Side, n: u64) {
        let leaf = self.last[side as usize].leaf;
        self.counters().accesses[side as usize][leaf] += n;
    }

    /// Did the last lookup of `side` find a translation that may be used
    /// again without another lookup?
    pub fn last_is_usable(&self, side: Side) -> bool {
        self.last[side as usize].base != NOWHERE
    }

    /// Looks `va` up for `side`, counting misses but not the access itself.
    pub fn look_up(&mut self, side: Side, va: u64) {
        if !self.space.mmu.enabled() {
            return;
        }
        let va = self.space.mmu.key(va);
        let at = self.at();
        let (leaf, held) = self.levels.look_up(&self.space, at, side, va);
        self.last[side as usize] = match held {
            Some(shift) => Last {
                base: va >> shift << shift,
                mask: u64::MAX << shift,
                entry_mask: u64::MAX << shift,
                leaf,
            },
            None => Last { leaf, ..NO_LAST },
        };
        if !self.variants.is_empty() {
            self.look_up_in_variants(side, va);
        }
    }

    #[cold]
    fn look_up_in_variants(&mut self, side: Side, va: u64) {
        let at = self.at();
        let last = &mut self.last[side as usize];
        if last.base != NOWHERE {
            last.base = va >> 12 << 12;
            last.mask = u64::MAX << 12;
        }
        for (_, levels) in &mut self.variants {
            let (_, held) = levels.look_up(&self.space, at, side, va);
            if held.is_none() {
                last.base = NOWHERE;
            }
        }
    }

    /// Removes what `op` covers from all arrays; returns how many entries of
    /// the profile's.
    pub fn invalidate(&mut self, op: &Invalidate) -> usize {
        self.forget_last();
        for (_, levels) in &mut self.variants {
            levels.invalidate(op);
        }
        self.levels.invalidate(op)
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
                let (shift, size) = self.space.mmu.table(va, depth);
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
            let walk = self.space.walk(va);
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
        (self.levels.failed, self.levels.first_failed)
    }

    /// The counters of all phases that have any, in order.
    pub fn phases(&self) -> Vec<report::Phase> {
        let counted = self.counters.iter().zip(&self.levels.misses);
        let counts: Vec<_> = counted.map(|(c, m)| c.report(m)).collect();
        let both = counts.chunks_exact(2).enumerate();
        both.map(|(i, c)| report::Phase {
            phase: i as u8,
            user: c[Mode::User as usize].clone(),
            kernel: c[Mode::Kernel as usize].clone(),
        })
        .filter(|p| p.user != Default::default() || p.kernel != Default::default())
        .collect()
    }

    /// The counts of the variants, in all phases that have any counts.
    pub fn models(&self) -> Vec<report::Model> {
        let phases: Vec<u8> = self.phases().iter().map(|p| p.phase).collect();
        let model = |(variant, levels): &(Variant, Levels)| {
            let of = |phase: u8, mode| levels.misses[usize::from(phase) * 2 + mode as usize];
            let phase = |&phase: &u8| report::MissedPhase {
                phase,
                user: of(phase, Mode::User).report(),
                kernel: of(phase, Mode::Kernel).report(),
            };
            report::Model {
                name: variant.name.to_owned(),
                about: variant.about.to_owned(),
                phases: phases.iter().map(phase).collect(),
            }
        };
        self.variants.iter().map(model).collect()
    }
}

impl Counters {
    fn report(&self, misses: &Misses) -> report::Counts {
        let walks: u64 = misses.sides.iter().flat_map(|side| side.l2).sum();
        report::Counts {
            instructions: self.instructions,
            itlb: self.side(Side::Instruction, misses),
            dtlb: self.side(Side::Data, misses),
            walks,
            walk_reads: misses.walk_reads,
            tlb_invalidations: self.tlb_invalidations,
            function_calls: self.function_calls,
            function_instructions: self.function_instructions,
        }
    }

    fn side(&self, side: Side, misses: &Misses) -> report::Tlb {
        let mut tlb = report::Tlb::default();
        for leaf in 0..leaf::COUNT {
            let counts = report::LeafCounts {
                accesses: self.accesses[side as usize][leaf],
                ..misses.of_leaf(side, leaf)
            };
            if counts != report::LeafCounts::default() {
                tlb.add(leaf::name(leaf), counts);
            }
        }
        tlb
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
