// SPDX-License-Identifier: GPL-2.0-only
//! What must hold of the rule on any machine.

use wideleaf_policy::Table;
use wideleaf_policy::sim::{Outcome, Pattern, Text, run, touches};

/// 128M or more of text that is touched as `pattern` says, under `rule`.
fn outcome(table: Table, rule: &str, size: u64, pattern: Pattern, seed: u64) -> Outcome {
    let text = Text {
        table,
        size,
        window: 128 << 10,
    };
    run(rule.parse().unwrap(), text, &touches(pattern, size, seed))
}

const SIZE: u64 = 128 << 20;

/// Text of which few pages are used reads no more than without the rule.
#[test]
fn little_is_read_in_vain_where_text_is_sparse() {
    for table in Table::all() {
        for seed in 0..8 {
            for pattern in [
                Pattern::Random(10),
                Pattern::Pages(table.page_shift(), 10),
                Pattern::Clusters(64 << 10, 50),
                Pattern::Clusters(256 << 10, 50),
            ] {
                let read = |rule| outcome(table, rule, SIZE, pattern, seed).read;
                let (pristine, ours) = (read("7.3"), read("patched"));
                assert!(
                    ours * 4 <= pristine * 5,
                    "{table:?}, {pattern:?}, seed {seed}: reads {ours}, 7.3 {pristine}"
                );
            }
        }
    }
}

/// The cold sweep of 512M: a fault for each block and few more, and every block wide.
#[test]
fn a_sweep_is_wide() {
    const SIZE: u64 = 512 << 20;
    for table in Table::all() {
        let outcome = outcome(table, "patched", SIZE, Pattern::Sweep, 0);
        assert!(
            outcome.minor + outcome.major <= 290,
            "{table:?}: {outcome:?}"
        );
        assert_eq!(outcome.wide, 256, "{table:?}: {outcome:?}");
        assert_eq!(outcome.read, SIZE);
    }
}

/// Text that is executed completely becomes wide whatever the order, and not
/// a byte is read twice.
#[test]
fn dense_text_is_wide_in_any_order() {
    for table in Table::all() {
        for seed in 0..4 {
            let outcome = outcome(table, "patched", SIZE, Pattern::Random(1000), seed);
            assert_eq!(outcome.wide, 64, "{table:?}: {outcome:?}");
            assert_eq!(outcome.read, SIZE);
        }
    }
}
