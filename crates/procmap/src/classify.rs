// SPDX-License-Identifier: GPL-2.0-only
//! From pages in address order to folios and leaves.

use crate::coverage::{Coverage, Extent, FolioBytes, Folios, Leaf};
use crate::flags::{Flags, PageFlags};
use std::io;

/// The geometry that decides which blocks count.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// Base page size in bytes.
    pub page: u64,
    /// Bytes that a PMD maps.
    pub pmd: u64,
    /// Sizes in bytes that the CPU coalesces, widest first.
    pub coalesce: Vec<u64>,
}

/// Takes runs as they are found, in address order within a mapping.
pub type Sink<'a> = dyn FnMut(Extent) + 'a;

/// One page that is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// Virtual address / page size.
    pub virt: u64,
    /// Physical address / page size, 0 where hidden.
    pub frame: u64,
    /// Its flags; `None` where hidden.
    pub flags: Option<Flags>,
}

/// What the pages of a [`Piece`] have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Of one large folio, physically contiguous.
    Folio { anon: bool },
    /// Of one hugetlb page.
    Hugetlb,
    /// Base pages, whether or not their frames are contiguous.
    Plain,
    /// Frames or flags hidden.
    Hidden,
}

/// A stretch of pages that belong together.
#[derive(Clone, Copy, Debug)]
struct Piece {
    virt: u64,
    frame: u64,
    count: u64,
    kind: Kind,
    /// It begins with the first page of its folio.
    head: bool,
}

/// Sorts the pages of one mapping.
pub(crate) struct Classifier<'a> {
    geometry: &'a Geometry,
    flags: Option<&'a mut PageFlags>,
    sink: &'a mut Sink<'a>,
    piece: Option<Piece>,
    /// What hidden pages are mapped by: if the CPU coalesces nothing and PMDs
    /// are known, nothing but base pages is left.
    hidden: Leaf,
    coverage: Coverage,
    folios: Folios,
}

impl<'a> Classifier<'a> {
    pub(crate) fn new(
        geometry: &'a Geometry,
        flags: Option<&'a mut PageFlags>,
        sink: &'a mut Sink<'a>,
        size: u64,
    ) -> Self {
        let coverage = Coverage {
            size,
            ..Coverage::default()
        };
        Self {
            geometry,
            flags,
            sink,
            piece: None,
            hidden: Leaf::Unknown,
            coverage,
            folios: Folios::default(),
        }
    }

    /// Says whether it is sure that no PMD maps the pages to come.
    pub(crate) fn below_pmd(&mut self, sure: bool) {
        self.hidden = match sure && self.geometry.coalesce.is_empty() {
            true => Leaf::Size(self.geometry.page),
            false => Leaf::Unknown,
        };
    }

    /// The table of flags, for reading ahead.
    pub(crate) fn flags(&mut self) -> Option<&mut PageFlags> {
        self.flags.as_deref_mut()
    }

    /// Takes the next mapped page; addresses must ascend.
    pub(crate) fn page(&mut self, page: Page) -> io::Result<()> {
        let kind = match page.flags {
            None => Kind::Hidden,
            Some(f) if f.has(Flags::HUGE) => Kind::Hugetlb,
            Some(f) if f.has(Flags::THP) => Kind::Folio {
                anon: f.has(Flags::ANON),
            },
            Some(_) => Kind::Plain,
        };
        let head = page.flags.is_some_and(|f| f.has(Flags::HEAD));
        if let Some(piece) = &mut self.piece {
            let same = piece.kind == kind && page.virt == piece.virt + piece.count;
            let one_folio = matches!(kind, Kind::Plain | Kind::Hidden)
                || (!head && page.frame == piece.frame + piece.count);
            if same && one_folio {
                piece.count += 1;
                return Ok(());
            }
        }
        self.close()?;
        self.piece = Some(Piece {
            virt: page.virt,
            frame: page.frame,
            count: 1,
            kind,
            head,
        });
        Ok(())
    }

    /// Takes `count` pages from page `virt` on that PMDs map.
    pub(crate) fn pmd(&mut self, virt: u64, count: u64, anon: bool) -> io::Result<()> {
        self.close()?;
        let bytes = count * self.geometry.page;
        self.coverage.resident += bytes;
        let folios = if anon {
            &mut self.folios.anon
        } else {
            &mut self.folios.file
        };
        folios.pmd += bytes;
        self.leaf(virt, count, Leaf::Size(self.geometry.pmd));
        Ok(())
    }

    /// Ends the mapping. `smaps_pmd` are the bytes (anonymous, file) that smaps
    /// says PMDs map, for kernels that do not tell it page by page.
    pub(crate) fn finish(
        mut self,
        smaps_pmd: Option<(u64, u64)>,
    ) -> io::Result<(Coverage, Folios)> {
        self.close()?;
        if let Some((anon, file)) = smaps_pmd {
            let geometry = self.geometry;
            settle(&mut self.folios.anon, anon, geometry);
            settle(&mut self.folios.file, file, geometry);
            self.promote(anon + file);
        }
        Ok((self.coverage, self.folios))
    }

