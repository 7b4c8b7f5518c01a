// SPDX-License-Identifier: GPL-2.0-only
//! Old translations: what left the page tables and may still be in a TLB.

use super::format::{Desc, grant};
use crate::tlb::Invalidate;
use std::collections::{BTreeMap, HashMap};

/// Which address spaces an old translation holds in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All.
    Global,
    /// The kernel's, though not global (KPTI): whatever the ASID or PCID is.
    Kernel,
    /// One.
    Asid(u16),
}

/// Where calls return to, the innermost first; 0 behind the last one that is known.
pub type Callers = [u64; 6];

/// Who changed a table, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// CPU.
    pub cpu: usize,
    /// Address of the instruction.
    pub pc: u64,
    /// What tells kernel threads of execution apart: the kernel stack.
    pub task: u64,
    /// The callers of that code.
    pub callers: Callers,
}

/// An old translation.
#[derive(Clone, Debug)]
pub struct Record {
    /// First address.
    pub va: u64,
    /// Bytes, log2.
    pub shift: u8,
    /// Address spaces.
    pub scope: Scope,
    /// Level, 3 being the last.
    pub level: i8,
    /// What was there.
    pub old: Desc,
    /// CPUs that may hold it, a bit each.
    pub holders: u64,
    /// CPUs that know of the store: the one that made it, and those that read
    /// the entry since.
    pub seen_by: u64,
    /// One of these has had a DSB since, so that a TLBI covers it.
    pub visible: bool,
    /// Invalidations that are not complete: who made it, for which CPUs.
    pub in_flight: Vec<(usize, u64)>,
    /// The CPU that invalidated it, and which has not synchronised since.
    pub unsynchronised: u64,
    /// The store that took it away.
    pub at: At,
    /// Whoever took it away has returned to user space since, so that nobody
    /// is about to flush it.
    pub lapsed: bool,
}

impl Record {
    /// CPUs whose accesses it may still serve.
    fn serves(&self) -> u64 {
        self.holders | self.unsynchronised
    }

    /// Could nothing have been fetched through it?
    fn is_data(&self) -> bool {
        const FETCH: u8 = grant::KERNEL_FETCH | grant::USER_FETCH;
        matches!(&self.old, Desc::Leaf(leaf) if leaf.grants & FETCH == 0)
    }

    /// Last address.
    pub fn last(&self) -> u64 {
        self.va | ((1 << self.shift) - 1)
    }
}

/// A TLB invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flush {
    /// What it covers.
    pub what: Invalidate,
    /// Leaves only, no tables (the VALE forms).
    pub leaves_only: bool,
    /// Level of the leaf that it is about (the TTL hint).
    pub level: Option<i8>,
    /// Other CPUs of the Inner Shareable domain too.
    pub broadcast: bool,
}

impl Flush {
    /// Does it cover `r`?
    fn covers(&self, r: &Record) -> bool {
        if self.leaves_only && matches!(r.old, Desc::Table(_)) {
            return false;
        }
        // The hint names the level of the leaf: of that leaf's entry the flush
        // takes hold, and of the tables on the way to it.
        let reached = match r.old {
            Desc::Table(_) => self.level.is_none_or(|level| level > r.level),
            _ => self.level.is_none_or(|level| level == r.level),
        };
        if !reached {
            return false;
        }
        match self.what {
            Invalidate::All => true,
            Invalidate::NonGlobal => r.scope != Scope::Global,
            Invalidate::Asid(asid) => r.scope == Scope::Asid(asid),
            Invalidate::Range {
                start,
                last,
                asid,
                globals,
            } => {
                let space = match (r.scope, asid) {
                    (Scope::Global, _) => globals,
                    (_, None) => true,
                    (Scope::Asid(held), Some(asid)) => held == asid,
                    // A kernel without global entries names the ASID that it
                    // runs with, and then the user's.
                    (Scope::Kernel, Some(_)) => globals,
                };
                space && start <= r.last() && last >= r.va
            }
        }
    }
}

/// Old translations remembered at a time. At up to 350 bytes each, with what finds them, 700 MB.
const MOST: usize = 2_000_000;

/// So many keys are not worth looking through.
const FEW: usize = 1 << 16;

