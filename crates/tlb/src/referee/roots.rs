// SPDX-License-Identifier: GPL-2.0-only
//! The roots of page tables: which CPUs have them, and under which ASIDs.

use super::format::Shape;
use super::regime::Regime;
use super::stale::Scope;
use super::tables::{RootId, Tables};
use std::collections::BTreeMap;

/// A first table.
#[derive(Debug)]
pub struct Root {
    /// Physical address.
    pub base: u64,
    /// Its shape.
    pub shape: Shape,
    /// CPUs that have it in a translation register.
    pub installed: u64,
    /// ASIDs under which CPUs may have entries of it.
    pub live: Vec<(u16, u64)>,
}

impl Root {
    /// The first address that it translates.
    pub fn first_va(shape: Shape) -> u64 {
        match shape.high {
            true => u64::MAX << (shape.unit + shape.index_bits),
            false => 0,
        }
    }

    fn is_held(&self, cpu: usize, asid: u16) -> bool {
        let mut live = self.live.iter();
        live.any(|(a, cpus)| *a == asid && cpus >> cpu & 1 != 0)
    }
}

/// All roots that a TLB may have entries of, in the order in which they were first installed, so
/// that the same run gives the same report.
#[derive(Debug)]
pub struct Roots {
    regime: Regime,
    all: BTreeMap<RootId, Root>,
    next: RootId,
}

impl Roots {
    /// None yet.
    pub fn new(regime: Regime) -> Self {
        Roots {
            regime,
            all: BTreeMap::new(),
            next: 0,
        }
    }

    /// The root `id`.
    pub fn get(&self, id: RootId) -> Option<&Root> {
        self.all.get(&id)
    }

    /// The root that is the table at `base`, and whether it is new.
    pub fn find_or_insert(&mut self, base: u64, shape: Shape) -> (RootId, bool) {
        let mut known = self.all.iter();
        if let Some((&id, _)) = known.find(|(_, r)| (r.base, r.shape) == (base, shape)) {
            return (id, false);
        }
        let id = self.next;
        self.next += 1;
        let root = Root {
            base,
            shape,
            installed: 0,
            live: Vec::new(),
        };
        self.all.insert(id, root);
        (id, true)
    }

    /// Forgets `id`.
    pub fn remove(&mut self, id: RootId) -> Option<Root> {
        self.all.remove(&id)
    }

    /// `cpu` has `id` in a register, under `asid`.
    pub fn install(&mut self, id: RootId, cpu: usize, asid: u16) {
        let Some(root) = self.all.get_mut(&id) else {
            return;
        };
        root.installed |= 1 << cpu;
        match root.live.iter_mut().find(|(a, _)| *a == asid) {
            Some((_, cpus)) => *cpus |= 1 << cpu,
            None => root.live.push((asid, 1 << cpu)),
        }
    }

    /// `cpu` has another root now, and, if `flushed`, no entry of `id`. Its entries may still be
    /// cached, so it is kept, and `false` said. But not once it is empty, as its memory may become
    /// anything, and not those that Linux uses under ASID 0, which it starts with and comes back to
    /// (the identity map), nor upper halves (the first kernel tables, the trampoline): their memory
    /// may be freed without being cleared.
    pub fn uninstall(&mut self, id: RootId, cpu: usize, flushed: bool, tables: &Tables) -> bool {
        let Some(root) = self.all.get_mut(&id) else {
            return false;
        };
        root.installed &= !(1 << cpu);
        if flushed {
            let live = root.live.iter_mut();
            live.for_each(|(_, cpus)| *cpus &= !(1 << cpu));
        }
        let borrowed =
            self.regime.asid_0_is_borrowed && root.live.iter().all(|(asid, _)| *asid == 0);
        let over = root.shape.high || borrowed;
        root.installed == 0 && (over || self.is_empty(id, tables))
    }

    /// Does `id` lead nowhere?
    pub fn is_empty(&self, id: RootId, tables: &Tables) -> bool {
        let table = self.all.get(&id).and_then(|r| tables.get(r.base));
        table.is_none_or(|t| {
            let own = t.words.len() / self.regime.root_parts;
            t.words[..own].iter().all(|word| *word == 0)
        })
    }

    /// The root at `base` that nobody has installed.
    pub fn idle(&self, base: u64) -> Option<RootId> {
        let mut all = self.all.iter();
        let idle = all.find(|(_, r)| r.base == base && r.installed == 0);
        idle.map(|(id, _)| *id)
    }

    /// Another root of the lower half than `id` that `cpu` may have entries of under `asid`.
    pub fn other_under(&self, id: RootId, cpu: usize, asid: u16, tables: &Tables) -> Option<&Root> {
        let mut all = self.all.iter();
        let other = all.find(|(other, r)| {
            **other != id
                && !r.shape.high
                && r.is_held(cpu, asid)
                && !self.is_empty(**other, tables)
        });
        other.map(|(_, root)| root)
    }

    /// Address spaces that an entry of `id` at `va` holds in, and CPUs that may have it cached.
    /// `running` are those that translate at all.
    pub fn scopes(&self, id: RootId, va: u64, global: bool, running: u64) -> Vec<(Scope, u64)> {
        let Some(root) = self.all.get(&id) else {
            return Vec::new();
        };
        let kernel = va >> 63 != 0;
        match (kernel, global) {
            (true, true) => vec![(Scope::Global, running)],
            (true, false) => vec![(Scope::Kernel, running)],
            (false, true) => {
                let seen = root.live.iter().fold(0, |all, (_, cpus)| all | cpus);
                vec![(Scope::Global, seen)]
            }
            (false, false) => {
                let live = root.live.iter().filter(|(_, cpus)| *cpus != 0);
                live.map(|(asid, cpus)| (Scope::Asid(*asid), *cpus))
                    .collect()
            }
        }
    }

    /// `cpus` have lost all entries under `asid`, or under any; but where a root is `installed`
    /// they can be cached again at once.
    pub fn flushed(
        &mut self,
        asid: Option<u16>,
        cpus: u64,
        installed: impl Fn(RootId, u16) -> u64,
    ) {
        for (&id, root) in &mut self.all {
            for (live, holders) in &mut root.live {
                if asid.is_none_or(|asid| asid == *live) {
                    *holders &= !cpus | installed(id, *live);
                }
            }
        }
    }
}
