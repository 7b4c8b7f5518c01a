// SPDX-License-Identifier: GPL-2.0-only
//! Counts as people read them.

/// Three significant digits and a decimal prefix: `8.65` and `M`; below 10 000 all digits and none.
#[must_use]
pub fn rounded(value: u64) -> (String, &'static str) {
    const PREFIXES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    if value < 10_000 {
        return (value.to_string(), "");
    }
    let value = value as f64;
    // A value that rounds to 1000 of one prefix is 1 of the next.
    let fits = |(unit, _): &&(f64, &str)| value >= unit * 0.9995;
    let (unit, prefix) = PREFIXES.iter().find(fits).unwrap_or(&PREFIXES[3]);
    (significant(value / unit), prefix)
}

/// Three significant digits, and four behind the point at most.
#[must_use]
pub fn significant(value: f64) -> String {
    let digits = match value {
        0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.995 => 2,
        v if v >= 0.0995 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        let text = |value| {
            let (digits, prefix) = rounded(value);
            digits + prefix
        };
        assert_eq!(text(9_999), "9999");
        assert_eq!(text(10_000), "10.0k");
        assert_eq!(text(999_499), "999k");
        assert_eq!(text(999_600), "1.00M");
        assert_eq!(text(3_258_410_633), "3.26G");
        assert_eq!(significant(0.05), "0.0500");
    }
}
