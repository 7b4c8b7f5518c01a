// SPDX-License-Identifier: GPL-2.0-only
//! Accesses: could an old translation serve them, and do they mind?

use super::finding::Kind;
use super::format::{self, Desc, Leaf};
use super::rules;
use super::stale::{At, Record, Scope};
use super::{Access, Referee};
use crate::walk::PhysMem;

impl Referee {
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
pub(super) fn are_copies(old: &Desc, new: &Desc, va: Option<u64>, mem: &impl PhysMem) -> bool {
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
