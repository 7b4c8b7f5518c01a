// SPDX-License-Identifier: GPL-2.0-only
//! Names the cause: why a segment's text can or cannot be mapped by wide
//! leaves, as far as the file decides it. Whether the page cache then holds
//! folios of that size is the kernel's part.

use crate::{Congruence, Elf, Kind, LEAF_2M, LEAVES, LinkerName, Placement, Segment};
use serde::Serialize;

/// The base page that counting starts from: the smallest that a loader rounds
/// segments to.
const PAGE: u64 = 4096;
/// Code smaller than this needs so few entries that a leaf shared with
/// constants saves none worth having: sixteen pages of 4K.
const MIN_JOINED: u64 = 64 << 10;

/// Why a segment is, or is not, fit for the widest leaf it could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Nothing stands in the way.
    Good,
    /// Nothing stands in the way where the file system aligns mmap.
    GoodByMmap,
    /// Congruent, but loaded at any page: max-page-size was too small.
    MaxPageSize,
    /// lld and mold move each segment's address up by a page against its
    /// offset, so that no page of the file is mapped with two permissions.
    PageShift,
    /// The base of a position-dependent program is no multiple of the leaf.
    Base,
    /// Address and offset differ for another reason.
    NotCongruent,
    /// Large enough, but no whole block lies at its addresses.
    Straddles,
    /// Too small alone; with the constants that separate-code keeps apart it
    /// would fill a block.
    SeparateCode,
    /// No leaf wider than a page fits.
    TooSmall,
    /// Private writable pages are copied one by one on write.
    Writable,
    /// Nothing of it comes from the file.
    ZeroFilled,
    /// Address and offset differ within a page: mmap refuses it.
    OffPage,
    /// A compressed program, unpacked into private memory when it starts.
    Packed,
}

impl Cause {
    /// A few words for a table.
    pub fn label(self) -> &'static str {
        match self {
            Cause::Good => "good",
            Cause::GoodByMmap => "good (mmap)",
            Cause::MaxPageSize => "max-page-size",
            Cause::PageShift => "page shift",
            Cause::Base => "base",
            Cause::NotCongruent => "not congruent",
            Cause::Straddles => "straddles",
            Cause::SeparateCode => "separate-code",
            Cause::TooSmall => "too small",
            Cause::Writable => "writable",
            Cause::ZeroFilled => "zero-filled",
            Cause::OffPage => "off page",
            Cause::Packed => "packed",
        }
    }
}

/// What the file allows for one segment.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Position in [`Elf::segments`].
    pub position: usize,
    /// The leaf in bytes that the cause speaks of: the widest, up to 2M, that
    /// the segment is large enough for; 0 if none.
    pub target: u64,
    /// Why (not).
    pub cause: Cause,
    /// At which sizes it is congruent.
    pub congruent: Congruence,
    /// Whole blocks of each size of [`LEAVES`] at its congruent place.
    pub blocks: [u64; 3],
    /// How pristine kernels with 4K pages place the file.
    pub placement: Placement,
    /// Bytes in whole 2M blocks that leaves of 2M can map as the file is.
    pub usable: u64,
    /// Bytes that 2M leaves could map if the file were repaired.
    pub possible: u64,
}

/// The verdict on a file: its segments and their sums over the text.
#[derive(Clone, Debug, Serialize)]
pub struct FileVerdict {
    /// One for each segment, in order.
    pub segments: Vec<Verdict>,
    /// Bytes of text (executable, not writable, from the file); 0 if that is
    /// packed.
    pub text: u64,
    /// Bytes of text that 2M leaves can map as the file is.
    pub usable: u64,
    /// Bytes of text that 2M leaves could map in addition after a repair.
    pub gain: u64,
    /// Position of the text segment that decides: the one with most to gain,
    /// else the largest.
    pub main: Option<usize>,
}

impl FileVerdict {
    /// The verdict on the deciding text segment.
    pub fn main(&self) -> Option<&Verdict> {
        self.segments.get(self.main?)
    }
}

/// Judges every segment of a file.
pub fn judge(elf: &Elf) -> FileVerdict {
    let elf = &*elf.as_loaded();
    let segments: Vec<Verdict> = (0..elf.segments.len())
        .map(|position| judge_segment(elf, position))
        .collect();
    let text = |v: &&Verdict| elf.segments[v.position].is_text();
    let main = segments.iter().filter(text).max_by_key(|v| {
        let gain = v.possible - v.usable;
        // Ties go to the first.
        let first = std::cmp::Reverse(v.position);
        (gain, elf.segments[v.position].file_size, first)
    });
    let main = main.map(|v| v.position);
    let sum = |value: &dyn Fn(&Verdict) -> u64| {
        let values = segments.iter().filter(text).map(value);
        values.fold(0, u64::saturating_add)
    };
    FileVerdict {
        text: match elf.packer {
            Some(_) => 0,
            None => sum(&|v| elf.segments[v.position].file_size),
        },
        usable: sum(&|v| v.usable),
        gain: sum(&|v| v.possible - v.usable),
        main,
        segments,
    }
}

