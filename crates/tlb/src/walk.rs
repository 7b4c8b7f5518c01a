// SPDX-License-Identifier: GPL-2.0-only
//! What all page-table walkers share.

/// Guest physical memory, read while the guest may be writing it.
pub trait PhysMem {
    /// The naturally aligned little-endian 64-bit word at physical address
    /// `pa`; `None` where no RAM is (devices, flash, holes).
    fn read_u64(&self, pa: u64) -> Option<u64>;
}

/// A translation found by a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Size of the leaf, log2 of bytes. With contiguous entries, the group's.
    pub shift: u8,
    /// Size that the one descriptor maps, log2 of bytes. Equal to `shift`
    /// unless the contiguous bit counted.
    pub unit_shift: u8,
    /// Physical address that the walked virtual address translates to.
    pub pa: u64,
    /// The translation holds in every address space (arm64: nG clear; x86: G
    /// set while CR4.PGE is).
    pub global: bool,
    /// The descriptor without its output address and what only software reads: what it says of
    /// the page besides.
    pub attributes: u64,
    /// Descriptors read from memory.
    pub reads: u8,
}

/// What a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// A leaf.
    Found(Translation),
    /// No valid descriptor.
    Fault {
        /// Size of the aligned region that this fault holds for, log2 of
        /// bytes: nothing in it is mapped.
        span_shift: u8,
        /// Descriptors read from memory, the invalid one included.
        reads: u8,
    },
    /// A table lies where no RAM is known.
    Unbacked {
        /// Physical address of the descriptor that could not be read.
        pa: u64,
        /// Descriptors read before.
        reads: u8,
    },
}

impl Walk {
    /// Descriptors read from memory.
    pub fn reads(&self) -> u8 {
        match *self {
            Walk::Found(Translation { reads, .. })
            | Walk::Fault { reads, .. }
            | Walk::Unbacked { reads, .. } => reads,
        }
    }
}

/// Memory for tests: sparse 64-bit words, everything else not backed unless
/// inside a declared table, whose untouched words read as zero.
#[cfg(test)]
pub(crate) mod testmem {
    use super::PhysMem;
    use std::collections::HashMap;

    #[derive(Default)]
    pub struct Mem {
        words: HashMap<u64, u64>,
        tables: Vec<(u64, u64)>,
    }

    impl Mem {
        /// Declares a table of `len` bytes at `pa`.
        pub fn table(&mut self, pa: u64, len: u64) {
            self.tables.push((pa, len));
        }

        /// Writes descriptor `index` of the table at `pa`.
        pub fn set(&mut self, pa: u64, index: u64, value: u64) {
            self.words.insert(pa + index * 8, value);
        }
    }

    impl PhysMem for Mem {
        fn read_u64(&self, pa: u64) -> Option<u64> {
            assert_eq!(pa % 8, 0, "unaligned descriptor read at {pa:#x}");
            self.words.get(&pa).copied().or_else(|| {
                self.tables
                    .iter()
                    .any(|(t, len)| (*t..t + len).contains(&pa))
                    .then_some(0)
            })
        }
    }
}
