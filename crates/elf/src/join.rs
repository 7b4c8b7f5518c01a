// SPDX-License-Identifier: GPL-2.0-only
//! Code and the constants beside it as one segment: what linking with noseparate-code makes, found
//! in a linked file.

use crate::{Elf, LEAF_2M, Segment, align_down, align_up};
use serde::Serialize;

/// The smallest page that a loader rounds segments to.
const PAGE: u64 = 4096;

/// Neighbouring segments that could be one, and what that gives and costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Join {
    /// Their program header indices, in order of address.
    pub segments: Vec<usize>,
    /// Bytes of constants that could be executed then.
    pub constants: u64,
    /// Bytes of whole pages between them that would be mapped then, and executable.
    pub between: u64,
    /// Bytes in whole blocks that hold code, beyond those that code has by itself.
    pub gain: u64,
}

impl Join {
    /// The segments as one.
    pub fn joined(&self, elf: &Elf) -> Option<Segment> {
        let of = |index: &usize| elf.segments.iter().find(|s| s.index == *index);
        let (first, last) = (of(self.segments.first()?)?, of(self.segments.last()?)?);
        let size = (last.address + last.file_size).checked_sub(first.address)?;
        Some(Segment {
            file_size: size,
            memory_size: size,
            read: true,
            execute: true,
            ..first.clone()
        })
    }
}

/// The neighbours of code whose joining gives most whole blocks of `leaf` bytes, and of those the
/// ones with the fewest constants. `None` if none gives any.
///
/// Neighbours are read-only, lie one behind the other in the file as in memory, and come from the
/// file to their last byte.
pub fn join(elf: &Elf, leaf: u64) -> Option<Join> {
    if elf.packer.is_some() || elf.odd_base(leaf.max(LEAF_2M)) != 0 {
        return None;
    }
    let mut sorted: Vec<&Segment> = elf.segments.iter().filter(|s| s.memory_size > 0).collect();
    sorted.sort_by_key(|s| s.address);
    let mut best: Option<Join> = None;
    for first in 0..sorted.len() {
        for last in first + 1..sorted.len() {
            if !follows(sorted[last - 1], sorted[last], leaf) {
                break;
            }
            let found = account(&sorted[first..=last], leaf);
            if found.gain > 0 && best.as_ref().is_none_or(|best| is_better(&found, best)) {
                best = Some(found);
            }
        }
    }
    best
}

fn is_better(one: &Join, other: &Join) -> bool {
    let rank = |join: &Join| (join.gain, std::cmp::Reverse(join.constants));
    rank(one) > rank(other)
}

fn follows(before: &Segment, after: &Segment, leaf: u64) -> bool {
    let fits =
        |s: &Segment| !s.write && s.file_size == s.memory_size && s.shift().is_multiple_of(PAGE);
    // More than a block between them is no padding.
    let gap = after.address - (before.address + before.memory_size);
    fits(before) && fits(after) && before.shift() == after.shift() && gap <= leaf
}

fn account(segments: &[&Segment], leaf: u64) -> Join {
    let (start, end) = (
        segments[0].mapped(PAGE).0,
        segments[segments.len() - 1].mapped(PAGE).1,
    );
    let (first, last) = (align_up(start, leaf), align_down(end, leaf));
    let texts = segments.iter().filter(|s| s.is_text());
    let (mut next, mut bytes, mut own) = (first, 0, 0);
    for text in texts {
        let from = align_down(text.address, leaf).max(next);
        let to = align_up(text.address + text.file_size, leaf).min(last);
        if from < to {
            bytes += to - from;
            next = to;
        }
        own += text.whole_blocks(leaf, PAGE) * leaf;
    }
    let gaps = segments.windows(2).map(|pair| {
        let (end, start) = (pair[0].mapped(PAGE).1, pair[1].mapped(PAGE).0);
        start.saturating_sub(end)
    });
    let constants = segments.iter().filter(|s| !s.execute);
    Join {
        segments: segments.iter().map(|s| s.index).collect(),
        constants: constants.map(|s| s.file_size).sum(),
        between: gaps.sum(),
        gain: bytes.saturating_sub(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Machine, samples};

    const M: u64 = 1 << 20;

    fn segment(index: usize, flags: &str, address: u64, size: u64) -> Segment {
        samples::segment(index, flags, address, address, size)
    }

    fn elf(segments: Vec<Segment>) -> Elf {
        samples::elf(Machine::X86_64, Kind::Library, segments)
    }

    /// The layout of Debian's python3.11, libcrypto.so.3 and perl.
    #[test]
    fn what_debian_links_with_separate_code_gains_blocks_that_hold_code() {
        let python = elf(vec![
            segment(2, "r", 0x40_0000, 0x1_e3e8),
            segment(3, "x", 0x41_f000, 0x2b_2289),
            segment(4, "r", 0x6d_2000, 0x27_2968),
            segment(5, "w", 0x94_5dc8, 0x13_e4b0),
        ]);
        let join = join(&python, LEAF_2M).unwrap();
        assert_eq!(join.segments, [2, 3, 4]);
        assert_eq!((join.gain, join.between), (4 * M, 0));
        assert_eq!(join.constants, 0x1_e3e8 + 0x27_2968);
        let one = join.joined(&python).unwrap();
        assert_eq!((one.address, one.file_size), (0x40_0000, 0x54_4968));
        assert_eq!(one.flags(), "r-x");
        let perl = elf(vec![
            segment(2, "r", 0, 0x4_8a40),
            segment(3, "x", 0x4_9000, 0x19_41a5),
            segment(4, "r", 0x1d_e000, 0x1b_08e8),
        ]);
        assert_eq!(super::join(&perl, LEAF_2M).unwrap().gain, 2 * M);
    }

    #[test]
    fn constants_that_give_no_block_are_not_made_executable() {
        // The head completes the first block; the tail ends before another one.
        let file = elf(vec![
            segment(1, "r", 0, 0x1000),
            segment(2, "x", 0x1000, 0x1f_f000),
            segment(3, "r", 0x20_0000, 0x1000),
        ]);
        assert_eq!(join(&file, LEAF_2M).unwrap().segments, [1, 2]);
        // Code that has its blocks already, and constants with blocks of their own.
        let file = elf(vec![
            segment(1, "x", 0, 2 * M),
            segment(2, "r", 2 * M, 8 * M),
        ]);
        assert_eq!(join(&file, LEAF_2M), None);
    }

    #[test]
    fn only_neighbours_in_file_and_memory_are_joined() {
        let head = segment(1, "r", 0, 0x1000);
        let tail = segment(2, "x", 0x2000, 2 * M);
        let both = |head: Segment, tail: Segment| join(&elf(vec![head, tail]), LEAF_2M);
        let found = both(head.clone(), tail.clone()).unwrap();
        assert_eq!((found.between, found.gain), (0x1000, 2 * M));
        let moved = Segment {
            offset: 0x1000,
            ..tail.clone()
        };
        assert_eq!(both(head.clone(), moved), None, "another distance");
        let written = Segment {
            write: true,
            ..head.clone()
        };
        assert_eq!(both(written, tail.clone()), None);
        let zeroes = Segment {
            memory_size: 0x1800,
            ..head.clone()
        };
        assert_eq!(both(zeroes, tail.clone()), None, "would lose its zeroes");
        let far = segment(2, "x", 4 * M - 0x1000, 2 * M);
        assert_eq!(both(head, far), None, "that is no padding");
    }
}