fn judge_segment(elf: &Elf, position: usize) -> Verdict {
    let segment = &elf.segments[position];
    let target = target(elf, segment);
    let joined = joined_bytes(elf, position);
    let cause = cause(elf, segment, target, joined);
    let (start, end) = segment.mapped(PAGE);
    let at_place = segment.whole_blocks(LEAF_2M, PAGE) * LEAF_2M;
    let placement = elf.placement(PAGE, LEAF_2M);
    let fit = segment.congruence().holds(LEAF_2M) && placement.holds(LEAF_2M);
    let usable = match cause {
        Cause::Writable | Cause::OffPage | Cause::Packed => 0,
        _ if fit => at_place,
        _ => 0,
    };
    let possible = match cause {
        Cause::Writable | Cause::OffPage | Cause::Packed => 0,
        Cause::Straddles if target == LEAF_2M => (end - start) / LEAF_2M * LEAF_2M,
        Cause::SeparateCode => joined,
        _ => at_place,
    };
    Verdict {
        position,
        target,
        cause,
        congruent: segment.congruence(),
        blocks: LEAVES.map(|leaf| segment.whole_blocks(leaf, PAGE)),
        placement,
        usable,
        possible,
    }
}

/// The widest leaf up to 2M of which the segment has room for one.
fn target(elf: &Elf, segment: &Segment) -> u64 {
    let (start, end) = segment.mapped(PAGE);
    [LEAF_2M, elf.machine.narrowest_wide_leaf()]
        .into_iter()
        .find(|leaf| end - start >= *leaf)
        .unwrap_or(0)
}

fn cause(elf: &Elf, segment: &Segment, target: u64, joined: u64) -> Cause {
    if segment.file_size == 0 {
        return Cause::ZeroFilled;
    }
    if segment.write {
        return Cause::Writable;
    }
    if !segment.shift().is_multiple_of(PAGE) {
        return Cause::OffPage;
    }
    if elf.packer.is_some() {
        return Cause::Packed;
    }
    if target < LEAF_2M && joined > 0 {
        return Cause::SeparateCode;
    }
    if target == 0 {
        return Cause::TooSmall;
    }
    if segment.whole_blocks(target, PAGE) == 0 {
        return Cause::Straddles;
    }
    if !segment.congruence().holds(target) {
        return not_congruent(elf, segment);
    }
    match elf.placement(PAGE, LEAF_2M) {
        placement if !placement.holds(target) => Cause::MaxPageSize,
        Placement::ByMmap(_) => Cause::GoodByMmap,
        _ => Cause::Good,
    }
}

fn not_congruent(elf: &Elf, segment: &Segment) -> Cause {
    let Some(first) = elf.segments.first() else {
        return Cause::NotCongruent;
    };
    let moved = segment.shift() != first.shift();
    // Only what starts with the file's first byte is where the base puts it.
    if elf.kind == Kind::PositionDependent && !moved && first.offset == 0 {
        return Cause::Base;
    }
    match elf.linker.name {
        LinkerName::Lld | LinkerName::Mold if moved => Cause::PageShift,
        _ => Cause::NotCongruent,
    }
}

/// Bytes of a text segment that 2M leaves could map if it were one segment
/// with its read-only neighbours, as without separate-code. 0 if it is not
/// text or has none.
fn joined_bytes(elf: &Elf, position: usize) -> u64 {
    let segment = &elf.segments[position];
    let read_only = |s: &&Segment| !s.write && s.file_size > 0;
    if !segment.is_text() || segment.file_size < MIN_JOINED {
        return 0;
    }
    let size = |s: &Segment| s.file_size;
    let (head, tail) = elf.segments.split_at(position);
    let before = head.iter().rev().take_while(read_only).map(size);
    let before = before.fold(0, u64::saturating_add);
    let after = tail[1..].iter().take_while(read_only).map(size);
    let after = after.fold(0, u64::saturating_add);
    if before == 0 && after == 0 {
        return 0;
    }
    let end = before.saturating_add(segment.file_size);
    let whole = end.saturating_add(after) / LEAF_2M * LEAF_2M;
    end.min(whole) - before.min(whole)
}
