// SPDX-License-Identifier: GPL-2.0-only
//! Queries at random, crowded around the places where rules change.

#![allow(dead_code, missing_docs)]

#[path = "../../../elf/tests/common/cases.rs"]
mod cases;

use cases::cases;
use proptest::prelude::*;
use wideleaf_policy::{Account, Advice, Align, Ground, Read, Segment, Table, Thp};

/// Over night, `PROPTEST_CASES=1000000` can be run.
pub fn config() -> ProptestConfig {
    let mut config = cases(4_000);
    config.max_global_rejects = u32::MAX;
    config.failure_persistence = None;
    config
}

/// Sizes near powers of two and anywhere, in bytes.
pub fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (8u32..36, -3i64..4, 0u32..17).prop_map(|(shift, off, unit)| {
            (1u64 << shift).wrapping_add_signed(off << unit)
        }),
        2 => 0..64u64 << 20,
        1 => any::<u64>(),
        1 => (0..1u64 << 22).prop_map(|below| u64::MAX - below),
        1 => Just(0),
    ]
}

/// Multiples of 4K and of 64K, small and near the end of 64 bits.
pub fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..4096u64).prop_map(|page| page << 12),
        4 => (0..4096u64).prop_map(|unit| unit << 16),
        2 => (0..64u64).prop_map(|block| block << 21),
        1 => (1..4096u64).prop_map(|page| 0u64.wrapping_sub(page << 12)),
        1 => any::<u64>(),
    ]
}

pub fn grounds() -> impl Strategy<Value = Ground> {
    let file = prop_oneof![1 => Just(0), 3 => size()];
    let thp = prop_oneof![
        1 => Just(Thp::Never), 4 => Just(Thp::Madvise), 8 => Just(Thp::Always)
    ];
    (
        0..4usize,
        file,
        prop_oneof![1 => 0..20u8, 3 => Just(9)],
        thp,
        prop::bool::weighted(0.95),
    )
        .prop_map(|(table, file_size, max_order, thp, enabled)| Ground {
            table: Table::all()[table],
            file_size,
            min_order: 0,
            max_order,
            thp,
            enabled,
        })
}

pub fn aligns() -> impl Strategy<Value = Align> {
    let space = prop_oneof![4 => Just(1 << 47), 1 => size()];
    (grounds(), offset(), size(), space).prop_map(|(ground, offset, length, space)| Align {
        ground,
        offset,
        length,
        space,
    })
}

pub fn images() -> impl Strategy<Value = (Align, Vec<Segment>)> {
    let segment = (
        offset(),
        offset(),
        any::<bool>(),
        size(),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(offset, shift, congruent, filesz, writable)| Segment {
            vaddr: offset.wrapping_add(if congruent { 0 } else { shift }),
            offset,
            filesz,
            writable,
        });
    (aligns(), prop::collection::vec(segment, 0..5))
}

pub fn reads() -> impl Strategy<Value = Read> {
    let at = (0..1u64 << 36, any::<bool>(), offset(), offset(), size());
    let cache = (
        size(),
        size(),
        size(),
        size(),
        size(),
        prop_oneof![Just(0u8), Just(21)],
        any::<bool>(),
        prop_oneof![4 => Just(Advice::None), 1 => Just(Advice::Random), 1 => Just(Advice::Sequential)],
    );
    let window =
        prop_oneof![4 => Just(128 << 10), 4 => (12..25u32).prop_map(|s| 1 << s), 1 => size()];
    let spare = prop_oneof![4 => Just(1 << 30), 2 => size()];
    let account = (prop_oneof![0..600u16, Just(u16::MAX)], 0..40u16);
    (grounds(), at, window, spare, cache, account).prop_map(
        |(ground, (at, low, start, offset, length), window, spare, cache, (debt, lonely))| {
            let start = if low {
                start
            } else {
                0x7f00_0000_0000u64.wrapping_add(start)
            };
            let (hole, run, gap, last_size, filled, collapse, evicted, advice) = cache;
            let hole = if at & 1 == 0 { 0 } else { hole };
            Read {
                ground,
                start,
                end: start.wrapping_add(length),
                offset,
                fault: start.wrapping_add((at << 12) % length.max(1)),
                window,
                spare,
                hole,
                run,
                gap,
                last_size,
                collapse,
                filled,
                evicted,
                advice,
                account: Account { debt, lonely },
            }
        },
    )
}
