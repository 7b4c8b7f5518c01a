// SPDX-License-Identifier: GPL-2.0-only
//! The referee: what a TLB of unlimited size could still hold, and whether the
//! guest minds it.
//!
//! It is told of stores, TLB maintenance, barriers and accesses, and keeps two
//! things: a shadow of all page tables that a walk can reach ([`tables`]), and
//! the translations that left them and that no invalidation has removed since
//! ([`stale`]). Every entry that a walk could reach counts as cached, on every
//! CPU where its address space was in use, whether it was used or not: hardware
//! may walk ahead. [`rules`] says which changes are harmless; [`finding`] what
//! is reported. `docs/referee.md` has the rules in words, with their limits.
//!
//! CPUs are to be told of in the order of their instructions, one at a time.

pub mod finding;
pub mod format;
mod rules;
pub mod stale;
mod tables;

use crate::mmu::Mmu;
use crate::tlb::Invalidate;
use crate::walk::PhysMem;
use finding::{Finding, Findings, Kind, Place, describe};
use format::{Desc, Leaf, Shape, grant};
pub use stale::{At, Flush};
use stale::{Record, Scope, Stale};
use std::collections::HashMap;
use tables::{RootId, Stored, Tables, Way};

/// What a DSB does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dsb {
    /// Waits for loads as well as stores, and so for TLB maintenance: not the
    /// ST forms.
    pub full: bool,
    /// Waits for stores: not the LD forms.
    pub stores: bool,
    /// Inner Shareable or wider: waits for maintenance on other CPUs too.
    pub shareable: bool,
}

/// What an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Fetch,
}

impl Access {
    /// The right that it needs.
    fn needs(self, user: bool) -> u8 {
        let kernel = match self {
            Access::Read => grant::KERNEL_READ,
            Access::Write => grant::KERNEL_WRITE,
            Access::Fetch => grant::KERNEL_FETCH,
        };
        if user { kernel << 3 } else { kernel }
    }
}

#[derive(Debug)]
struct Root {
    base: u64,
    shape: Shape,
    /// CPUs that have it in a translation register.
    installed: u64,
    /// ASIDs under which CPUs may have entries of it.
    live: Vec<(u16, u64)>,
}

#[derive(Debug)]
struct Cpu {
    mmu: Option<Mmu>,
    roots: [Option<RootId>; 2],
    /// New kernel entries that barriers have not made visible yet.
    fresh: Vec<Fresh>,
}

#[derive(Clone, Copy, Debug)]
struct Fresh {
    va: u64,
    last: u64,
    at: At,
    new: Desc,
    /// A DSB came.
    stored: bool,
}

/// The referee.
#[derive(Debug)]
pub struct Referee {
    bbm: u8,
    x86: bool,
    strict: bool,
    cpus: Vec<Cpu>,
    roots: HashMap<RootId, Root>,
    next_root: RootId,
    tables: Tables,
    stale: Stale,
    findings: Findings,
}

impl Referee {
    /// For `cpus` CPUs, at most 64, that promise FEAT_BBM of level `bbm`
    /// without conflict aborts. On x86 only stale use is looked for.
    pub fn new(cpus: usize, bbm: u8, x86: bool) -> Self {
        let cpu = || Cpu {
            mmu: None,
            roots: [None; 2],
            fresh: Vec::new(),
        };
        Referee {
            bbm,
            x86,
            strict: false,
            cpus: (0..cpus.min(64)).map(|_| cpu()).collect(),
            roots: HashMap::new(),
            next_root: 0,
            tables: Tables::default(),
            stale: Stale::default(),
            findings: Findings::default(),
        }
    }

    /// Reports each access that the architecture lets go through an old
    /// translation, or miss a new one, on any CPU, in user space's half too,
    /// and at once: as litmus tests ask.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The CPUs promise FEAT_ETS2 (Armv8.8): a load or store behind a DSB is translated after the
    /// DSB is complete, and an invalidation is complete then for translations that nobody could
    /// fetch through (Arm ARM DDI 0487, B2.10.9 and R_BLDZX, as QEMU's commit 74360f3544be quotes
    /// them). Without it a CPU's own accesses may use what it invalidated until it synchronises
    /// its context.
    #[must_use]
    pub fn ets2(mut self, ets2: bool) -> Self {
        self.stale.ets2 = ets2;
        self
    }

