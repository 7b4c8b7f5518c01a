// SPDX-License-Identifier: GPL-2.0-only
//! The rules themselves: pure comparisons of two entries.
//!
//! Arm ARM (DDI 0487M.b): D8.17.1 "Using break-before-make when updating
//! translation table entries" (R_WHZWS lists the changes that ask for it), D8.17.2
//! "Support levels for changing table or block size" (R_KFLJB, R_KHRBC). Rules keep
//! their names from issue to issue, sections move.

use super::finding::Kind;
use super::format::{Desc, Leaf, grant};

/// Does a TLB that still holds `old` do no harm where the tables say `new`? It
/// translates to the same place, in the same way and the same size, and grants
/// nothing more: at worst an access faults that need not.
pub fn harmless(old: &Desc, new: &Desc) -> bool {
    match (old, new) {
        (Desc::Invalid, _) => true,
        (Desc::Leaf(old), Desc::Leaf(new)) => {
            !old.cacheable || (alike(old, new) && old.grants & !new.grants == 0)
        }
        // What is not cached may change as it likes.
        (Desc::Leaf(old), _) => !old.cacheable,
        (old, new) => old == new,
    }
}

/// The same but for permissions, access flag and dirty state.
fn alike(a: &Leaf, b: &Leaf) -> bool {
    (a.pa, a.shift, a.group, a.attributes, a.global)
        == (b.pa, b.shift, b.group, b.attributes, b.global)
}

/// Level of FEAT_BBM with which the Contiguous bit may change live (R_KHRBC).
const BIT: u8 = 1;

/// Level with which table and block may follow each other, and blocks of different levels
/// (R_KFLJB). With level 1 they may through the nT bit only, which Linux does not use, and which is
/// not looked at.
const SIZE: u8 = 2;

/// Must `old` have left every TLB before `new` may be valid at `va`? `bbm` is
/// the level of FEAT_BBM that the CPU promises, without conflict aborts.
///
/// Permissions do not count: R_WHZWS does not list them, and what R_PVTFW keeps from changing
/// together with the size is what R_WHZWS lists.
pub fn needs_break(old: &Desc, new: &Desc, va: u64, bbm: u8) -> Option<Break> {
    match (old, new) {
        (Desc::Invalid, _) | (_, Desc::Invalid) => None,
        (Desc::Table(a), Desc::Table(b)) => (a != b).then_some(Break::Output),
        (Desc::Table(_), Desc::Leaf(_)) | (Desc::Leaf(_), Desc::Table(_)) => {
            (bbm < SIZE).then_some(Break::Size)
        }
        (Desc::Leaf(old), Desc::Leaf(new)) => leaves(old, new, va, bbm),
    }
}

/// Does `new` lead elsewhere than `old` did, in a table that a TLB may still walk? Linux moves tables
/// within an address space before it flushes (`move_normal_pmd()`), and goes on changing permissions
/// in them.
pub fn is_other(old: &Desc, new: &Desc) -> bool {
    match (old, new) {
        (_, Desc::Invalid) => false,
        (Desc::Leaf(old), Desc::Leaf(new)) => (old.pa, old.attributes) != (new.pa, new.attributes),
        (old, new) => old != new,
    }
}

/// Do `old` and `new` differ in nothing but the place they map and what they grant, and can neither
/// be written through? Gives both places and their size in bytes. If both places hold the same,
/// break-before-make is not asked for, and an access that both grant may use either.
pub fn copies(old: &Desc, new: &Desc) -> Option<(u64, u64, u64)> {
    let (Desc::Leaf(old), Desc::Leaf(new)) = (old, new) else {
        return None;
    };
    let read_only = (old.grants | new.grants) & (grant::KERNEL_WRITE | grant::USER_WRITE) == 0;
    let elsewhere = Leaf { pa: new.pa, ..*old };
    let same = alike(&elsewhere, new);
    (read_only && same).then_some((old.pa, new.pa, 1 << old.shift))
}

/// Why entries may not follow each other directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Another output address, memory type, or global where it was not.
    Output,
    /// Another size: block and table, or the contiguous bit.
    Size,
}

impl Break {
    /// What it is called when `direct`ly changed, or when not flushed between.
    pub fn kind(self, direct: bool) -> Kind {
        match (self, direct) {
            (_, true) => Kind::NoBreak,
            (Break::Size, false) => Kind::SizeConflict,
            (Break::Output, false) => Kind::NoFlush,
        }
    }
}

