// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as people read them.

use wideleaf_kit::amount::{self, significant};

/// All digits, three and three: `8 648 345`, with blanks at which no line breaks.
pub(crate) fn exact(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits and a decimal prefix: `8.65 M`; below 10 000 all digits.
pub(crate) fn rounded(value: u64) -> String {
    match amount::rounded(value) {
        (_, "") => exact(value),
        (digits, prefix) => format!("{digits}\u{a0}{prefix}"),
    }
}

/// Of the pristine kernel's: `42.2 %`, and × beyond ten times.
pub(crate) fn share(percent: f64) -> String {
    match percent {
        p if p >= 1000.0 => format!("×\u{a0}{}", significant(p / 100.0)),
        p => format!("{}\u{a0}%", significant(p)),
    }
}

/// `0.05 %`; a spread that no run shows is none.
pub(crate) fn spread(spread: Option<f64>) -> String {
    spread.map_or("one run".into(), |spread| {
        format!("±\u{a0}{}\u{a0}%", significant(100.0 * spread))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!(exact(0), "0");
        assert_eq!(exact(999), "999");
        assert_eq!(exact(8_648_345), "8\u{202f}648\u{202f}345");
    }

    #[test]
    fn a_prefix_stays_with_its_digits() {
        assert_eq!(rounded(9_999), "9\u{202f}999");
        assert_eq!(rounded(10_000), "10.0\u{a0}k");
    }

    #[test]
    fn shares_and_spreads() {
        assert_eq!(share(42.21), "42.2\u{a0}%");
        assert_eq!(share(0.0), "0\u{a0}%");
        assert_eq!(share(100.0), "100\u{a0}%");
        assert_eq!(share(0.5), "0.500\u{a0}%");
        assert_eq!(share(4230.0), "×\u{a0}42.3");
        assert_eq!(spread(Some(0.001)), "±\u{a0}0.100\u{a0}%");
        assert_eq!(spread(None), "one run");
    }
}
