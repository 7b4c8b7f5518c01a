// SPDX-License-Identifier: GPL-2.0-only
//! What ways of touching text make each rule read and map.

pub use crate::faults::Outcome;
use crate::faults::{self, Machine, Mapped};
use crate::strategy::Strategy;
use crate::{Table, WIDEST_SHIFT};

/// A mapping of a file's text, in bytes. It starts at file offset 0 and at an
/// address that is a multiple of 2M.
#[derive(Clone, Copy)]
pub struct Text {
    /// Leaves of the machine.
    pub table: Table,
    /// Bytes of text.
    pub size: u64,
    /// Readahead window.
    pub window: u64,
}

/// Runs `touches` (byte offsets into the text) under `strategy`.
pub fn run(strategy: Strategy, text: Text, touches: &[u64]) -> Outcome {
    let mapped = Mapped {
        range: 0..text.size,
        congruent: WIDEST_SHIFT,
    };
    let machine = Machine {
        table: text.table,
        file_size: text.size,
        texts: vec![mapped],
        window: text.window,
        // The figures in results/ are of a 6.12 that does not.
        markers: false,
    };
    faults::run(strategy, &machine, touches)
}

/// A way of touching text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every 4K, first to last.
    Sweep,
    /// Single 4K pieces at random, this many per mille of the text.
    Random(u64),
    /// Whole pieces of this many bytes at random places, each swept, this many
    /// per mille of the text.
    Clusters(u64, u64),
    /// A piece of 4K every so many bytes.
    Stride(u64),
    /// Single base pages of this shift at random, this many per mille.
    Pages(u8, u64),
}

/// The touches of `pattern` in `size` bytes of text, as offsets. The same seed
/// gives the same touches.
pub fn touches(pattern: Pattern, size: u64, seed: u64) -> Vec<u64> {
    const PIECE: u64 = 4096;
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    match pattern {
        Pattern::Sweep => (0..size / PIECE).map(|piece| piece * PIECE).collect(),
        Pattern::Stride(stride) => (0..size / stride).map(|step| step * stride).collect(),
        Pattern::Random(permille) => touches(Pattern::Pages(12, permille), size, seed),
        Pattern::Pages(shift, permille) => {
            let mut pieces: Vec<u64> = (0..size >> shift).collect();
            let want = pieces.len() as u64 * permille / 1000;
            (0..want as usize)
                .map(|done| {
                    let rest = (pieces.len() - done) as u64;
                    pieces.swap(done, done + (random.next() % rest) as usize);
                    pieces[done] << shift
                })
                .collect()
        }
        Pattern::Clusters(length, permille) => (0..size / length * permille / 1000)
            .flat_map(|_| {
                let start = random.next() % ((size - length) / PIECE) * PIECE;
                (start..start + length).step_by(PIECE as usize)
            })
            .collect(),
    }
}

/// Steele, Lea and Flood's SplitMix64: touches must not change with a crate's
/// version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