    /// What was found so far.
    pub fn findings(&self) -> Findings {
        let mut all = self.findings.clone();
        all.most_stale = self.stale.most as u64;
        all.forgotten = self.stale.forgotten;
        all.most_tables = self.tables.most as u64;
        all
    }

    /// Can the store to `pa` be of interest? Cheap.
    #[inline]
    pub fn is_table(&self, pa: u64) -> bool {
        self.tables.may_be_table(pa)
    }

    /// Can an access to `va` be of interest? Cheap.
    #[inline]
    pub fn may_concern(&self, cpu: usize, va: u64, asid: u16) -> bool {
        self.stale.may_concern(va, asid) || !self.cpus[cpu].fresh.is_empty()
    }

    /// Is no access of `cpu` of interest at the moment? On x86 a CPU that has
    /// nothing to do keeps old translations for long; others need not mind.
    pub fn is_quiet(&self, cpu: usize) -> bool {
        self.stale.spares(cpu) && self.cpus[cpu].fresh.is_empty()
    }

    /// The CPUs whose accesses are of interest, a bit each.
    pub fn busy(&self) -> u64 {
        let busy = (0..self.cpus.len()).filter(|cpu| !self.is_quiet(*cpu));
        busy.fold(0, |all, cpu| all | 1 << cpu)
    }

    /// The translation registers of CPU `at.cpu` have these values now.
    pub fn set_registers(&mut self, at: At, mmu: Mmu, mem: &impl PhysMem) {
        let cpu = at.cpu;
        self.cpus[cpu].mmu = Some(mmu);
        for high in [false, true] {
            if high && self.x86 {
                continue;
            }
            let found = format::root(&mmu, high);
            let id = found.map(|(base, shape)| self.root(&mmu, mem, base, shape));
            if let Some(id) = id
                && !high
                && !self.x86
            {
                self.check_asid(at, id, mmu.asid());
            }
            let slot = &mut self.cpus[cpu].roots[usize::from(high)];
            let before = std::mem::replace(slot, id);
            if before != id
                && let Some(before) = before
            {
                self.uninstall(cpu, before, &mmu);
            }
            if let Some(root) = id.and_then(|id| self.roots.get_mut(&id)) {
                root.installed |= 1 << cpu;
                let asid = mmu.asid();
                match root.live.iter_mut().find(|(a, _)| *a == asid) {
                    Some((_, cpus)) => *cpus |= 1 << cpu,
                    None => root.live.push((asid, 1 << cpu)),
                }
            }
        }
    }

    /// Do entries of other tables still go by the ASID that `id` has now? On
    /// x86 a MOV to CR3 says itself whether it keeps them.
    fn check_asid(&mut self, at: At, id: RootId, asid: u16) {
        let held = |r: &Root| {
            let mut live = r.live.iter();
            live.any(|(a, cpus)| *a == asid && cpus >> at.cpu & 1 != 0)
        };
        let other = self.roots.iter().find(|(other, r)| {
            **other != id && !r.shape.high && held(r) && !self.is_empty_table(**other)
        });
        if let (Some((_, old)), Some(new)) = (other, self.roots.get(&id))
            && !self.is_empty_table(id)
        {
            let (old, new) = (Desc::Table(old.base), Desc::Table(new.base));
            self.add(Kind::AsidReuse, 0, Some(asid), &old, &new, at, at);
        }
    }

    fn root(&mut self, mmu: &Mmu, mem: &impl PhysMem, base: u64, shape: Shape) -> RootId {
        let known = self
            .roots
            .iter()
            .find(|(_, r)| (r.base, r.shape) == (base, shape));
        if let Some((&id, _)) = known {
            return id;
        }
        let id = self.next_root;
        self.next_root += 1;
        let root = Root {
            base,
            shape,
            installed: 0,
            live: Vec::new(),
        };
        self.roots.insert(id, root);
        let way = Way {
            root: id,
            va: first_va(shape),
            removed: false,
        };
        self.tables.link(mmu, mem, base, shape, way);
        id
    }