/// The records of one scope, by size and by address.
#[derive(Debug, Default)]
struct Space {
    sizes: BTreeMap<u8, BTreeMap<u64, Vec<Record>>>,
    /// All records lie between these; what was removed does not narrow them.
    bounds: Option<(u64, u64)>,
}

/// How many records there are in a part of the address space, by a hash of it: asked at accesses,
/// most of which are elsewhere.
#[derive(Debug)]
struct Marks {
    /// By 64K: of records up to that size.
    fine: Vec<u32>,
    /// By 1G: of wider ones.
    coarse: Vec<u32>,
    /// Records wider than that.
    huge: u32,
}

/// Sizes of what [`Marks`] counts by, log2.
const FINE: u8 = 16;
const COARSE: u8 = 30;

impl Default for Marks {
    fn default() -> Self {
        Marks {
            fine: vec![0; 1 << MARKS],
            coarse: vec![0; 1 << MARKS],
            huge: 0,
        }
    }
}

/// Numbers in each list of [`Marks`], log2.
const MARKS: u32 = 12;

impl Marks {
    /// Where the part of `1 << shift` bytes around `va` is counted: Fibonacci hashing.
    fn slot(va: u64, shift: u8) -> usize {
        let part = (va >> shift).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (part >> (64 - MARKS)) as usize
    }

    fn of(&mut self, record: &Record) -> &mut u32 {
        if record.shift <= FINE {
            &mut self.fine[Self::slot(record.va, FINE)]
        } else if record.shift <= COARSE {
            &mut self.coarse[Self::slot(record.va, COARSE)]
        } else {
            &mut self.huge
        }
    }

    /// May a record have `va`? True too often, never false wrongly.
    fn may_have(&self, va: u64) -> bool {
        self.huge != 0
            || self.fine[Self::slot(va, FINE)] != 0
            || self.coarse[Self::slot(va, COARSE)] != 0
    }
}

/// All old translations.
#[derive(Debug, Default)]
pub struct Stale {
    /// Few, and asked for at most accesses: cheaper than hashes.
    spaces: BTreeMap<Scope, Space>,
    len: usize,
    marks: Marks,
    /// How many may serve each CPU.
    serving: Serving,
    /// Most at a time.
    pub most: usize,
    /// Not remembered.
    pub forgotten: u64,
    /// The CPUs promise FEAT_ETS2: [`super::Referee::ets2`].
    pub ets2: bool,
    /// Those whose store no DSB followed, by CPU that knows of it.
    invisible: HashMap<usize, Vec<Key>>,
    /// Those whose maker has not returned to user space.
    open: HashMap<u64, Vec<Key>>,
    /// Those of them that are the kernel's own, and whose maker has run ever since.
    open_kernel: HashMap<u64, Vec<Key>>,
    /// Keys in `open`, and how many there may be before it is weeded.
    opened: usize,
    most_opened: usize,
    /// Those with an invalidation in flight, by CPU that made it.
    in_flight: HashMap<usize, Vec<Key>>,
    /// Those that wait for a context synchronisation, by CPU.
    unsynchronised: HashMap<usize, Vec<Key>>,
}

type Key = (Scope, u8, u64);

/// A number for each CPU.
#[derive(Debug)]
struct Serving([usize; 64]);

impl Default for Serving {
    fn default() -> Self {
        Serving([0; 64])
    }
}

/// The CPUs of a mask.
fn cpus_of(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let cpu = (mask != 0).then_some(mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(cpu)
    })
}

impl Serving {
    fn more(&mut self, mask: u64) {
        cpus_of(mask).for_each(|cpu| self.0[cpu] += 1);
    }

    fn less(&mut self, mask: u64) {
        cpus_of(mask).for_each(|cpu| self.0[cpu] -= 1);
    }

    fn subtract(&mut self, lost: &Serving) {
        self.0
            .iter_mut()
            .zip(lost.0)
            .for_each(|(n, lost)| *n -= lost);
    }
}

impl Stale {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// May none serve an access of `cpu`?
    pub fn spares(&self, cpu: usize) -> bool {
        self.serving.0[cpu] == 0
    }

