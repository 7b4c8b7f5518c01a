// SPDX-License-Identifier: GPL-2.0-only
//! Which aligned groups of page-table entries a CPU caches as one.

use serde::Serialize;
use wideleaf_kit::arch::Arch;
use wideleaf_kit::size::short;

/// Leaf sizes between the base page and the PMD that a CPU can cache as one
/// TLB entry, and why that is believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coalesce {
    /// Sizes in bytes, widest first; empty where the CPU coalesces nothing.
    pub sizes: Vec<u64>,
    /// The reason, one sentence for a human.
    pub why: String,
}

impl Coalesce {
    /// A CPU of which no coalescing is known.
    pub fn none(why: &str) -> Self {
        Self {
            sizes: Vec::new(),
            why: why.to_owned(),
        }
    }

    /// The contiguous bit of AArch64 (Arm ARM, DDI 0487, D8.7.1 "The
    /// Contiguous bit"): the level 3 group is 16 entries with a 4K granule,
    /// 128 with 16K and 32 with 64K. Linux sets the bit for an aligned block
    /// that lies in one folio (contpte, since 6.9).
    pub fn contpte(page_size: u64) -> Self {
        let entries = match page_size {
            0x1000 => 16,
            0x4000 => 128,
            0x10000 => 32,
            _ => return Self::none("no contiguous group is defined for this page size"),
        };
        let size = page_size * entries;
        Self {
            sizes: vec![size],
            why: format!(
                "contiguous bit: {entries} entries of {} make one of {} where the kernel folds them (contpte, Linux 6.9 and later)",
                short(page_size),
                short(size)
            ),
        }
    }

    /// AMD's PTE coalescing: aligned, physically contiguous entries with equal
    /// attributes, fetched in one 64-byte line, are cached as one.
    ///
    /// CPUID does not enumerate it. That it is at 16K or 32K is what was said on
    /// linux-mm when exec_folio_order() was reviewed (2025); that family 17h
    /// reaches 32K and the later ones 16K was not checked in AMD's guides.
    pub fn amd(family: u16) -> Self {
        match family {
            0x17 | 0x18 => Self {
                sizes: vec![32 << 10, 16 << 10],
                why: "AMD family 17h/18h: aligned, physically contiguous groups of 8 or 4 entries (32K, 16K); \
                      as reported on linux-mm, CPUID does not tell"
                    .to_owned(),
            },
            0x19.. => Self {
                sizes: vec![16 << 10],
                why: format!(
                    "AMD family {family:X}h: aligned, physically contiguous groups of 4 entries (16K); \
                     as reported on linux-mm, CPUID does not tell"
                ),
            },
            _ => Self::none("AMD before family 17h (Zen) caches each entry by itself"),
        }
    }

    /// What any CPU of an architecture can be expected to do.
    pub fn generic(arch: Option<Arch>, page_size: u64) -> Self {
        match arch {
            Some(Arch::Arm64) => Self::contpte(page_size),
            Some(Arch::X86_64) => {
                Self::none("no coalescing below 2M is documented for this x86 CPU")
            }
            None => Self::none("nothing known about coalescing on this architecture"),
        }
    }

    /// Sizes given by the user, put in order. `None` unless each is a power
    /// of two of at least two base pages.
    pub fn given(mut sizes: Vec<u64>, page_size: u64) -> Option<Self> {
        if sizes
            .iter()
            .any(|s| !s.is_power_of_two() || *s < 2 * page_size)
        {
            return None;
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        Some(Self {
            sizes,
            why: "sizes given on the command line".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contpte_follows_the_granule() {
        assert_eq!(Coalesce::contpte(4 << 10).sizes, [64 << 10]);
        assert_eq!(Coalesce::contpte(16 << 10).sizes, [2 << 20]);
        assert_eq!(Coalesce::contpte(64 << 10).sizes, [2 << 20]);
        assert!(Coalesce::contpte(8 << 10).sizes.is_empty());
    }

    #[test]
    fn zen_coalesces_and_bulldozer_does_not() {
        assert!(Coalesce::amd(0x15).sizes.is_empty());
        assert_eq!(Coalesce::amd(0x17).sizes, [32 << 10, 16 << 10]);
        assert_eq!(Coalesce::amd(0x1a).sizes, [16 << 10]);
    }

    #[test]
    fn given_sizes_must_be_groups_of_pages() {
        assert_eq!(
            Coalesce::given(vec![16384, 65536, 16384], 4096)
                .unwrap()
                .sizes,
            [65536, 16384]
        );
        assert!(Coalesce::given(vec![4096], 4096).is_none());
        assert!(Coalesce::given(vec![24576], 4096).is_none());
    }
}