fn leaves(old: &Leaf, new: &Leaf, va: u64, bbm: u8) -> Option<Break> {
    let at = |leaf: &Leaf| leaf.pa | (va & ((1 << leaf.shift) - 1));
    // Only non-global to global is forbidden.
    let globalised = new.global && !old.global;
    if at(old) != at(new) || old.attributes != new.attributes || globalised {
        return Some(Break::Output);
    }
    let level = match (old.shift != new.shift, old.group != new.group) {
        (true, _) => SIZE,
        (false, true) => BIT,
        (false, false) => 0,
    };
    (bbm < level).then_some(Break::Size)
}

/// May `a` and `b`, valid at `va_a` and `va_b` of one contiguous group, stand
/// beside each other? Permissions, access flag and dirty state may differ. Where the CPU promises
/// level 1 or 2, a lookup gives what one of the entries says even if not all have the bit (R_NGLXZ).
pub fn neighbours_agree(a: (&Leaf, u64), b: (&Leaf, u64), bbm: u8) -> bool {
    let ((a, va_a), (b, va_b)) = (a, b);
    let grouped = |l: &Leaf| l.group != l.shift;
    if !grouped(a) && !grouped(b) {
        return true;
    }
    let congruent = a.pa.wrapping_sub(va_a) == b.pa.wrapping_sub(va_b);
    let within = (1u64 << a.group.max(b.group)) - 1;
    let aligned = (a.pa ^ va_a) & within == 0;
    let same_bit = grouped(a) == grouped(b) || bbm >= BIT;
    congruent && aligned && same_bit && a.attributes == b.attributes && a.global == b.global
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::format::grant::*;

    fn page(pa: u64) -> Leaf {
        Leaf {
            pa,
            shift: 16,
            group: 16,
            grants: KERNEL_READ | USER_READ,
            attributes: 0x310,
            global: false,
            cacheable: true,
        }
    }

    fn writable(leaf: Leaf) -> Leaf {
        Leaf {
            grants: leaf.grants | USER_WRITE | KERNEL_WRITE,
            ..leaf
        }
    }

    fn contiguous(leaf: Leaf) -> Leaf {
        Leaf { group: 21, ..leaf }
    }

    #[test]
    fn more_rights_need_no_flush_and_fewer_do() {
        let (ro, rw) = (
            Desc::Leaf(page(0x10000)),
            Desc::Leaf(writable(page(0x10000))),
        );
        assert!(harmless(&ro, &rw));
        assert!(!harmless(&rw, &ro));
        assert!(!harmless(&ro, &Desc::Invalid));
        assert!(!harmless(&ro, &Desc::Leaf(page(0x20000))));
    }

    #[test]
    fn what_is_not_accessed_is_not_cached() {
        let old = Desc::Leaf(Leaf {
            cacheable: false,
            ..page(0x10000)
        });
        assert!(harmless(&old, &Desc::Invalid));
        // Ageing: the old entry grants what the new one does.
        let young = Desc::Leaf(page(0x10000));
        assert!(harmless(&young, &old));
    }

    #[test]
    fn permissions_need_no_break() {
        let (ro, rw) = (
            Desc::Leaf(page(0x10000)),
            Desc::Leaf(writable(page(0x10000))),
        );
        assert_eq!(needs_break(&rw, &ro, 0x10000, 0), None);
        assert_eq!(needs_break(&ro, &rw, 0x10000, 0), None);
    }

    #[test]
    fn another_address_type_or_global_needs_a_break_at_any_level() {
        let old = page(0x10000);
        let typed = Leaf {
            attributes: 0x304,
            ..old
        };
        let global = Leaf {
            global: true,
            ..old
        };
        for new in [page(0x20000), typed, global] {
            let got = needs_break(&Desc::Leaf(old), &Desc::Leaf(new), 0x10000, 2);
            assert_eq!(got, Some(Break::Output));
        }
        let got = needs_break(&Desc::Leaf(global), &Desc::Leaf(old), 0x10000, 0);
        assert_eq!(got, None, "global to non-global");
    }

    #[test]
    fn copies_are_read_only_and_alike() {
        let (old, new) = (page(0x10000), page(0x20000));
        let places = |old: Leaf, new: Leaf| copies(&Desc::Leaf(old), &Desc::Leaf(new));
        assert_eq!(places(old, new), Some((0x10000, 0x20000, 1 << 16)));
        let older = Leaf {
            cacheable: false,
            ..new
        };
        assert!(places(old, older).is_some(), "an age is no difference");
        let typed = Leaf {
            attributes: 0x304,
            ..new
        };
        for other in [writable(new), contiguous(new), typed] {
            assert_eq!(places(old, other), None);
        }
        assert_eq!(places(writable(old), new), None);
        assert_eq!(copies(&Desc::Leaf(old), &Desc::Invalid), None);
    }

    #[test]
    fn sizes_need_a_break_unless_the_cpu_promises_otherwise() {
        let (a, b) = (page(0x20_0000), contiguous(page(0x20_0000)));
        let va = 0x40_0000;
        for (old, new) in [(a, b), (b, a)] {
            let (old, new) = (Desc::Leaf(old), Desc::Leaf(new));
            assert_eq!(needs_break(&old, &new, va, 0), Some(Break::Size));
            assert_eq!(needs_break(&old, &new, va, 1), None, "R_KHRBC");
            assert_eq!(needs_break(&old, &new, va, 2), None);
        }
        let (table, leaf) = (Desc::Table(0x1000), Desc::Leaf(a));
        for (old, new) in [(table, leaf), (leaf, table)] {
            for bbm in [0, 1] {
                assert_eq!(needs_break(&old, &new, va, bbm), Some(Break::Size));
            }
            assert_eq!(needs_break(&old, &new, va, 2), None);
        }
    }

    /// R_PVTFW: what asks for break-before-make alone does so beside a change of size.
    #[test]
    fn a_size_may_change_with_permissions_but_with_nothing_else() {
        let (old, va) = (page(0x20_0000), 0x40_0000);
        let new = contiguous(old);
        let at_2 = |new: Leaf| needs_break(&Desc::Leaf(old), &Desc::Leaf(new), va, 2);
        assert_eq!(at_2(writable(new)), None);
        let elsewhere = contiguous(page(0x60_0000));
        let typed = Leaf {
            attributes: 0x304,
            ..new
        };
        let global = Leaf {
            global: true,
            ..new
        };
        for new in [elsewhere, typed, global] {
            assert_eq!(at_2(new), Some(Break::Output));
        }
    }

    #[test]
    fn a_block_and_the_page_inside_it_are_compared_at_the_address() {
        let block = Leaf {
            shift: 29,
            group: 29,
            ..page(0x4000_0000)
        };
        let inside = page(0x4003_0000);
        let (block, inside) = (Desc::Leaf(block), Desc::Leaf(inside));
        assert_eq!(
            needs_break(&block, &inside, 0x2003_0000, 0),
            Some(Break::Size)
        );
        assert_eq!(
            needs_break(&block, &inside, 0x2004_0000, 0),
            Some(Break::Output)
        );
    }

    #[test]
    fn names_tell_a_change_without_break_from_one_without_flush() {
        assert_eq!(Break::Output.kind(true), Kind::NoBreak);
        assert_eq!(Break::Output.kind(false), Kind::NoFlush);
        assert_eq!(Break::Size.kind(false), Kind::SizeConflict);
    }

    #[test]
    fn neighbours_of_a_group_agree_in_all_but_permissions() {
        let a = contiguous(page(0x20_0000));
        let b = contiguous(page(0x21_0000));
        let (va, vb) = (0x40_0000, 0x41_0000);
        assert!(neighbours_agree((&a, va), (&b, vb), 0));
        assert!(neighbours_agree((&writable(a), va), (&b, vb), 0));
        let elsewhere = contiguous(page(0x30_0000));
        assert!(!neighbours_agree((&a, va), (&elsewhere, vb), 2));
        let single = page(0x21_0000);
        assert!(!neighbours_agree((&a, va), (&single, vb), 0));
        assert!(neighbours_agree((&a, va), (&single, vb), 1));
        assert!(neighbours_agree((&a, va), (&single, vb), 2));
        // A group that is not aligned.
        let c = contiguous(page(0x21_0000));
        let d = contiguous(page(0x22_0000));
        assert!(!neighbours_agree((&c, va), (&d, vb), 0));
        // Without the bit there is no group.
        assert!(neighbours_agree(
            (&page(0x50_0000), va),
            (&page(0x10_0000), vb),
            0
        ));
    }
}
