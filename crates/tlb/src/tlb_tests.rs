// SPDX-License-Identifier: GPL-2.0-only
//! Known answers for one array.

use super::*;

fn entry(shift: u8, asid: Option<u16>) -> Entry {
    Entry {
        leaf_shift: shift,
        span_shift: shift,
        asid: asid.unwrap_or(0),
        global: asid.is_none(),
    }
}

fn array(entries: usize, ways: usize, sizes: &[u8]) -> Array {
    with_policy(entries, ways, sizes, Replacement::Lru)
}

fn with_policy(entries: usize, ways: usize, sizes: &[u8], policy: Replacement) -> Array {
    let sizes = sizes.to_vec();
    let geometry = Geometry {
        entries,
        ways,
        sizes,
    };
    Array::new(&geometry, policy, false, 0)
}

/// Looks up, fills on a miss as the core does; true on a hit.
fn touch(a: &mut Array, va: u64, shift: u8) -> bool {
    let hit = a.lookup(va, 1).is_some();
    if !hit {
        a.insert(va, entry(shift, Some(1)));
    }
    hit
}

/// Worked out on paper. Two sets of two ways, 4K pages: even pages go to set
/// 0, odd ones to set 1. State after each step, least recently used first:
///
/// ```text
///  step page  set 0    set 1    why
///   1    0    0        -        miss, empty way
///   2    2    0 2      -        miss, empty way
///   3    4    2 4      -        miss, page 0 is the oldest and goes
///   4    2    4 2      -        HIT, 2 becomes the youngest
///   5    1    4 2      1        miss, the other set is not disturbed
///   6    6    2 6      1        miss, 4 is the oldest now (FIFO would evict 2)
///   7    2    6 2      1        HIT: LRU kept it
///   8    0    2 0      1        miss, evicts 6
///   9    4    0 4      1        miss, evicts 2
///  10    1    0 4      1        HIT
///  11    2    4 2      1        miss, evicts 0
/// ```
///
/// Three hits in eleven; FIFO would have two (steps 4 and 10).
#[test]
fn lru_as_worked_out_on_paper() {
    let mut a = array(4, 2, &[12]);
    let pages = [0, 2, 4, 2, 1, 6, 2, 0, 4, 1, 2];
    let hits: Vec<usize> = pages
        .iter()
        .enumerate()
        .filter(|&(_, p)| touch(&mut a, p << 12, 12))
        .map(|(i, _)| i + 1)
        .collect();
    assert_eq!(hits, [4, 7, 10]);
}

/// The classic worst case: a cycle one longer than a fully associative LRU
/// array never hits; of exactly its length it always does after one round.
#[test]
fn cycles_around_the_capacity() {
    for (len, want) in [(48, 48 * 9), (49, 0)] {
        let mut a = array(48, 48, &[12]);
        let hits = (0..10 * len)
            .filter(|i| touch(&mut a, (i % len) << 12, 12))
            .count();
        assert_eq!(hits, want, "cycle of {len} pages");
    }
}

/// Which of `pages` miss an array of one set of four ways, counted from 1.
fn missed(policy: Replacement, pages: &[u64]) -> Vec<usize> {
    let mut a = with_policy(4, 4, &[12], policy);
    let misses = pages.iter().enumerate();
    let misses = misses.filter(|&(_, page)| !touch(&mut a, page << 12, 12));
    misses.map(|(i, _)| i + 1).collect()
}

/// Worked out on paper: pages 1 to 4 fill the ways in order, page 1 is used again, 5 needs room.
///
/// LRU evicts 2, the least recently used; then 2 evicts 3. The tree's root points to the right
/// half after page 1 was used, whose node points to way 2: 5 evicts 3, and 2 is still there.
#[test]
fn lru_and_a_tree_evict_different_pages() {
    let pages = [1, 2, 3, 4, 1, 5, 2, 3];
    assert_eq!(missed(Replacement::Lru, &pages), [1, 2, 3, 4, 6, 7, 8]);
    assert_eq!(missed(Replacement::TreePlru, &pages), [1, 2, 3, 4, 6, 8]);
}

/// A cycle one longer than the array: LRU never hits, random does now and then, in the same places
/// in every run.
#[test]
fn random_replacement_hits_in_a_cycle_and_repeats() {
    let pages: Vec<u64> = (0..500).map(|i| i % 5).collect();
    assert_eq!(missed(Replacement::Lru, &pages).len(), 500);
    let random = missed(Replacement::Random, &pages);
    assert!((150..400).contains(&random.len()), "{}", random.len());
    assert_eq!(random, missed(Replacement::Random, &pages));
}

#[test]
fn a_hash_keeps_a_stride_apart_that_meets_in_one_set_without() {
    let hits = |hashed| {
        let geometry = Geometry {
            entries: 16,
            ways: 2,
            sizes: vec![12],
        };
        let mut a = Array::new(&geometry, Replacement::Lru, hashed, 0);
        let pages = (0..8).chain(0..8).map(|page| page << 15);
        pages.filter(|&va| touch(&mut a, va, 12)).count()
    };
    assert_eq!((hits(false), hits(true)), (0, 8));
}