    /// `cpu` has another root now. Its entries may still be cached, so it is
    /// kept; but not once it is empty, as its memory may become anything, and
    /// not those that Linux uses under ASID 0, which it starts with and comes
    /// back to (the identity map), nor upper halves (the first kernel tables,
    /// the trampoline): their memory may be freed without being cleared.
    fn uninstall(&mut self, cpu: usize, id: RootId, mmu: &Mmu) {
        let flushed = matches!(mmu, Mmu::X86(m) if !m.pcid_enabled());
        let Some(root) = self.roots.get_mut(&id) else {
            return;
        };
        root.installed &= !(1 << cpu);
        if flushed {
            root.live
                .iter_mut()
                .for_each(|(_, cpus)| *cpus &= !(1 << cpu));
        }
        let borrowed = !self.x86 && root.live.iter().all(|(asid, _)| *asid == 0);
        if root.installed == 0 && (root.shape.high || borrowed || self.is_empty_table(id)) {
            self.drop_root(id, mmu);
        }
    }

    fn is_empty_table(&self, id: RootId) -> bool {
        let table = self.roots.get(&id).and_then(|r| self.tables.get(r.base));
        // The upper half of an x86 root is the kernel's and never empty.
        let words = |t: &tables::Table| match self.x86 {
            true => t.words[..256].iter().all(|word| *word == 0),
            false => t.words.iter().all(|word| *word == 0),
        };
        table.is_none_or(words)
    }

    fn drop_root(&mut self, id: RootId, mmu: &Mmu) {
        if let Some(root) = self.roots.remove(&id) {
            let va = first_va(root.shape);
            self.tables.unlink(mmu, root.base, id, va, false);
        }
    }

    /// A store of `len` bytes to `pa` is done.
    pub fn stored(&mut self, at: At, pa: u64, len: u64, mem: &impl PhysMem) {
        let changed = self.tables.stored(pa, len, |pa| mem.read_u64(pa));
        self.changes(at, &changed, mem);
    }

    /// Is a load from a table of interest at the moment?
    pub fn wants_loads(&self) -> bool {
        !self.x86 && self.stale.has_invisible()
    }

    /// `cpu` has read the entry at `pa`. Its DSBs count for what is stored
    /// there from now on, as those of the CPU that stored it do.
    pub fn loaded(&mut self, cpu: usize, pa: u64) {
        for (va, shape, root) in self.tables.entries(pa) {
            let mut scopes: Vec<Scope> = vec![Scope::Global, Scope::Kernel];
            scopes.extend(self.scopes(root, va, false).into_iter().map(|(s, _)| s));
            self.stale.seen(cpu, &scopes, va, shape.unit);
        }
    }

    /// `len` bytes at `pa` are about to be zeroed.
    pub fn zeroed(&mut self, at: At, pa: u64, len: u64, mem: &impl PhysMem) {
        let changed = self.tables.stored(pa, len, |_| Some(0));
        self.changes(at, &changed, mem);
    }