    /// May an access to `va` in `asid` meet a record? Cheap; true too often.
    pub fn may_concern(&self, va: u64, asid: u16) -> bool {
        self.len != 0
            && self.marks.may_have(va)
            && [Scope::Global, Scope::Kernel, Scope::Asid(asid)]
                .iter()
                .filter_map(|scope| self.spaces.get(scope)?.bounds)
                .any(|(low, high)| (low..=high).contains(&va))
    }

    /// Remembers `record`.
    pub fn add(&mut self, record: Record) {
        if self.len >= MOST {
            self.forgotten += 1;
            return;
        }
        let key = (record.scope, record.shift, record.va);
        let (va, last) = (record.va, record.last());
        let space = self.spaces.entry(record.scope).or_default();
        let sizes = space.sizes.entry(record.shift).or_default();
        let list = sizes.entry(record.va).or_default();
        // The same again is one; it was made by the last store.
        let before = list.len();
        let same = list.extract_if(.., |r| r.old == record.old);
        same.for_each(|r| {
            self.serving.less(r.serves());
            *self.marks.of(&r) -= 1;
        });
        *self.marks.of(&record) += 1;
        self.serving.more(record.serves());
        self.len += 1 + list.len() - before;
        self.invisible.entry(record.at.cpu).or_default().push(key);
        let open = match va >> 63 {
            0 => &mut self.open,
            _ => &mut self.open_kernel,
        };
        open.entry(record.at.task).or_default().push(key);
        self.opened += 1;
        if list.is_empty() {
            // One is usual, and Vec would begin with four.
            list.reserve_exact(1);
        }
        list.push(record);
        space.bounds = Some(match space.bounds {
            Some((low, high)) => (low.min(va), high.max(last)),
            None => (va, last),
        });
        self.most = self.most.max(self.len);
        if self.opened > self.most_opened {
            self.weed();
        }
    }

    /// Forgets what tasks have open that is over: kernel threads, and who
    /// exits, never return to user space.
    fn weed(&mut self) {
        let spaces = &self.spaces;
        let is_there = |(scope, shift, va): &Key| {
            let sizes = spaces.get(scope).and_then(|space| space.sizes.get(shift));
            sizes.is_some_and(|sizes| sizes.contains_key(va))
        };
        self.opened = 0;
        for open in [&mut self.open, &mut self.open_kernel] {
            open.retain(|_, keys| {
                keys.retain(&is_there);
                keys.shrink_to_fit();
                !keys.is_empty()
            });
            self.opened += open.values().map(Vec::len).sum::<usize>();
        }
        self.most_opened = (2 * self.opened).max(FEW);
    }

    /// Calls `f` with all records of `scopes` that overlap `va ..= last`.
    pub fn overlapping(
        &mut self,
        scopes: &[Scope],
        va: u64,
        last: u64,
        mut f: impl FnMut(&mut Record),
    ) {
        for scope in scopes {
            let Some(space) = self.spaces.get_mut(scope) else {
                continue;
            };
            if space
                .bounds
                .is_none_or(|(low, high)| last < low || va > high)
            {
                continue;
            }
            for (&shift, records) in &mut space.sizes {
                let first = va >> shift << shift;
                for (_, list) in records.range_mut(first..=last) {
                    list.iter_mut().for_each(&mut f);
                }
            }
        }
    }

    /// The scopes that have records.
    pub fn scopes(&self) -> Vec<Scope> {
        self.spaces.keys().copied().collect()
    }

    fn at(&mut self, key: Key, mut f: impl FnMut(&mut Record)) {
        let (scope, shift, va) = key;
        let space = self.spaces.get_mut(&scope);
        let sizes = space.and_then(|space| space.sizes.get_mut(&shift));
        if let Some(list) = sizes.and_then(|sizes| sizes.get_mut(&va)) {
            list.iter_mut().for_each(&mut f);
        }
    }

