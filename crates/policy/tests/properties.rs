// SPDX-License-Identifier: GPL-2.0-only
//! What must hold for any mapping, file and machine.

mod common;

use common::{aligns, grounds, reads};
use proptest::prelude::*;
use wideleaf_policy::sim::{Pattern, Text, Variant, run, touches};
use wideleaf_policy::{Account, Advice, Align, Ground, Read, Table, Thp};

fn page(ground: &Ground) -> u64 {
    1 << ground.table.page_shift()
}

/// Whether the pages from file offset `offset` on hold a whole naturally
/// aligned block of `size`, as far as the file backs them.
fn holds(offset: u64, length: u64, ground: &Ground, size: u64) -> bool {
    let (page, size) = (i128::from(page(ground)), i128::from(size));
    let up = |value: i128, to: i128| (value + to - 1) / to * to;
    let first = i128::from(offset) / page * page;
    let mut end = up(i128::from(offset) + i128::from(length), page);
    if ground.file_size != 0 {
        end = end.min(up(ground.file_size.into(), page));
    }
    up(first, size) + size <= end
}

proptest! {
    #![proptest_config(common::config())]

    #[test]
    fn alignment_is_a_leaf_that_the_mapping_holds(query in aligns()) {
        let answer = wideleaf_policy::align(&query);
        let narrow = query.ground.table.page_shift();
        prop_assert!(answer.shift <= 21, "above 2M");
        prop_assert!(query.ground.table.leaves().iter().any(|leaf| leaf.shift == answer.shift));
        if answer.shift > narrow {
            prop_assert!(holds(query.offset, query.length, &query.ground, 1 << answer.shift));
            prop_assert!(answer.shift - narrow <= query.ground.max_order);
            prop_assert!(query.ground.enabled && query.ground.thp != Thp::Never);
        }
    }

    #[test]
    fn alignment_grows_with_the_mapping(query in aligns(), more in 0u64..1 << 30) {
        let longer = Align { length: query.length.saturating_add(more), space: u64::MAX, ..query };
        let query = Align { space: u64::MAX, ..query };
        prop_assume!(query.offset.checked_add(longer.length).is_some());
        prop_assume!(longer.length < u64::MAX / 2);
        let (short, long) = (wideleaf_policy::align(&query), wideleaf_policy::align(&longer));
        prop_assert!(long.shift >= short.shift, "{:?} {:?}", short, long);
    }

    #[test]
    fn small_mappings_are_not_aligned(ground in grounds(), offset in common::offset(), part in 1u64..64) {
        let smallest = ground.table.leaves()[1].shift;
        let length = (1u64 << smallest) * part / 64;
        let query = Align { ground, offset: offset & !(page(&ground) - 1), length, space: 1 << 47 };
        prop_assume!(length <= (1 << smallest) - page(&ground));
        prop_assert_eq!(wideleaf_policy::align(&query).shift, ground.table.page_shift());
    }

    #[test]
    fn a_read_stays_in_the_mapping(query in reads()) {
        let answer = wideleaf_policy::read(&query);
        if answer.size == 0 {
            return Ok(());
        }
        let ground = &query.ground;
        let length = i128::from(query.end.wrapping_sub(query.start));
        let page = i128::from(page(ground));
        let down = |value: i128| value / page * page;
        let first = down(query.offset.into());
        let mut end = down(i128::from(query.offset) + length + page - 1);
        if ground.file_size != 0 {
            end = end.min(down(i128::from(ground.file_size) + page - 1));
        }
        let (at, size) = (i128::from(answer.offset), i128::from(answer.size));
        let fault = i128::from(query.offset) + i128::from(query.fault - query.start);
        prop_assert!(at >= first && at + size <= end, "[{at:#x}, +{size:#x}) in [{first:#x}, {end:#x})");
        prop_assert!(at <= fault && fault < at + size, "misses the fault at {fault:#x}: {answer:?}");
        prop_assert!(at % page == 0 && size % page == 0);
        let order = answer.order;
        prop_assert!(order <= ground.max_order);
        prop_assert!(page << order <= size);
        prop_assert!(page << order <= 2 << 20);
        prop_assert!(1i128 << answer.leaf <= 2 << 20);
        if answer.leaf > ground.table.page_shift() {
            prop_assert_eq!(query.start.wrapping_sub(query.offset) % (1 << answer.leaf), 0);
            prop_assert!(order >= answer.leaf - ground.table.page_shift());
        }
    }

    #[test]
    fn a_read_never_exceeds_window_and_trust(query in reads()) {
        let answer = wideleaf_policy::read(&query);
        let window = u128::from(query.window).next_multiple_of(1 << 16);
        let aligned = 1u128 << answer.leaf;
        // A wide leaf starts before the fault: its head comes on top.
        prop_assert!(u128::from(answer.size) <= (window + (2 << 20)).max(aligned));
        // Nothing before the fault is no stream, unless the program announces one.
        if answer.size > 0 && query.run == 0 && query.advice != Advice::Sequential {
            prop_assert!(u128::from(answer.size) <= window.max(aligned) + 0xffff);
        }
    }

    #[test]
    fn alignment_is_at_least_the_leaf_read(query in reads(), block in 0u64..1 << 20) {
        // Place the mapping as its alignment says, anywhere.
        let length = query.end.wrapping_sub(query.start);
        let align = wideleaf_policy::align(&Align {
            ground: query.ground, offset: query.offset, length, space: u64::MAX,
        });
        let unit = 1u64 << align.shift;
        let start = (0x7f00_0000_0000 + block * unit) | (query.offset & (unit - 1));
        let placed = Read {
            start,
            end: start.wrapping_add(length),
            fault: start.wrapping_add(query.fault.wrapping_sub(query.start)),
            ..query
        };
        prop_assume!(length < 1 << 47);
        let answer = wideleaf_policy::read(&placed);
        prop_assert!(answer.size == 0 || answer.leaf <= align.shift, "{:?} {:?}", answer, align);
        prop_assert!(answer.collapse <= align.shift);
    }

    #[test]
    fn the_policy_has_a_say_where_a_wide_leaf_helps(query in reads()) {
        prop_assume!(query.window > 0 && query.end > query.start);
        prop_assume!(query.ground.enabled && query.ground.thp != Thp::Never);
        let Read { ground, start, end, offset, .. } = query;
        let helps = wideleaf_policy::helps(&ground, start, end - start, offset);
        let answer = wideleaf_policy::read(&query);
        prop_assert!(helps || answer.size == 0, "{:?}", answer);
        prop_assert!(!helps || answer.size > 0 || answer.rule.name() == "no-range", "{:?}", answer);
    }

    #[test]
    fn less_memory_never_widens(query in reads(), less in any::<u64>()) {
        let poorer = Read { spare: query.spare & less, ..query };
        let (rich, poor) = (wideleaf_policy::read(&query), wideleaf_policy::read(&poorer));
        prop_assert!(poor.leaf <= rich.leaf);
        prop_assert!(poor.order <= rich.order);
        // Whole leaves may fill the window less well than pages do.
        prop_assert!(poor.size <= rich.size.max(query.window.saturating_add(0xffff)));
    }

    #[test]
    fn debt_stays_within_the_loan(query in reads()) {
        let answer = wideleaf_policy::read(&query);
        prop_assert!(answer.account.debt <= query.account.debt.max(512), "{:?}", answer);
    }
}

