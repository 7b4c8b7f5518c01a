// SPDX-License-Identifier: GPL-2.0-only
//! Parts of both pictures: segments and runs of leaves on one axis of
//! addresses, to scale but for large holes, which are cut short.

use wideleaf_elf::{LEAF_2M, Segment, align_down, align_up};
use wideleaf_inspect::Entry;

/// How a run of whole blocks stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Leaves of this size can map it as the file is.
    Usable,
    /// They could after a repair: not congruent, or not placed for it.
    Wasted,
}

/// Adjacent whole blocks of one leaf size in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// First address.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    pub state: State,
}

/// The runs of one leaf size in all segments that leaves can map.
pub fn runs(entry: &Entry, leaf: u64) -> Vec<Blocks> {
    let loaded = entry.elf.as_loaded();
    let placement = loaded.placement(PAGE, LEAF_2M);
    // Drawn by the addresses that the file is linked to.
    let base = entry.elf.odd_base(LEAF_2M);
    let segments = loaded.segments.iter();
    segments
        .filter(|segment| !segment.write && segment.whole_blocks(leaf, PAGE) > 0)
        .map(|segment| {
            let (start, end) = segment.mapped(PAGE);
            let fit = segment.congruence().holds(leaf) && placement.holds(leaf);
            Blocks {
                start: align_up(start, leaf) + base,
                end: align_down(end, leaf) + base,
                state: if fit { State::Usable } else { State::Wasted },
            }
        })
        .collect()
}

const PAGE: u64 = 4096;
/// A hole larger than this share of all segments is cut down to it.
const HOLE: f64 = 0.04;

/// Addresses on an axis from 0 to 1.
pub struct Axis {
    pieces: Vec<Piece>,
}

/// A stretch of addresses and where it lies; holes are stretches too.
struct Piece {
    start: u64,
    end: u64,
    from: f64,
    to: f64,
    cut: bool,
}

impl Axis {
    /// An axis that holds all segments; `None` if there are none with a size.
    pub fn new(segments: &[Segment]) -> Option<Axis> {
        let mut spans: Vec<(u64, u64)> = segments
            .iter()
            .filter(|s| s.memory_size > 0)
            .map(|s| (s.address, s.address + s.memory_size))
            .collect();
        spans.sort();
        let total: f64 = spans.iter().map(|(start, end)| (end - start) as f64).sum();
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = 0.0;
        for (start, end) in spans {
            if let Some(last) = pieces.last().map(|p| p.end).filter(|last| *last < start) {
                let hole = (start - last) as f64;
                let cut = hole > HOLE * total;
                let length = if cut { HOLE * total } else { hole };
                pieces.push(Piece {
                    start: last,
                    end: start,
                    from: at,
                    to: at + length,
                    cut,
                });
                at += length;
            }
            let to = at + (end - start) as f64;
            pieces.push(Piece {
                start,
                end,
                from: at,
                to,
                cut: false,
            });
            at = to;
        }
        for piece in &mut pieces {
            piece.from /= at;
            piece.to /= at;
        }
        (at > 0.0).then_some(Axis { pieces })
    }

    /// Where an address lies; what is outside is moved to the nearest end.
    pub fn position(&self, address: u64) -> f64 {
        let piece = self.pieces.iter().find(|piece| address <= piece.end);
        let Some(piece) = piece else { return 1.0 };
        let inside = address.saturating_sub(piece.start) as f64;
        let size = (piece.end - piece.start).max(1) as f64;
        piece.from + (piece.to - piece.from) * inside / size
    }

    /// Where holes were cut short.
    pub fn cuts(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let cuts = self.pieces.iter().filter(|piece| piece.cut);
        cuts.map(|piece| (piece.from, piece.to))
    }

    /// Bytes that a part of the axis stands for where nothing was cut.
    pub fn bytes(&self, part: f64) -> u64 {
        let Some(piece) = self
            .pieces
            .iter()
            .find(|piece| !piece.cut && piece.to > piece.from)
        else {
            return 0;
        };
        ((piece.end - piece.start) as f64 * part / (piece.to - piece.from)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(address: u64, size: u64) -> Segment {
        Segment {
            address,
            memory_size: size,
            ..Segment::default()
        }
    }

    #[test]
    fn segments_are_drawn_to_scale_and_a_large_hole_is_not() {
        let segments = [segment(0x1000, 0x3000), segment(1 << 40, 0x1000)];
        let axis = Axis::new(&segments).unwrap();
        let size = |start, end| axis.position(end) - axis.position(start);
        let (large, small) = (size(0x1000, 0x4000), size(1 << 40, (1 << 40) + 0x1000));
        assert!((large / small - 3.0).abs() < 1e-9, "{large} {small}");
        assert_eq!((axis.position(0), axis.position(u64::MAX)), (0.0, 1.0));
        assert_eq!(axis.cuts().count(), 1);
        let (from, to) = axis.cuts().next().unwrap();
        assert!(to - from < 0.05, "{from} {to}");
        assert_eq!(axis.bytes(large), 0x3000);
    }

    #[test]
    fn nothing_to_draw_gives_no_axis() {
        assert!(Axis::new(&[]).is_none());
        assert!(Axis::new(&[segment(5, 0)]).is_none());
    }
}