    /// `cpu` invalidates. It counts for records whose store is visible.
    /// `immediate`: complete at once (x86).
    pub fn flush(&mut self, cpu: usize, flush: &Flush, immediate: bool) -> Vec<Record> {
        let mask = match flush.broadcast {
            true => u64::MAX,
            false => 1 << cpu,
        };
        let mut keys = Vec::new();
        let (low, high) = match flush.what {
            Invalidate::Range { start, last, .. } => (start, last),
            _ => (0, u64::MAX),
        };
        let all = self.scopes();
        let scopes: Vec<Scope> = match flush.what {
            Invalidate::Asid(asid) => vec![Scope::Asid(asid)],
            Invalidate::Range {
                asid: Some(asid), ..
            } => vec![Scope::Global, Scope::Kernel, Scope::Asid(asid)],
            _ => all,
        };
        let mut lost = Serving::default();
        self.overlapping(&scopes, low, high, |r| {
            if (r.visible || immediate) && flush.covers(r) {
                keys.push((r.scope, r.shift, r.va));
                if !immediate {
                    return r.in_flight.push((cpu, mask));
                }
                lost.more(r.holders & mask);
                r.holders &= !mask;
            }
        });
        self.serving.subtract(&lost);
        keys.dedup();
        if immediate {
            // Nothing waits for barriers.
            self.invisible.clear();
            return self.sweep(keys);
        }
        self.in_flight.entry(cpu).or_default().extend(keys);
        Vec::new()
    }

    /// Is there an old translation whose store no DSB has followed yet?
    pub fn has_invisible(&self) -> bool {
        !self.invisible.is_empty()
    }

    /// `cpu` has read the entry for `va`, of `1 << shift` bytes: it knows of
    /// what was stored there, whoever stored it.
    pub fn seen(&mut self, cpu: usize, scopes: &[Scope], va: u64, shift: u8) {
        let mut keys = Vec::new();
        self.overlapping(scopes, va, va | ((1 << shift) - 1), |r| {
            if !r.visible && r.seen_by >> cpu & 1 == 0 {
                r.seen_by |= 1 << cpu;
                keys.push((r.scope, r.shift, r.va));
            }
        });
        if !keys.is_empty() {
            self.invisible.entry(cpu).or_default().extend(keys);
        }
    }

    /// First and last addresses of what `cpu` has invalidated, and its next DSB completes.
    pub fn in_flight(&self, cpu: usize) -> Vec<(u64, u64)> {
        let keys = self.in_flight.get(&cpu).into_iter().flatten();
        keys.map(|&(_, shift, va)| (va, va | ((1 << shift) - 1)))
            .collect()
    }

    /// A DSB on `cpu` that orders stores: what it stored is visible. If
    /// `completes` also its invalidations are complete, of all CPUs
    /// (`shareable`) or of its own TLB. Returns what is over.
    pub fn barrier(&mut self, cpu: usize, completes: bool, shareable: bool) -> Vec<Record> {
        let ets2 = self.ets2;
        for key in self.invisible.remove(&cpu).unwrap_or_default() {
            self.at(key, |r| r.visible |= r.seen_by >> cpu & 1 != 0);
        }
        if !completes {
            return Vec::new();
        }
        let mut keys = self.in_flight.remove(&cpu).unwrap_or_default();
        keys.sort_unstable_by_key(|k| (k.1, k.2));
        keys.dedup();
        let own = 1 << cpu;
        let mut lost = Serving::default();
        for &key in &keys {
            self.at(key, |r| {
                let before = r.serves();
                let ended = r.in_flight.iter().filter(|(by, _)| *by == cpu);
                let mask = ended.fold(0, |all, (_, mask)| all | mask);
                let mask = if shareable { mask } else { mask & own };
                r.in_flight.retain(|(by, _)| *by != cpu);
                if !(ets2 && r.is_data()) {
                    r.unsynchronised |= r.holders & mask & own;
                }
                r.holders &= !mask;
                lost.more(before & !r.serves());
            });
        }
        self.serving.subtract(&lost);
        let waiting = self.unsynchronised.entry(cpu).or_default();
        waiting.extend(&keys);
        self.sweep(keys)
    }

    /// A context synchronisation event on `cpu`.
    pub fn synchronise(&mut self, cpu: usize) -> Vec<Record> {
        let Some(keys) = self.unsynchronised.get_mut(&cpu).map(std::mem::take) else {
            return Vec::new();
        };
        let mut lost = Serving::default();
        for &key in &keys {
            self.at(key, |r| {
                let before = r.serves();
                r.unsynchronised &= !(1 << cpu);
                lost.more(before & !r.serves());
            });
        }
        self.serving.subtract(&lost);
        self.sweep(keys)
    }

