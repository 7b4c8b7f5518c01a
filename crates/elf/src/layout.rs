// SPDX-License-Identifier: GPL-2.0-only
//! Segments, congruence and whole blocks: the arithmetic of leaves.

use serde::{Serialize, Serializer};

/// The leaf sizes in bytes that a report speaks of: contiguous PTEs of 4K
/// pages on arm64; PMD of 4K pages and contiguous PTEs of larger ones; PMD of
/// 16K pages and contiguous PMDs of 4K pages.
pub const LEAVES: [u64; 3] = [64 << 10, 2 << 20, 32 << 20];

/// A `PT_LOAD` program header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Index in the program header table.
    pub index: usize,
    /// `p_offset`: where its bytes start in the file.
    pub offset: u64,
    /// `p_vaddr`: its address, before the load bias is added.
    pub address: u64,
    /// `p_filesz`: bytes that come from the file.
    pub file_size: u64,
    /// `p_memsz`: bytes in memory; what exceeds the file's is zero-filled.
    pub memory_size: u64,
    /// `p_align`, a power of two or 0.
    pub align: u64,
    /// `PF_R`
    pub read: bool,
    /// `PF_W`
    pub write: bool,
    /// `PF_X`
    pub execute: bool,
}

/// At which leaf sizes a segment is congruent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Congruence {
    /// At this power of two and below, not above.
    Upto(u64),
    /// Address equals offset: at every size.
    Any,
}

impl Congruence {
    /// Whether a leaf of this size can map the file's folios.
    pub fn holds(self, leaf: u64) -> bool {
        match self {
            Congruence::Any => true,
            Congruence::Upto(widest) => leaf <= widest,
        }
    }
}

impl Serialize for Congruence {
    /// The widest size in bytes; null for every size.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Congruence::Any => serializer.serialize_none(),
            Congruence::Upto(widest) => serializer.serialize_u64(*widest),
        }
    }
}

/// Rounds down to a power of two.
pub fn align_down(value: u64, to: u64) -> u64 {
    value & !(to - 1)
}

/// Rounds up to a power of two; saturates at the last one in a `u64`.
pub fn align_up(value: u64, to: u64) -> u64 {
    align_down(value.saturating_add(to - 1), to)
}

impl Segment {
    /// Executable and not writable: the code that the policy is about.
    pub fn is_text(&self) -> bool {
        self.execute && !self.write && self.file_size > 0
    }

    /// Address minus offset, modulo 2^64.
    pub fn shift(&self) -> u64 {
        self.address.wrapping_sub(self.offset)
    }

    /// At which sizes the segment is congruent.
    pub fn congruence(&self) -> Congruence {
        match self.shift() {
            0 => Congruence::Any,
            shift => Congruence::Upto(shift & shift.wrapping_neg()),
        }
    }

    /// The addresses that file pages of this size are mapped at. The loader
    /// maps whole pages, so the first and the last one count in full.
    pub fn mapped(&self, page: u64) -> (u64, u64) {
        if self.file_size == 0 {
            return (self.address, self.address);
        }
        (
            align_down(self.address, page),
            align_up(self.address + self.file_size, page),
        )
    }

    /// How many whole, aligned blocks of a leaf's size lie in the mapped
    /// addresses, if the load bias is a multiple of the leaf. They can be
    /// mapped by that leaf only if the segment is also congruent.
    pub fn whole_blocks(&self, leaf: u64, page: u64) -> u64 {
        let (start, end) = self.mapped(page);
        align_down(end, leaf).saturating_sub(align_up(start, leaf)) / leaf
    }

    /// `rwx` with `-` for what is not allowed.
    pub fn flags(&self) -> String {
        [(self.read, 'r'), (self.write, 'w'), (self.execute, 'x')]
            .map(|(set, letter)| if set { letter } else { '-' })
            .iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(offset: u64, address: u64, size: u64) -> Segment {
        Segment {
            index: 0,
            offset,
            address,
            file_size: size,
            memory_size: size,
            align: 0x1000,
            read: true,
            write: false,
            execute: true,
        }
    }

    #[test]
    fn congruence_is_the_lowest_bit_in_which_address_and_offset_differ() {
        assert_eq!(text(0x1000, 0x1000, 1).congruence(), Congruence::Any);
        assert_eq!(
            text(0x1000, 0x401000, 1).congruence(),
            Congruence::Upto(0x400000)
        );
        let shifted = text(0x49625, 0x4a625, 1).congruence();
        assert_eq!(shifted, Congruence::Upto(0x1000));
        assert!(shifted.holds(0x1000) && !shifted.holds(0x2000));
        // Address below the offset: the difference wraps, its low bit stays.
        assert_eq!(
            text(0x8000, 0x1000, 1).congruence(),
            Congruence::Upto(0x1000)
        );
    }

    #[test]
    fn whole_blocks_count_the_pages_that_the_loader_maps_around_the_segment() {
        let exact = text(0, 0x200000, 0x200000);
        assert_eq!(exact.whole_blocks(2 << 20, 4096), 1);
        // Starts inside the block's first page, ends inside its last one.
        let ragged = text(0, 0x200ff0, 0x200000 - 0x1ff0 + 1);
        assert_eq!(ragged.whole_blocks(2 << 20, 4096), 1);
        // One page short at the front: none.
        assert_eq!(text(0, 0x201000, 0x200000).whole_blocks(2 << 20, 4096), 0);
        assert_eq!(text(0, 0x201000, 0x3fe000).whole_blocks(2 << 20, 4096), 0);
        assert_eq!(text(0, 0x201000, 0x3ff000).whole_blocks(2 << 20, 4096), 1);
        assert_eq!(text(0, 0x1000, 0).whole_blocks(64 << 10, 4096), 0);
    }

    #[test]
    fn the_end_of_the_address_space_does_not_overflow() {
        let top = text(0, u64::MAX - 0xfff, 0xfff);
        assert_eq!(top.whole_blocks(2 << 20, 4096), 0);
        assert_eq!(align_up(u64::MAX, 1 << 21), !((1 << 21) - 1));
    }
}
