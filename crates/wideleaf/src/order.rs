// SPDX-License-Identifier: GPL-2.0-only
//! `--sort [+-]COLUMN` and `--reverse`, the same for every table: without a
//! sign amounts start with the largest, all else with the smallest; `+` is
//! ascending, `-` descending; `--reverse` turns round what that gives.

use std::cmp::Ordering;

/// Which way a column is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// None given: what fits the column.
    Natural,
    /// `+`
    Ascending,
    /// `-`
    Descending,
}

/// The sign and the column's name.
pub fn split(text: &str) -> (Sign, &str) {
    match text.as_bytes().first() {
        Some(b'+') => (Sign::Ascending, &text[1..]),
        Some(b'-') => (Sign::Descending, &text[1..]),
        _ => (Sign::Natural, text),
    }
}

/// Turns an ascending comparison. `amount`: the column tells how much.
pub fn turn(order: Ordering, sign: Sign, amount: bool, reverse: bool) -> Ordering {
    let descending = match sign {
        Sign::Natural => amount,
        Sign::Ascending => false,
        Sign::Descending => true,
    };
    match descending != reverse {
        true => order.reverse(),
        false => order,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{Greater, Less};

    #[test]
    fn signs_are_told_from_names() {
        assert_eq!(split("-need"), (Sign::Descending, "need"));
        assert_eq!(split("+need"), (Sign::Ascending, "need"));
        assert_eq!(split("need"), (Sign::Natural, "need"));
        assert_eq!(split(""), (Sign::Natural, ""));
    }

    #[test]
    fn amounts_start_with_the_largest_and_reverse_turns_all_round() {
        assert_eq!(turn(Less, Sign::Natural, true, false), Greater);
        assert_eq!(turn(Less, Sign::Natural, false, false), Less);
        assert_eq!(turn(Less, Sign::Natural, true, true), Less);
        assert_eq!(turn(Less, Sign::Descending, false, false), Greater);
        assert_eq!(turn(Less, Sign::Ascending, true, true), Greater);
    }
}