    /// Counts the piece at hand.
    fn close(&mut self) -> io::Result<()> {
        let Some(piece) = self.piece.take() else {
            return Ok(());
        };
        let page = self.geometry.page;
        self.coverage.resident += piece.count * page;
        match piece.kind {
            Kind::Plain => self.leaf(piece.virt, piece.count, Leaf::Size(page)),
            Kind::Hidden => self.leaf(piece.virt, piece.count, self.hidden),
            Kind::Hugetlb => self.hugetlb(&piece),
            Kind::Folio { anon } => {
                let whole =
                    piece.head && piece.count.is_power_of_two() && self.ends_after(&piece)?;
                let folios = if anon {
                    &mut self.folios.anon
                } else {
                    &mut self.folios.file
                };
                count_folio(folios, &piece, whole, self.geometry);
                self.carve(piece.virt, piece.frame, piece.count, 0);
            }
        }
        Ok(())
    }

    /// Whether the folio of `piece` has no page after it.
    fn ends_after(&mut self, piece: &Piece) -> io::Result<bool> {
        let Some(flags) = &mut self.flags else {
            return Ok(false);
        };
        Ok(!flags.get(piece.frame + piece.count)?.has(Flags::TAIL))
    }

    /// hugetlb always maps a page by its own leaf; a part of one (a racing
    /// unmap) is taken for base pages.
    fn hugetlb(&mut self, piece: &Piece) {
        let whole =
            piece.head && piece.count.is_power_of_two() && piece.virt.is_multiple_of(piece.count);
        let pages = if whole { piece.count } else { 1 };
        self.leaf(
            piece.virt,
            piece.count,
            Leaf::Size(pages * self.geometry.page),
        );
    }

    /// Splits a contiguous part of a folio into the widest groups that the CPU
    /// coalesces, from size number `from` on, and base pages for the rest.
    fn carve(&mut self, virt: u64, frame: u64, count: u64, from: usize) {
        for at in from..self.geometry.coalesce.len() {
            let size = self.geometry.coalesce[at];
            let group = size / self.geometry.page;
            let Some((first, last)) = blocks(virt, frame, count, group) else {
                continue;
            };
            if first > virt {
                self.carve(virt, frame, first - virt, at + 1);
            }
            self.leaf(first, last - first, Leaf::Size(size));
            if virt + count > last {
                self.carve(last, frame + (last - virt), virt + count - last, at + 1);
            }
            return;
        }
        self.leaf(virt, count, Leaf::Size(self.geometry.page));
    }

    fn leaf(&mut self, virt: u64, count: u64, leaf: Leaf) {
        let bytes = count * self.geometry.page;
        match leaf {
            Leaf::Size(size) => *self.coverage.leaves.entry(size).or_default() += bytes,
            Leaf::Unknown => self.coverage.unknown += bytes,
        }
        (self.sink)(Extent {
            start: virt * self.geometry.page,
            len: bytes,
            leaf,
        });
    }

    /// Moves `bytes` from the narrower leaves to the PMD: a PMD-mapped block
    /// was counted as what its folio allows without one.
    fn promote(&mut self, bytes: u64) {
        let mut left = bytes.min(self.coverage.resident);
        if left > 0 {
            let pmd = self.geometry.pmd;
            let below: Vec<u64> = self
                .coverage
                .leaves
                .range(..pmd)
                .rev()
                .map(|(size, _)| *size)
                .collect();
            let mut moved = 0;
            for size in below {
                let have = self.coverage.leaves.get_mut(&size).expect("listed above");
                let take = left.min(*have);
                *have -= take;
                left -= take;
                moved += take;
            }
            let unknown = left.min(self.coverage.unknown);
            self.coverage.unknown -= unknown;
            *self.coverage.leaves.entry(pmd).or_default() += moved + unknown;
            self.coverage.leaves.retain(|_, bytes| *bytes > 0);
        }
    }
}

/// The aligned blocks of `group` pages within a contiguous stretch: first page
/// of the first and last page + 1 of the last, in virtual page numbers.
fn blocks(virt: u64, frame: u64, count: u64, group: u64) -> Option<(u64, u64)> {
    if virt % group != frame % group {
        return None;
    }
    let first = virt.next_multiple_of(group);
    let last = (virt + count) / group * group;
    (first < last).then_some((first, last))
}

fn count_folio(folios: &mut FolioBytes, piece: &Piece, whole: bool, geometry: &Geometry) {
    let bytes = piece.count * geometry.page;
    if !whole {
        folios.partial += bytes;
    } else if piece.virt.is_multiple_of(piece.count) {
        *folios.aligned.entry(bytes).or_default() += bytes;
    } else {
        *folios.unaligned.entry(bytes).or_default() += bytes;
    }
    for size in &geometry.coalesce {
        if let Some((first, last)) =
            blocks(piece.virt, piece.frame, piece.count, size / geometry.page)
        {
            *folios.blocks.entry(*size).or_default() += (last - first) * geometry.page;
        }
    }
}

/// Takes what PMDs map out of the figures for PTEs, as thpmaps does. The two
/// were read at different times, hence no underflow.
fn settle(folios: &mut FolioBytes, pmd: u64, geometry: &Geometry) {
    folios.pmd += pmd;
    let whole = folios.aligned.get_mut(&geometry.pmd);
    for bytes in whole.into_iter().chain(folios.blocks.values_mut()) {
        *bytes = bytes.saturating_sub(pmd);
    }
    folios.aligned.retain(|_, bytes| *bytes > 0);
    folios.blocks.retain(|_, bytes| *bytes > 0);
}
