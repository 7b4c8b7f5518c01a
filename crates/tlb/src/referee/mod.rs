// SPDX-License-Identifier: GPL-2.0-only
//! The referee: what a TLB of unlimited size could still hold, and whether the
//! guest minds it.
//!
//! It is told of stores, TLB maintenance, barriers and accesses, and keeps two
//! things: a shadow of all page tables that a walk can reach (`tables`), and
//! the translations that left them and that no invalidation has removed since
//! ([`stale`]). Every entry that a walk could reach counts as cached, on every
//! CPU where its address space was in use, whether it was used or not: hardware
//! may walk ahead. `changes` judges what is stored to tables, `uses` accesses,
//! `groups` contiguous entries; `rules` says which changes are harmless, `regime`
//! how architectures differ, [`finding`] what is reported. `docs/referee.md` has
//! the rules in words, with their limits.
//!
//! CPUs are to be told of in the order of their instructions, one at a time.

mod changes;
pub mod finding;
pub mod format;
mod groups;
mod regime;
mod roots;
mod rules;
pub mod stale;
mod tables;
mod uses;

use crate::mmu::Mmu;
use crate::tlb::Invalidate;
use crate::walk::PhysMem;
use finding::{Code, Finding, Findings, Kind, Place, describe};
use format::{Desc, Shape, grant};
use groups::{Groups, Misfit};
pub use regime::Regime;
use roots::{Root, Roots};
pub use stale::{At, Callers, Flush};
use stale::{Record, Scope, Stale};
use tables::{RootId, Tables, Way};

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
    regime: Regime,
    strict: bool,
    cpus: Vec<Cpu>,
    roots: Roots,
    tables: Tables,
    stale: Stale,
    groups: Groups,
    findings: Findings,
}