    /// Removes those of `keys` that no CPU holds any more, and returns them.
    fn sweep(&mut self, keys: Vec<Key>) -> Vec<Record> {
        let mut over = Vec::new();
        for (scope, shift, va) in keys {
            let Some(space) = self.spaces.get_mut(&scope) else {
                continue;
            };
            let Some(sizes) = space.sizes.get_mut(&shift) else {
                continue;
            };
            let Some(list) = sizes.get_mut(&va) else {
                continue;
            };
            let gone = list.extract_if(.., |r| r.holders | r.unsynchronised == 0);
            let before = over.len();
            over.extend(gone.inspect(|r| *self.marks.of(r) -= 1));
            self.len -= over.len() - before;
            if list.is_empty() {
                sizes.remove(&va);
            }
            if sizes.is_empty() {
                space.sizes.remove(&shift);
            }
            if space.sizes.is_empty() {
                self.spaces.remove(&scope);
            }
        }
        over
    }

    /// `task` returns to user space: what it did not flush it does not mean
    /// to.
    pub fn lapse(&mut self, task: u64) {
        let keys = self.open.remove(&task).unwrap_or_default();
        self.lapsed(task, keys);
        self.lapse_kernel(task);
    }

    /// `task` sleeps. Of a user's pages it may have more to unmap before it flushes, as reclaim
    /// does; of the kernel's own the flush stands right behind the change. Kernel threads never
    /// return to user space.
    pub fn lapse_kernel(&mut self, task: u64) {
        let keys = self.open_kernel.remove(&task).unwrap_or_default();
        self.lapsed(task, keys);
    }

    fn lapsed(&mut self, task: u64, keys: Vec<Key>) {
        self.opened -= keys.len();
        for key in keys {
            self.at(key, |r| r.lapsed |= r.at.task == task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel thread took away at `va`.
    fn record(va: u64) -> Record {
        Record {
            va,
            shift: 12,
            scope: Scope::Global,
            level: 3,
            old: Desc::Invalid,
            holders: 1,
            seen_by: 1,
            visible: false,
            in_flight: Vec::new(),
            unsynchronised: 0,
            at: At::default(),
            lapsed: false,
        }
    }

    const ALL: Flush = Flush {
        what: Invalidate::All,
        leaves_only: false,
        level: None,
        broadcast: true,
    };

    #[test]
    fn an_access_elsewhere_concerns_nothing() {
        let mut stale = Stale::default();
        for (va, shift) in [(0x1000_0000, 16), (0x40_0000_0000, 29), (0x2000_0000, 12)] {
            stale.add(Record {
                shift,
                ..record(va)
            });
            stale.add(Record {
                shift,
                ..record(va)
            });
            assert!(stale.may_concern(va, 0));
            assert!(stale.may_concern(va | ((1 << shift) - 1), 0));
        }
        // Between them.
        assert!(!stale.may_concern(0x1800_0000, 0));
        stale.add(Record {
            shift: 39,
            ..record(0)
        });
        assert!(stale.may_concern(0x1800_0000, 0));
        stale.barrier(0, true, true);
        stale.flush(0, &ALL, false);
        stale.barrier(0, true, true);
        stale.synchronise(0);
        assert!(!stale.marks.may_have(0x1000_0000));
        assert_eq!(stale.marks.huge, 0);
        stale.add(record(0x2000_0000));
        assert!(stale.may_concern(0x2000_0fff, 0));
        assert!(!stale.may_concern(0x1000_0000, 0));
    }

    #[test]
    fn who_never_returns_to_user_space_takes_no_memory_for_what_is_over() {
        let mut stale = Stale::default();
        for page in 0..3 * FEW as u64 {
            stale.add(record(page << 12));
            stale.barrier(0, true, true);
            stale.flush(0, &ALL, false);
            stale.barrier(0, true, true);
            stale.synchronise(0);
        }
        assert!(stale.is_empty());
        assert!(stale.opened <= FEW + 1);
        stale.add(record(0));
        stale.lapse(0);
        assert_eq!(stale.opened, 0);
        let mut lapsed = false;
        stale.overlapping(&[Scope::Global], 0, 0, |r| lapsed = r.lapsed);
        assert!(lapsed);
    }
}