    fn changes(&mut self, at: At, changed: &[Stored], mem: &impl PhysMem) {
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
        let idle = |(_, r): &(&RootId, &Root)| r.base == stored.table && r.installed == 0;
        let id = self.roots.iter().find(idle).map(|(id, _)| *id);
        if let Some(id) = id.filter(|id| self.is_empty_table(*id)) {
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
        if self.x86 || c.way.removed || c.new == Desc::Invalid {
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
        if self.x86 || !table.ways.iter().all(elsewhere) {
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

    fn change_in_removed(&mut self, c: &Change) {
        if self.x86 || c.new == Desc::Invalid || c.old != Desc::Invalid {
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

    /// Address spaces that an entry of `root` at `va` holds in, and CPUs that
    /// may have it cached.
    fn scopes(&self, root: RootId, va: u64, global: bool) -> Vec<(Scope, u64)> {
        let Some(r) = self.roots.get(&root) else {
            return Vec::new();
        };
        let running = self.cpus.iter().enumerate();
        let running = running
            .filter(|(_, c)| c.mmu.is_some_and(|m| m.enabled()))
            .fold(0, |all, (i, _)| all | 1 << i);
        let kernel = va >> 63 != 0;
        match (kernel, global) {
            (true, true) => vec![(Scope::Global, running)],
            (true, false) => vec![(Scope::Kernel, running)],
            (false, true) => {
                let seen = r.live.iter().fold(0, |all, (_, cpus)| all | cpus);
                vec![(Scope::Global, seen)]
            }
            (false, false) => {
                let live = r.live.iter().filter(|(_, cpus)| *cpus != 0);
                live.map(|(asid, cpus)| (Scope::Asid(*asid), *cpus))
                    .collect()
            }
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
        let (new, bbm, strict) = (c.new, self.bbm, self.strict);
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
                if !rules::neighbours_agree((leaf, c.va), (neighbour, va), self.bbm) {
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

    /// `cpu` executes a TLB invalidation.
    pub fn flush(&mut self, cpu: usize, flush: &Flush) {
        let over = self.stale.flush(cpu, flush, self.x86);
        self.over(cpu, over);
        let cpus = if flush.broadcast { u64::MAX } else { 1 << cpu };
        let asid = match flush.what {
            Invalidate::All | Invalidate::NonGlobal => None,
            Invalidate::Asid(asid) => Some(asid),
            Invalidate::Range { .. } => return,
        };
        for (&id, root) in &mut self.roots {
            for (live, holders) in &mut root.live {
                if asid.is_some_and(|asid| asid != *live) {
                    continue;
                }
                // Where it is installed it can be cached again at once.
                let installed = self.cpus.iter().enumerate().filter(|(_, c)| {
                    c.roots.contains(&Some(id)) && c.mmu.is_some_and(|m| m.asid() == *live)
                });
                let installed = installed.fold(0, |all, (i, _)| all | 1 << i);
                *holders &= !cpus | installed;
            }
        }
    }

    /// `cpu` executes a DSB.
    pub fn dsb(&mut self, cpu: usize, dsb: Dsb) {
        if !dsb.stores {
            return;
        }
        let over = self.stale.barrier(cpu, dsb.full, dsb.shareable);
        self.over(cpu, over);
        self.cpus[cpu]
            .fresh
            .iter_mut()
            .for_each(|f| f.stored = true);
    }

    /// A context synchronisation event on `cpu`: ISB, exception entry, ERET.
    pub fn synchronise(&mut self, cpu: usize) {
        let over = self.stale.synchronise(cpu);
        self.over(cpu, over);
        self.cpus[cpu].fresh.retain(|f| !f.stored);
    }

    /// `task` goes back to user space on `cpu`.
    pub fn enter_user(&mut self, cpu: usize, task: u64) {
        self.stale.lapse(task);
        // The way there took an exception return, and faults are retried.
        self.cpus[cpu].fresh.clear();
    }

    /// Old translations are gone from all TLBs: tables that only they led to
    /// are tables no more.
    fn over(&mut self, cpu: usize, records: Vec<Record>) {
        let Some(mmu) = self.cpus[cpu].mmu else {
            return;
        };
        for r in records {
            let Desc::Table(base) = r.old else {
                continue;
            };
            let Some(table) = self.tables.get(base) else {
                continue;
            };
            let gone = |w: &&Way| w.removed && w.va == r.va;
            let roots: Vec<RootId> = table.ways.iter().filter(gone).map(|w| w.root).collect();
            for root in roots {
                self.tables.unlink(&mmu, base, root, r.va, false);
            }
        }
    }

    /// An access of `cpu` to `va` that succeeded.
    pub fn used(&mut self, at: At, va: u64, access: Access, user: bool, mem: &impl PhysMem) {
        self.look(at, va, access, user, mem);
        let fresh = &self.cpus[at.cpu].fresh;
        if let Some(f) = fresh.iter().find(|f| f.va <= va && va <= f.last) {
            let f = *f;
            if !self.strict {
                self.cpus[at.cpu].fresh.retain(|g| g.va != f.va);
            }
            let old = Desc::Invalid;
            self.add(Kind::Unsynchronised, va, None, &old, &f.new, f.at, at);
        }
    }

    /// An access of `cpu` to `va` that faulted, by the tables as they are.
    pub fn faulted(&mut self, at: At, va: u64, access: Access, user: bool, mem: &impl PhysMem) {
        self.look(at, va, access, user, mem);
        // Its walk has read the entry.
        if self.wants_loads()
            && let Some(mmu) = self.cpus[at.cpu].mmu
            && let Some((_, _, pa)) = format::walk(&mmu, mem, va)
        {
            self.loaded(at.cpu, pa);
        }
    }

    fn look(&mut self, at: At, va: u64, access: Access, user: bool, mem: &impl PhysMem) {
        let Some(mmu) = self.cpus[at.cpu].mmu else {
            return;
        };
        let asid = mmu.asid();
        if !self.stale.may_concern(va, asid) {
            return;
        }
        let scopes = [Scope::Global, Scope::Kernel, Scope::Asid(asid)];
        let needs = access.needs(user);
        let mine = 1u64 << at.cpu;
        let mut old = Vec::new();
        self.stale.overlapping(&scopes, va, va, |r| {
            if let Desc::Leaf(leaf) = &r.old
                && (r.holders | r.unsynchronised) & mine != 0
                && leaf.grants & needs != 0
            {
                old.push(r.clone());
            }
        });
        if old.is_empty() {
            return;
        }
        let now = format::walk(&mmu, mem, va).map_or(Desc::Invalid, |(desc, ..)| desc);
        for r in old {
            if let Some(kind) = stale_use(&r, &now, va, needs, self.strict, mem) {
                self.report(kind, va, &r, &now, at);
            }
        }
    }

    fn report(&mut self, kind: Kind, va: u64, r: &Record, new: &Desc, at: At) {
        let asid = match r.scope {
            Scope::Asid(asid) => Some(asid),
            _ => None,
        };
        self.add(kind, va, asid, &r.old, new, r.at, at);
    }

    #[expect(clippy::too_many_arguments, reason = "the finding's fields")]
    fn add(
        &mut self,
        kind: Kind,
        va: u64,
        asid: Option<u16>,
        old: &Desc,
        new: &Desc,
        change: At,
        usage: At,
    ) {
        let place = |at: At| Place {
            cpu: at.cpu as u32,
            pc: at.pc,
            symbol: None,
        };
        self.findings.add(Finding {
            kind,
            va,
            asid,
            old: describe(old),
            new: describe(new),
            change: place(change),
            usage: place(usage),
            count: 1,
        });
    }
}

/// Does an access through `r` that needs `needs` harm, where the tables say
/// `now`?
fn stale_use(
    r: &Record,
    now: &Desc,
    va: u64,
    needs: u8,
    strict: bool,
    mem: &impl PhysMem,
) -> Option<Kind> {
    let Desc::Leaf(old) = &r.old else {
        return None;
    };
    let at = |leaf: &Leaf| leaf.pa | (va & ((1 << leaf.shift) - 1));
    match now {
        Desc::Leaf(new) if new.grants & needs != 0 => {
            let same = at(old) == at(new) && old.attributes == new.attributes;
            let harmless = same || !strict && are_copies(&r.old, now, Some(va), mem);
            (!harmless).then_some(Kind::StaleTranslation)
        }
        // Between the store and the flush others may still use it: that is
        // what the flush waits for.
        _ => (r.lapsed || strict).then_some(Kind::StaleGrant),
    }
}

/// Do both translate to the same contents, which neither lets be written? If for one access to
/// `va`, it is the 4K around it that count. The litmus tests ask which of two translations was
/// used, so `strict` does without this.
fn are_copies(old: &Desc, new: &Desc, va: Option<u64>, mem: &impl PhysMem) -> bool {
    const AROUND: u64 = 4096;
    let Some((from, to, len)) = rules::copies(old, new) else {
        return false;
    };
    let part = va.map_or(0..len, |va| {
        let start = va & (len - 1) & !(AROUND - 1);
        start..start + AROUND
    });
    part.step_by(8).all(|offset| {
        let word = mem.read_u64(from + offset);
        word.is_some() && word == mem.read_u64(to + offset)
    })
}

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

fn first_va(shape: Shape) -> u64 {
    match shape.high {
        true => u64::MAX << (shape.unit + shape.index_bits),
        false => 0,
    }
}

#[cfg(test)]
mod litmus;
#[cfg(test)]
mod litmus_table;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_x86;
