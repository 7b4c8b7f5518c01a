// SPDX-License-Identifier: GPL-2.0-only
//! Coalescing, prefetch and a walk cache, on page tables of a few pages.

use super::*;
use crate::arm64;
use crate::profile::Profile;
use crate::walk::testmem::Mem;

const BASE: u64 = 1 << 30;
const NG: u64 = 1 << 11;
const READ_ONLY: u64 = 1 << 7;
const SOFTWARE: u64 = 1 << 55;

/// An arm64 4K-granule address space of 39 bits in which these pages from `BASE` on are mapped, each
/// to the page of memory with this number and with these attributes.
fn space(pages: &[(u64, u64, u64)]) -> Space<Mem> {
    let mut mem = Mem::default();
    for table in [0x1000, 0x2000, 0x3000, 0x4000] {
        mem.table(table, 4096);
    }
    mem.set(0x1000, 1, 0x2000 | 3);
    mem.set(0x2000, 0, 0x3000 | 3);
    mem.set(0x2000, 1, 0x4000 | 3);
    for &(page, memory, attributes) in pages {
        let table = 0x3000 + page / 512 * 0x1000;
        let leaf = (0x4000_0000 + (memory << 12)) | 3 | NG | attributes;
        mem.set(table, page % 512, leaf);
    }
    let regs = arm64::Regs {
        ttbr0: 1 << 48 | 0x1000,
        tcr: 25 | 25 << 16 | 2 << 30 | 5 << 32 | 1 << 36,
        sctlr: 1,
        ..Default::default()
    };
    let mmu = Mmu::Arm64(arm64::Mmu::new(regs));
    let asid = mmu.asid();
    Space { mem, mmu, asid }
}

/// Pages that are mapped one to one to memory.
fn straight(pages: std::ops::Range<u64>) -> Vec<(u64, u64, u64)> {
    pages.map(|page| (page, page, 0)).collect()
}

fn design() -> Design {
    Design::from(Profile::by_name("neoverse-v2").unwrap())
}

fn coalescing(first_level: bool) -> Levels {
    let coalescing = Coalescing {
        log2_pages: 2,
        first_level,
    };
    Levels::new(&Design {
        coalescing,
        ..design()
    })
}

/// L1 misses, L2 misses and reads of loads from these pages.
fn loads(levels: &mut Levels, space: &Space<Mem>, pages: &[u64]) -> (u64, u64, u64) {
    let before = levels.misses[0].report();
    for page in pages {
        levels.look_up(space, 0, Side::Data, BASE + (page << 12));
    }
    let after = levels.misses[0].report();
    (
        after.dtlb_l1_misses - before.dtlb_l1_misses,
        after.dtlb_l2_misses - before.dtlb_l2_misses,
        after.walk_reads - before.walk_reads,
    )
}

#[test]
fn four_pages_side_by_side_are_one_entry_and_lost_together() {
    let space = space(&straight(0..8));
    let mut levels = coalescing(true);
    assert_eq!(loads(&mut levels, &space, &[5, 4, 6, 7]), (1, 1, 3));
    levels.invalidate(&Invalidate::va(BASE + (7 << 12), Some(1)));
    assert_eq!(loads(&mut levels, &space, &[4, 5]), (1, 1, 3));
}

#[test]
fn a_first_level_that_holds_no_groups_misses_for_each_page() {
    let space = space(&straight(0..8));
    let mut levels = coalescing(false);
    assert_eq!(loads(&mut levels, &space, &[4, 5, 6, 7]), (4, 1, 3));
}

#[test]
fn pages_are_no_group_unless_adjacent_aligned_equal_and_mapped() {
    let group = straight(4..8);
    let without = |page: usize, other: Option<(u64, u64, u64)>| {
        let mut pages = group.clone();
        pages.splice(page..=page, other);
        pages
    };
    let shifted = |by| group.iter().map(|&(p, m, a)| (p, m + by, a)).collect();
    for (what, pages, l2_misses) in [
        ("a group", group.clone(), 1),
        ("elsewhere in memory", shifted(4), 1),
        (
            "what only software reads",
            without(2, Some((6, 6, SOFTWARE))),
            1,
        ),
        ("not aligned in memory", shifted(1), 3),
        ("not in order", without(2, Some((6, 60, 0))), 3),
        ("other attributes", without(2, Some((6, 6, READ_ONLY))), 3),
        ("one is not mapped", without(3, None), 3),
    ] {
        let got = loads(&mut coalescing(true), &space(&pages), &[4, 5, 6]);
        assert_eq!(got.1, l2_misses, "{what}");
    }
}

#[test]
fn the_next_page_is_prefetched_if_it_is_mapped() {
    let prefetching = || {
        Levels::new(&Design {
            prefetch: true,
            ..design()
        })
    };
    let whole = space(&straight(0..4));
    // Page 1 hits level 2, page 2 walks again and brings page 3.
    assert_eq!(loads(&mut prefetching(), &whole, &[0, 1, 2, 3]), (4, 2, 6));
    let mut pages = straight(0..1);
    let holey = space(&pages);
    let mut levels = prefetching();
    loads(&mut levels, &holey, &[0]);
    assert_eq!(
        levels.failed, 0,
        "a prefetch that finds nothing is no fault"
    );
    pages.extend(straight(1..2));
    let mapped_later = space(&pages);
    assert_eq!(loads(&mut levels, &mapped_later, &[1]), (1, 1, 3));
}

#[test]
fn a_walk_cache_saves_reads_but_no_walks() {
    let space = space(&straight(0..600));
    let mut levels = Levels::new(&Design {
        walk_cache: 4,
        ..design()
    });
    assert_eq!(loads(&mut levels, &space, &[0]), (1, 1, 3), "nothing known");
    assert_eq!(
        loads(&mut levels, &space, &[1, 2]),
        (2, 2, 2),
        "the last table"
    );
    assert_eq!(
        loads(&mut levels, &space, &[512]),
        (1, 1, 2),
        "that above it"
    );
    levels.invalidate(&Invalidate::Asid(1));
    assert_eq!(loads(&mut levels, &space, &[3]), (1, 1, 3), "forgotten");
}
