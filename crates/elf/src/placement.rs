// SPDX-License-Identifier: GPL-2.0-only
//! Where pristine loaders put a file, modulo a leaf.

use crate::{Class, Elf, FileSystem, Kind, LEAF_2M, Segment, align_down};
use serde::Serialize;
use std::borrow::Cow;

/// The smallest page that a loader rounds addresses to.
const MIN_PAGE: u64 = 4096;

/// What decides the address a file is loaded at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The linked address, `ET_EXEC`.
    Fixed,
    /// A multiple of the largest `p_align`: Linux since 5.10 for programs,
    /// glibc since 2.35 for libraries. musl's ld.so does not look at it.
    Aligned(u64),
    /// A multiple of the PMD's size, because the mapping holds a whole such
    /// block and the file system asks mmap for that alignment
    /// (`thp_get_unmapped_area()`: ext4, XFS, Btrfs, EROFS, FUSE; not
    /// overlayfs). 64-bit only.
    ByMmap(u64),
    /// Any page.
    AnyPage(u64),
}

impl Placement {
    /// Whether the load bias is sure to be a multiple of this size.
    pub fn holds(self, leaf: u64) -> bool {
        match self {
            Placement::Fixed => true,
            Placement::Aligned(align) | Placement::ByMmap(align) | Placement::AnyPage(align) => {
                align >= leaf
            }
        }
    }
}

impl Elf {
    /// How Linux 6.12 to 7.3 and glibc place the file, given the sizes in
    /// bytes of a base page and of a PMD leaf.
    ///
    /// Both ld.so (`_dl_map_segment()`) and the kernel, for programs without
    /// interpreter, map the whole span from the first segment's offset on and
    /// let mmap choose the address, in which the file system that holds the file
    /// has a say; one that is not known is taken for one that aligns. A `p_align` above the page size ends that:
    /// they look for a larger place first, and align to `p_align` only.
    pub fn placement(&self, page: u64, pmd: u64) -> Placement {
        if self.kind == Kind::PositionDependent {
            return Placement::Fixed;
        }
        let align = self.max_align();
        if align > page {
            return Placement::Aligned(align);
        }
        let congruent = self
            .segments
            .first()
            .is_some_and(|first| first.congruence().holds(pmd));
        let aligns = self.file_system.is_none_or(|fs| fs.aligns);
        let by_mmap = self.class == Class::Bits64 && self.kind != Kind::Pie && aligns;
        if by_mmap && congruent && self.span_from(pmd) >= pmd {
            return Placement::ByMmap(pmd);
        }
        Placement::AnyPage(page)
    }

    /// The file as containers see it, through an overlay.
    pub fn on_overlay(self) -> Elf {
        Elf {
            file_system: Some(FileSystem::OVERLAY),
            ..self
        }
    }

    /// The file with the addresses that count for leaves. Kernel and ld.so put
    /// the first segment of a position-independent file at a multiple of
    /// `p_align`, whatever address it is linked to: fs/binfmt_elf.c lowers the
    /// load bias by that address, glibc aligns the place of the first mapping.
    pub fn as_loaded(&self) -> Cow<'_, Elf> {
        let base = self.odd_base(LEAF_2M);
        if base == 0 {
            return Cow::Borrowed(self);
        }
        let mut loaded = self.clone();
        for segment in &mut loaded.segments {
            segment.address = segment.address.wrapping_sub(base);
        }
        Cow::Owned(loaded)
    }

    /// The address that a position-independent file is linked to, if that is no
    /// multiple of `leaf`; else 0.
    pub fn odd_base(&self, leaf: u64) -> u64 {
        if self.kind == Kind::PositionDependent {
            return 0;
        }
        let first = self.segments.iter().map(|s| s.address).min();
        match align_down(first.unwrap_or(0), MIN_PAGE) {
            base if base.is_multiple_of(leaf) => 0,
            base => base,
        }
    }

    /// Whether the headers, which the first segment holds, are at an offset that
    /// is not congruent with their address at `leaf`: to make it so they would
    /// have to leave the start of the file.
    pub fn headers_would_move(&self, leaf: u64) -> bool {
        let first = self.segments.iter().find(|s| s.file_size > 0);
        first.is_some_and(|s| align_down(s.offset, MIN_PAGE) == 0 && s.shift() & (leaf - 1) != 0)
    }

    /// The largest `p_align`, 0 if there is none.
    pub fn max_align(&self) -> u64 {
        self.segments.iter().map(|s| s.align).max().unwrap_or(0)
    }

    /// Bytes from the first segment's start to the last one's end, all of
    /// which a loader maps at first.
    pub fn span(&self) -> u64 {
        let start = self.segments.iter().map(|s| s.address).min();
        let end = |s: &Segment| s.address + s.memory_size;
        let end = self.segments.iter().map(end).max();
        end.unwrap_or(0) - start.unwrap_or(0)
    }

    /// Bytes of the span from its first offset that is a multiple of `leaf`.
    fn span_from(&self, leaf: u64) -> u64 {
        let offset = self.segments.first().map_or(0, |first| first.offset);
        self.span()
            .saturating_sub(offset.wrapping_neg() & (leaf - 1))
    }
}