#[test]
fn a_group_of_pages_is_one_entry_and_goes_as_one() {
    let geometry = Geometry {
        entries: 8,
        ways: 2,
        sizes: vec![12, 21],
    };
    let mut a = Array::new(&geometry, Replacement::Lru, false, 2);
    let group = Entry {
        span_shift: 14,
        ..entry(12, Some(1))
    };
    assert_eq!(a.insert(0x5000, group), Some(14));
    for page in 4..8 {
        assert_eq!(a.lookup(page << 12, 1), Some((group, 14)), "page {page}");
    }
    assert!(a.lookup(0x3000, 1).is_none() && a.lookup(0x8000, 1).is_none());
    assert_eq!(a.invalidate(&Invalidate::va(0x7000, Some(1))), 1);
    assert!(a.lookup(0x4000, 1).is_none());
    // One that holds no groups takes the page alone.
    let mut pages = array(8, 2, &[12, 21]);
    assert_eq!(pages.insert(0x5000, group), Some(12));
    assert!(pages.lookup(0x4000, 1).is_none());
}

#[test]
fn sizes_share_an_array_and_each_is_found() {
    let mut a = array(64, 4, &[12, 16, 21]);
    for (va, shift) in [(0x1000, 12), (0x4_0000, 16), (0x80_0000, 21)] {
        assert!(!touch(&mut a, va, shift));
        let last = va + (1 << shift) - 1;
        assert_eq!(a.lookup(last, 1).unwrap().1, shift);
        assert!(a.lookup(last + 1, 1).is_none());
    }
    assert_eq!(a.occupancy()[..4], [1, 0, 1, 1]);
}

#[test]
fn leaves_too_large_for_the_array_are_held_in_fragments() {
    let mut a = array(8, 8, &[12, 21]);
    let gig = entry(30, Some(1));
    assert_eq!(a.insert(0x4020_0000, gig), Some(21));
    assert_eq!(a.insert(0x4040_0000, gig), Some(21));
    assert_eq!(a.lookup(0x403f_ffff, 1), Some((gig, 21)));
    assert!(
        a.lookup(0x4060_0000, 1).is_none(),
        "third fragment not cached"
    );
    // An address in no cached fragment, but in the leaf, removes both.
    assert_eq!(a.invalidate(&Invalidate::va(0x7fff_f000, Some(1))), 2);
    // An array that only holds larger sizes takes nothing.
    let mut large = array(8, 8, &[21]);
    assert_eq!(large.insert(0x1000, entry(12, Some(1))), None);
    assert_eq!((large.holds(12), large.holds(30)), (None, Some(21)));
}

#[test]
fn address_spaces_are_kept_apart_and_globals_are_everybodys() {
    let mut a = array(8, 8, &[12]);
    a.insert(0x1000, entry(12, Some(1)));
    a.insert(0x2000, entry(12, None));
    assert!(a.lookup(0x1000, 1).is_some());
    assert!(a.lookup(0x1000, 2).is_none());
    assert!(a.lookup(0x2000, 1).is_some() && a.lookup(0x2000, 2).is_some());
}

/// Fills: pages 1 and 2 in ASID 1, page 1 in ASID 2, page 3 global.
fn filled() -> Array {
    let mut a = array(16, 16, &[12, 21]);
    a.insert(0x1000, entry(12, Some(1)));
    a.insert(0x2000, entry(12, Some(1)));
    a.insert(0x1000, entry(12, Some(2)));
    a.insert(0x3000, entry(12, None));
    a
}

#[test]
fn each_invalidation_removes_what_it_says_and_no_more() {
    let range = |start, last, asid, globals| Invalidate::Range {
        start,
        last,
        asid,
        globals,
    };
    // (operation, what stays of: 1@1, 2@1, 1@2, 3 global)
    let cases = [
        (Invalidate::All, [false, false, false, false]),
        (Invalidate::NonGlobal, [false, false, false, true]),
        (Invalidate::Asid(1), [false, false, true, true]),
        (Invalidate::va(0x1000, Some(1)), [false, true, true, true]),
        (Invalidate::va(0x1fff, None), [false, true, false, true]),
        (Invalidate::va(0x3000, Some(7)), [true, true, true, false]),
        (range(0x3000, 0x3000, Some(7), false), [true; 4]),
        (
            range(0x1000, 0x2fff, Some(1), true),
            [false, false, true, true],
        ),
        (
            range(0x2000, 0x3fff, None, true),
            [true, false, true, false],
        ),
        (range(0x4000, u64::MAX, None, true), [true; 4]),
        (range(0, 0xfff, None, true), [true; 4]),
    ];
    for (op, stays) in cases {
        let mut a = filled();
        let removed = a.invalidate(&op);
        let got = [
            a.lookup(0x1000, 1).is_some(),
            a.lookup(0x2000, 1).is_some(),
            a.lookup(0x1000, 2).is_some(),
            a.lookup(0x3000, 9).is_some(),
        ];
        assert_eq!(got, stays, "{op:?}");
        assert_eq!(removed, stays.iter().filter(|s| !**s).count(), "{op:?}");
    }
}

#[test]
fn one_page_of_a_wide_leaf_removes_the_leaf() {
    let mut a = array(16, 16, &[12, 16, 21]);
    a.insert(0x1_0000, entry(16, Some(1)));
    a.insert(0x20_0000, entry(21, Some(1)));
    assert_eq!(a.invalidate(&Invalidate::va(0x1_5000, Some(1))), 1);
    assert!(a.lookup(0x1_0000, 1).is_none());
    assert!(a.lookup(0x3f_ffff, 1).is_some());
}

#[test]
fn freed_ways_are_used_before_anything_is_evicted() {
    let mut a = array(2, 2, &[12]);
    touch(&mut a, 0x1000, 12);
    touch(&mut a, 0x2000, 12);
    a.invalidate(&Invalidate::va(0x2000, Some(1)));
    touch(&mut a, 0x3000, 12);
    assert!(a.lookup(0x1000, 1).is_some(), "the older entry survived");
}

#[test]
#[should_panic(expected = "power of two")]
fn odd_geometry_is_refused() {
    array(12, 4, &[12]);
}
