// SPDX-License-Identifier: GPL-2.0-only
//! How many translations the TLBs hold, and how well a demand fits.

use serde::Serialize;
use std::collections::BTreeMap;

/// What an array translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instruction fetches only.
    Instruction,
    /// Loads and stores only.
    Data,
    /// Both; text competes with data for the entries.
    Unified,
}

/// One array of TLB entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TlbArray {
    /// 1 is closest to the core.
    pub level: u8,
    /// What it translates.
    pub role: Role,
    /// Number of entries.
    pub entries: u32,
    /// The page sizes an entry can hold, in bytes, ascending.
    pub sizes: Vec<u64>,
}

/// The TLBs of one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tlb {
    /// All arrays that are known, in the order the source lists them.
    pub arrays: Vec<TlbArray>,
    /// Where the figures come from.
    pub source: String,
}

/// Entries wanted, by leaf size in bytes.
pub type Demand = BTreeMap<u64, u64>;

impl Tlb {
    /// The last level that instruction fetches can hit, or `None` without any
    /// array for instructions.
    pub fn last_level(&self) -> Option<u8> {
        self.fetch_arrays().map(|a| a.level).max()
    }

    /// Entries that instruction fetches can use at `level`, all sizes.
    ///
    /// Arrays of one level that serve different sizes are added up: that is
    /// what the core can hold at best.
    pub fn entries(&self, level: u8) -> u32 {
        self.fetch_arrays()
            .filter(|a| a.level == level)
            .map(|a| a.entries)
            .sum()
    }

    /// How full `demand` would make the fullest array of `level`: 1.0 is just
    /// full, above it fetches must miss. `None` without an array at `level`.
    ///
    /// A leaf that no array of the level holds whole is broken into pieces of
    /// the largest size below it that one holds, as the hardware does when it
    /// fractures a leaf.
    pub fn load(&self, level: u8, demand: &Demand) -> Option<f64> {
        let arrays: Vec<&TlbArray> = self.fetch_arrays().filter(|a| a.level == level).collect();
        let mut wanted = vec![0u64; arrays.len()];
        for (&leaf, &count) in demand {
            let (index, held) = arrays
                .iter()
                .enumerate()
                .filter_map(|(i, a)| a.sizes.iter().rev().find(|s| **s <= leaf).map(|s| (i, *s)))
                .max_by_key(|(_, size)| *size)?;
            // A coalesced group lives in an entry of the base size's array.
            let pieces = if leaf < 2 << 20 || held >= leaf {
                1
            } else {
                leaf / held
            };
            wanted[index] += count * pieces;
        }
        arrays
            .iter()
            .zip(wanted)
            .map(|(a, w)| w as f64 / f64::from(a.entries.max(1)))
            .reduce(f64::max)
    }

    fn fetch_arrays(&self) -> impl Iterator<Item = &TlbArray> {
        self.arrays.iter().filter(|a| a.role != Role::Data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K4: u64 = 4 << 10;
    const M2: u64 = 2 << 20;

    fn array(level: u8, role: Role, entries: u32, sizes: &[u64]) -> TlbArray {
        TlbArray {
            level,
            role,
            entries,
            sizes: sizes.to_vec(),
        }
    }

    #[test]
    fn load_is_that_of_the_fullest_array() {
        let tlb = Tlb {
            arrays: vec![
                array(1, Role::Instruction, 128, &[K4]),
                array(1, Role::Instruction, 8, &[M2]),
                array(1, Role::Data, 64, &[K4]),
                array(2, Role::Unified, 1024, &[K4, M2]),
            ],
            source: String::new(),
        };
        let demand = Demand::from([(K4, 64), (M2, 16)]);
        assert_eq!(tlb.load(1, &demand), Some(2.0));
        assert_eq!(tlb.load(2, &demand), Some(80.0 / 1024.0));
        assert_eq!(
            (tlb.last_level(), tlb.entries(1), tlb.entries(2)),
            (Some(2), 136, 1024)
        );
        assert_eq!(tlb.load(3, &demand), None);
    }

    #[test]
    fn a_leaf_the_array_cannot_hold_is_fractured() {
        let tlb = Tlb {
            arrays: vec![array(1, Role::Unified, 1024, &[K4])],
            source: String::new(),
        };
        assert_eq!(tlb.load(1, &Demand::from([(M2, 2)])), Some(1.0));
        // Coalesced: one entry for the group of four, in the 4K array.
        assert_eq!(tlb.load(1, &Demand::from([(4 * K4, 1024)])), Some(1.0));
    }
}