impl Referee {
    /// For `cpus` CPUs, at most 64, that go by the rules of `regime`.
    pub fn new(cpus: usize, regime: Regime) -> Self {
        let cpu = || Cpu {
            mmu: None,
            roots: [None; 2],
            fresh: Vec::new(),
        };
        Referee {
            regime,
            strict: false,
            cpus: (0..cpus.min(64)).map(|_| cpu()).collect(),
            roots: Roots::new(regime),
            tables: Tables::default(),
            stale: Stale::default(),
            groups: Groups::default(),
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
        self.cpus[at.cpu].mmu = Some(mmu);
        for &high in self.regime.halves {
            self.set_root(at, mmu, mem, high);
        }
    }

    /// The root of one half is this now.
    fn set_root(&mut self, at: At, mmu: Mmu, mem: &impl PhysMem, high: bool) {
        let found = format::root(&mmu, high);
        let id = found.map(|(base, shape)| self.root(&mmu, mem, base, shape));
        if let Some(id) = id
            && !high
            && self.regime.roots_keep_entries
        {
            self.check_asid(at, id, mmu.asid());
        }
        let slot = &mut self.cpus[at.cpu].roots[usize::from(high)];
        let before = std::mem::replace(slot, id);
        if before != id
            && let Some(before) = before
        {
            let flushed = matches!(mmu, Mmu::X86(m) if !m.pcid_enabled());
            if (self.roots).uninstall(before, at.cpu, flushed, &self.tables) {
                self.drop_root(before, &mmu);
            }
        }
        if let Some(id) = id {
            self.roots.install(id, at.cpu, mmu.asid());
        }
    }

    /// Do entries of other tables still go by the ASID that `id` has now?
    fn check_asid(&mut self, at: At, id: RootId, asid: u16) {
        let other = self.roots.other_under(id, at.cpu, asid, &self.tables);
        if let (Some(old), Some(new)) = (other, self.roots.get(id))
            && !self.roots.is_empty(id, &self.tables)
        {
            let (old, new) = (Desc::Table(old.base), Desc::Table(new.base));
            self.add(Kind::AsidReuse, 0, Some(asid), &old, &new, at, at);
        }
    }

    fn root(&mut self, mmu: &Mmu, mem: &impl PhysMem, base: u64, shape: Shape) -> RootId {
        let (id, new) = self.roots.find_or_insert(base, shape);
        if new {
            let way = Way {
                root: id,
                va: Root::first_va(shape),
                removed: false,
            };
            self.tables.link(mmu, mem, base, shape, way);
        }
        id
    }

    fn drop_root(&mut self, id: RootId, mmu: &Mmu) {
        if let Some(root) = self.roots.remove(id) {
            let va = Root::first_va(root.shape);
            self.tables.unlink(mmu, root.base, id, va, false);
        }
    }

    /// Address spaces that an entry of `root` at `va` holds in, and CPUs that
    /// may have it cached.
    fn scopes(&self, root: RootId, va: u64, global: bool) -> Vec<(Scope, u64)> {
        let running = self.cpus.iter().enumerate();
        let running = running
            .filter(|(_, c)| c.mmu.is_some_and(|m| m.enabled()))
            .fold(0, |all, (i, _)| all | 1 << i);
        self.roots.scopes(root, va, global, running)
    }

    /// A store of `len` bytes to `pa` is done.
    pub fn stored(&mut self, at: At, pa: u64, len: u64, mem: &impl PhysMem) {
        let changed = self.tables.stored(pa, len, |pa| mem.read_u64(pa));
        self.changes(at, &changed, mem);
    }

    /// Is a load from a table of interest at the moment?
    pub fn wants_loads(&self) -> bool {
        self.regime.breaks && self.stale.has_invisible()
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

    /// `cpu` executes a TLB invalidation.
    pub fn flush(&mut self, cpu: usize, flush: &Flush) {
        let over = self.stale.flush(cpu, flush, !self.regime.flushes_wait);
        self.over(cpu, over);
        let asid = match flush.what {
            Invalidate::All | Invalidate::NonGlobal => None,
            Invalidate::Asid(asid) => Some(asid),
            Invalidate::Range { .. } => return,
        };
        let cpus = if flush.broadcast { u64::MAX } else { 1 << cpu };
        let all = &self.cpus;
        self.roots.flushed(asid, cpus, |id, live| {
            let has =
                |c: &Cpu| c.roots.contains(&Some(id)) && c.mmu.is_some_and(|m| m.asid() == live);
            let installed = all.iter().enumerate().filter(|(_, c)| has(c));
            installed.fold(0, |all, (i, _)| all | 1 << i)
        });
    }

    /// `at.cpu` executes a DSB.
    pub fn dsb(&mut self, at: At, dsb: Dsb) {
        if !dsb.stores {
            return;
        }
        let cpu = at.cpu;
        // None, mostly: groups do not agree for a few instructions only.
        let flushed = match dsb.full && !self.groups.is_empty() {
            true => self.stale.in_flight(cpu),
            false => Vec::new(),
        };
        let over = self.stale.barrier(cpu, dsb.full, dsb.shareable);
        self.over(cpu, over);
        self.cpus[cpu]
            .fresh
            .iter_mut()
            .for_each(|f| f.stored = true);
        if let (false, Some(mmu)) = (flushed.is_empty(), self.cpus[cpu].mmu) {
            let left = (self.groups).flushed(&mmu, &self.tables, at.task, &flushed);
            self.misfits(left, at);
        }
    }

    /// A context synchronisation event on `cpu`: ISB, exception entry, ERET.
    pub fn synchronise(&mut self, cpu: usize) {
        let over = self.stale.synchronise(cpu);
        self.over(cpu, over);
        self.cpus[cpu].fresh.retain(|f| !f.stored);
    }

    /// The task of `at` goes back to user space.
    pub fn enter_user(&mut self, at: At) {
        self.stale.lapse(at.task);
        // The way there took an exception return, and faults are retried.
        self.cpus[at.cpu].fresh.clear();
        if let (false, Some(mmu)) = (self.groups.is_empty(), self.cpus[at.cpu].mmu) {
            let left = self.groups.lapsed(&mmu, &self.tables, at.task);
            self.misfits(left, at);
        }
    }

    /// Another task than `task` runs on its CPU now.
    pub fn switched_from(&mut self, task: u64) {
        self.stale.lapse_kernel(task);
    }

    fn misfits(&mut self, left: Vec<Misfit>, at: At) {
        for m in left {
            self.add(Kind::Contiguous, m.va, None, &m.neighbour, &m.own, m.at, at);
        }
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
            code: Code::at(at.pc),
            callers: at
                .callers
                .into_iter()
                .take_while(|pc| *pc != 0)
                .map(Code::at)
                .collect(),
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

#[cfg(test)]
mod litmus;
#[cfg(test)]
mod litmus_table;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_x86;
