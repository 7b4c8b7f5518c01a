// SPDX-License-Identifier: GPL-2.0-only
//! Sizes the way the kernel's own messages write them: `4K`, `64K`, `2M`.

const UNITS: [(u64, char); 4] = [
    (1 << 40, 'T'),
    (1 << 30, 'G'),
    (1 << 20, 'M'),
    (1 << 10, 'K'),
];

/// Writes a leaf size in the largest unit that divides it: `65536` is `64K`.
pub fn format_size(bytes: u64) -> String {
    for (unit, letter) in UNITS {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{letter}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// Reads `4096`, `64K`, `2m`, `1G`. Returns `None` for anything else and for
/// what does not fit in 64 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let letter = text.chars().last()?.to_ascii_uppercase();
    let Some((unit, _)) = UNITS.iter().find(|(_, l)| *l == letter) else {
        return text.parse().ok();
    };
    text[..text.len() - 1]
        .parse::<u64>()
        .ok()?
        .checked_mul(*unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_survive_a_round_trip() {
        for size in [1, 4096, 16384, 65536, 2 << 20, 32 << 20, 1 << 30, 16 << 30] {
            assert_eq!(parse_size(&format_size(size)), Some(size));
        }
        assert_eq!(format_size(2 << 20), "2M");
        assert_eq!(format_size(1536 << 10), "1536K");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "K", "-4K", "4KB", "1.5M", "99999999999T"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
