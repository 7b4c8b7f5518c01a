// SPDX-License-Identifier: GPL-2.0-only
//! Sizes as people write them: `64K`, `2M`, `512MiB`, `4096`. Binary units throughout.

use parse_size::{ByteSuffix, Config};

/// Reads a size in bytes. `K`, `M`, `G`, `T`, with or without `B` or `iB`, are powers of 1024.
///
/// # Errors
///
/// A sentence naming the value and what would be right.
pub fn parse(text: &str) -> Result<u64, String> {
    Config::new()
        .with_binary()
        .with_byte_suffix(ByteSuffix::Allow)
        .parse_size(text)
        .map_err(|e| format!("`{text}` is not a size ({e}); write for example 64K, 512M or 4096"))
}

/// The shortest exact form, in the vocabulary of leaf sizes: `64K`, `512M`, `1536K`, `100`.
#[must_use]
pub fn short(bytes: u64) -> String {
    let (value, unit) = scale(bytes);
    format!("{value}{unit}")
}

/// The same for prose: `64 KiB`, `512 MiB`, `100 bytes`.
#[must_use]
pub fn long(bytes: u64) -> String {
    match scale(bytes) {
        (value, "") => format!("{value} bytes"),
        (value, unit) => format!("{value} {unit}iB"),
    }
}

/// An amount as lsblk writes it (`16.5M`), or as it is. Rounded, unlike [`short`], which is for
/// sizes that are names.
#[must_use]
pub fn bytes(value: u64, exact: bool) -> String {
    if exact || value == 0 {
        return value.to_string();
    }
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let mut unit = 0;
    let mut scaled = value as f64;
    while scaled >= 1023.95 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let text = format!("{scaled:.1}");
    format!(
        "{}{}",
        text.strip_suffix(".0").unwrap_or(&text),
        units[unit]
    )
}

/// Divides by 1024 as long as nothing is lost.
fn scale(bytes: u64) -> (u64, &'static str) {
    let mut value = bytes;
    let mut units = ["", "K", "M", "G", "T"].into_iter();
    let mut unit = "";
    for next in units.by_ref() {
        unit = next;
        if value == 0 || !value.is_multiple_of(1024) || next == "T" {
            break;
        }
        value /= 1024;
    }
    (value, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_binary() {
        assert_eq!(parse("64K"), Ok(65_536));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("512MiB"), Ok(512 << 20));
        assert_eq!(parse("2mb"), Ok(2 << 20));
        assert_eq!(parse("4096"), Ok(4096));
    }

    #[test]
    fn an_error_names_the_value_and_a_right_one() {
        for bad in ["", "K", "12Q", "-1", "-4K", "a lot", "99999999999T"] {
            let error = parse(bad).unwrap_err();
            assert!(
                error.contains(&format!("`{bad}`")) && error.contains("64K"),
                "{error}"
            );
        }
    }

    #[test]
    fn amounts_for_people_and_for_programs() {
        assert_eq!(bytes(0, false), "0");
        assert_eq!(bytes(4096, false), "4K");
        assert_eq!(bytes(17_301_504, false), "16.5M");
        assert_eq!(bytes((1 << 20) - 1, false), "1M");
        assert_eq!(bytes(17_301_504, true), "17301504");
    }

    #[test]
    fn printing_loses_nothing() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (16, "16"),
            (100, "100"),
            (4096, "4K"),
            (65_536, "64K"),
            (1536 * 1024, "1536K"),
            ((1 << 20) + 1024, "1025K"),
            (2 << 20, "2M"),
            (32 << 20, "32M"),
            (512 << 20, "512M"),
            (1 << 30, "1G"),
            (16 << 30, "16G"),
            (3 << 50, "3072T"),
        ] {
            assert_eq!(short(bytes), text);
            assert_eq!(parse(text), Ok(bytes));
        }
        assert_eq!(long(512 << 20), "512 MiB");
        assert_eq!(long(100), "100 bytes");
    }
}