/// No stream of touches makes the policy read more than a quarter and one wide
/// leaf beyond what its demand reads would have been, whatever it hopes for.
#[test]
fn speculation_is_bounded() {
    const SIZE: u64 = 128 << 20;
    for table in Table::all() {
        for seed in 0..8 {
            for pattern in [
                Pattern::Random(10),
                Pattern::Random(50),
                Pattern::Random(200),
                Pattern::Pages(table.page_shift(), 10),
                Pattern::Pages(table.page_shift(), 50),
                Pattern::Pages(table.page_shift(), 200),
            ] {
                let text = Text {
                    table,
                    size: SIZE,
                    window: 128 << 10,
                    spare: 1 << 30,
                };
                let touches = touches(pattern, SIZE, seed);
                let pristine = run(Variant::Pristine73, text, &touches).read;
                for variant in [Variant::NoCollapse, Variant::Policy] {
                    let read = run(variant, text, &touches).read;
                    assert!(
                        read * 4 <= pristine * 5,
                        "{} {}K pages, {pattern:?}, seed {seed}: {} reads {read}, 7.3 {pristine}",
                        table.arch(),
                        (1 << table.page_shift()) / 1024,
                        variant.name(),
                    );
                }
            }
        }
    }
}

/// The cold sweep of 512M: at most 260 faults with a window of 128K, at most 70
/// with 8M, and every block wide.
#[test]
fn a_sweep_is_wide() {
    const SIZE: u64 = 512 << 20;
    for table in Table::all() {
        for (window, faults) in [(128 << 10, 260), (8 << 20, 70)] {
            let text = Text {
                table,
                size: SIZE,
                window,
                spare: 1 << 30,
            };
            let outcome = run(Variant::Policy, text, &touches(Pattern::Sweep, SIZE, 0));
            assert!(outcome.minor + outcome.major <= faults, "{outcome:?}");
            assert_eq!(outcome.wide, 256, "{outcome:?}");
            assert_eq!(outcome.read, SIZE);
        }
    }
}

/// Text that is executed completely becomes wide whatever the order, and not
/// a byte is read twice.
#[test]
fn dense_text_is_wide_in_any_order() {
    const SIZE: u64 = 128 << 20;
    for table in Table::all() {
        for seed in 0..4 {
            let text = Text {
                table,
                size: SIZE,
                window: 128 << 10,
                spare: 1 << 30,
            };
            let touches = touches(Pattern::Random(1000), SIZE, seed);
            let outcome = run(Variant::Policy, text, &touches);
            assert_eq!(outcome.wide, 64, "{outcome:?}");
            assert_eq!(outcome.read, SIZE);
        }
    }
}

/// The first fault of a file has no evidence whatever else is true of it.
#[test]
fn the_first_read_is_what_the_window_says() {
    for table in Table::all() {
        let answer = wideleaf_policy::read(&Read {
            ground: Ground {
                table,
                file_size: 128 << 20,
                min_order: 0,
                max_order: 21 - table.page_shift(),
                thp: Thp::Madvise,
                enabled: true,
            },
            start: 1 << 40,
            end: (1 << 40) + (128 << 20),
            offset: 0,
            fault: 1 << 40,
            window: 128 << 10,
            spare: 1 << 30,
            hole: 0,
            run: 0,
            gap: 128 << 20,
            last_size: 0,
            collapse: 0,
            filled: 0,
            evicted: false,
            advice: Advice::None,
            account: Account::default(),
        });
        assert_eq!(
            (answer.offset, answer.size),
            (0, 128 << 10),
            "{}",
            table.arch()
        );
    }
}
