// SPDX-License-Identifier: GPL-2.0-only
//! The sizes that a leaf can have.
//!
//! A *leaf* is the page-table entry, or the aligned group of entries, that a
//! TLB caches as one. Sizes are held as the base-two logarithm of bytes (the
//! `shift`), counters as arrays indexed by [`index`].

/// Every leaf of arm64 (4K, 16K and 64K granule, with and without 52-bit
/// addresses) and of x86-64: shift and name, smallest first.
///
/// Arm ARM (DDI 0487) D8.3 for blocks and D8.7 for contiguous groups; Intel
/// SDM volume 3, 4.5.4 for x86-64.
pub const LEAVES: [(u8, &str); 11] = [
    (12, "4K"),
    (14, "16K"),
    (16, "64K"),
    (21, "2M"),
    (25, "32M"),
    (29, "512M"),
    (30, "1G"),
    (34, "16G"),
    (36, "64G"),
    (39, "512G"),
    (42, "4T"),
];

/// The leaves that are pages of a granule, log2 of bytes.
pub const PAGES: [u8; 3] = [12, 14, 16];

/// Index of accesses for which the walk found no translation.
pub const NONE: usize = LEAVES.len();

/// How many counters one side needs: one per leaf size and [`NONE`].
pub const COUNT: usize = LEAVES.len() + 1;

/// Index into [`LEAVES`] of a leaf of `1 << shift` bytes; [`NONE`] if no
/// architecture here has it.
pub const fn index(shift: u8) -> usize {
    let mut i = 0;
    while i < LEAVES.len() {
        if LEAVES[i].0 == shift {
            return i;
        }
        i += 1;
    }
    NONE
}

/// Name of the leaf at `index`, as in the report: `"64K"`, or `"none"`.
pub fn name(index: usize) -> &'static str {
    LEAVES.get(index).map_or("none", |l| l.1)
}

/// Name of a leaf of `1 << shift` bytes.
pub fn name_of_shift(shift: u8) -> &'static str {
    name(index(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_size() {
        for (i, (shift, name)) in LEAVES.iter().enumerate() {
            let (digits, unit) = name.split_at(name.len() - 1);
            let unit = match unit {
                "K" => 10,
                "M" => 20,
                "G" => 30,
                "T" => 40,
                other => panic!("unit {other}"),
            };
            assert_eq!(digits.parse::<u64>().unwrap() << unit, 1 << shift);
            assert_eq!(index(*shift), i);
        }
        assert_eq!(index(13), NONE);
        assert_eq!(name(NONE), "none");
    }
}
