// SPDX-License-Identifier: GPL-2.0-only
//! What kernels would do with a file's segments, by the source of the pristine
//! bases and of the series on text.
//!
//! Assumed is a file system whose page cache holds large folios (XFS on 6.12,
//! XFS and ext4 on 7.3), its usual readahead window of 128K, enough memory, and
//! faults that touch the text densely. Counted is what a fault itself reads: on
//! 6.12 that is folios of four pages (`page_cache_ra_order()` adds 2 to order
//! 0), narrower than any wide leaf. A fault that meets the marker of an earlier
//! read brings wider ones there, as chance has it; on 7.3 text has no markers.

use serde::Serialize;
use wideleaf_elf::{Class, Elf, Kind, LEAF_2M, Machine, Placement, Segment};
use wideleaf_policy::Table;

/// A kernel, as far as text is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kernel {
    /// Linux 6.12 as Debian ships it.
    #[serde(rename = "6.12 pristine")]
    Pristine612,
    /// Linux 7.3 as Debian ships it.
    #[serde(rename = "7.3 pristine")]
    Pristine73,
    /// Both bases: the series do the same on them.
    #[serde(rename = "patched")]
    Patched,
}

impl Kernel {
    /// All of them, pristine first.
    pub const ALL: [Kernel; 3] = [Kernel::Pristine612, Kernel::Pristine73, Kernel::Patched];

    /// As tables and JSON name it.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Pristine612 => "6.12 pristine",
            Kernel::Pristine73 => "7.3 pristine",
            Kernel::Patched => "patched",
        }
    }
}

/// What one kernel with one page size does with a file.
#[derive(Clone, Debug, Serialize)]
pub struct Outlook {
    /// Which kernel.
    pub kernel: Kernel,
    /// Base page in bytes.
    pub page: u64,
    /// Where it places the file.
    pub placement: Placement,
    /// Why it does not load it; then `segments` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_loadable: Option<String>,
    /// In the order of the file's own.
    pub segments: Vec<SegmentOutlook>,
}

/// What becomes of one segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentOutlook {
    /// Bytes by leaf size once all of it is in use, widest first.
    pub coverage: Vec<Covered>,
    /// The same, up to leaves of 2M, should something else bring folios of
    /// that size: a huge tmpfs, MADV_COLLAPSE, khugepaged, readahead that has
    /// ramped up.
    pub reachable: Vec<Covered>,
}

/// Bytes that leaves of one size map. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// Of one leaf.
    pub leaf: u64,
    /// That all leaves of this size map.
    pub bytes: u64,
}

/// Base page sizes in bytes of the kernels for a machine that the lab builds
/// and whose leaves are known; empty for another machine.
pub fn page_sizes(machine: Machine) -> Vec<u64> {
    let tables = Table::all().into_iter();
    let ours = tables.filter(|table| table.arch() == machine.to_string());
    ours.map(|table| 1 << table.page_shift()).collect()
}

/// What each kernel with this page size would do with a file; empty if the
/// leaves of the machine are not known.
pub fn outlook(elf: &Elf, file_size: u64, page: u64) -> Vec<Outlook> {
    let arch = elf.machine.to_string();
    let Some(table) = Table::find(&arch, page.trailing_zeros() as u8) else {
        return Vec::new();
    };
    if elf.class == Class::Bits32 {
        return Vec::new();
    }
    let mut leaves: Vec<u64> = table.leaves().iter().map(|l| 1 << l.shift).collect();
    leaves.retain(|leaf| *leaf <= LEAF_2M);
    let file = File {
        size: file_size,
        page,
        leaves,
    };
    let not_loadable = elf.not_loadable(page);
    let loaded = elf.as_loaded();
    let one = |kernel| {
        let placement = match kernel {
            Kernel::Patched => patched_placement(elf, &file),
            _ => loaded.placement(page, pmd(page)),
        };
        let segments = match &not_loadable {
            Some(_) => &[],
            None => &loaded.segments[..],
        };
        Outlook {
            kernel,
            page,
            placement,
            not_loadable: not_loadable.clone(),
            segments: segments
                .iter()
                .map(|s| segment_outlook(kernel, elf.machine, &file, placement, s))
                .collect(),
        }
    };
    Kernel::ALL.map(one).to_vec()
}

/// A page table holds page/8 entries of 8 bytes, and a PMD leaf is as much as
/// one page table maps: 2M, 32M, 512M for 4K, 16K, 64K pages.
fn pmd(page: u64) -> u64 {
    page * (page / 8)
}

fn segment_outlook(
    kernel: Kernel,
    machine: Machine,
    file: &File,
    placement: Placement,
    segment: &Segment,
) -> SegmentOutlook {
    let File { page, leaves, .. } = file;
    let page = *page;
    let widest = |limit: u64| {
        let fits = |leaf: &&u64| {
            **leaf <= limit
                && segment.congruence().holds(**leaf)
                && placement.holds(**leaf)
                && segment.whole_blocks(**leaf, page) > 0
        };
        leaves.iter().rev().find(fits).copied().unwrap_or(page)
    };
    let reachable = match segment.write {
        true => page,
        false => widest(LEAF_2M),
    };
    let folio = match (kernel, segment.is_text()) {
        (_, false) | (Kernel::Pristine612, _) => page,
        // arch/arm64/include/asm/pgtable.h, exec_folio_order(): 64K. x86 has none.
        (Kernel::Pristine73, _) if machine == Machine::ARM64 => page.max(64 << 10),
        (Kernel::Pristine73, _) => page,
        // Dense use: a block that the mapping holds is read whole, or collapsed.
        (Kernel::Patched, _) => reachable,
    };
    SegmentOutlook {
        coverage: coverage(segment, leaves, widest(folio.min(reachable)), page),
        reachable: coverage(segment, leaves, reachable, page),
    }
}

/// Whole blocks of the widest leaf, of the next narrower one what is left,
/// down to pages.
fn coverage(segment: &Segment, leaves: &[u64], widest: u64, page: u64) -> Vec<Covered> {
    let mut coverage = Vec::new();
    let mut covered = 0;
    for leaf in leaves.iter().rev().filter(|leaf| **leaf <= widest) {
        let all = match *leaf == page {
            true => segment.mapped(page).1 - segment.mapped(page).0,
            false => segment.whole_blocks(*leaf, page) * leaf,
        };
        if all > covered {
            coverage.push(Covered {
                leaf: *leaf,
                bytes: all - covered,
            });
            covered = all;
        }
    }
    coverage
}

/// Adds up the coverage of several segments, widest leaves first.
pub fn sum<'c>(parts: impl Iterator<Item = &'c Covered>) -> Vec<Covered> {
    let mut sums = std::collections::BTreeMap::new();
    for part in parts {
        *sums.entry(part.leaf).or_insert(0) += part.bytes;
    }
    let sums = sums.into_iter().rev();
    sums.map(|(leaf, bytes)| Covered { leaf, bytes }).collect()
}

/// A file and the machine that it is mapped on. Sizes in bytes.
struct File {
    size: u64,
    /// The base page.
    page: u64,
    /// Leaves up to 2M, narrowest first: the page.
    leaves: Vec<u64>,
}

impl File {
    /// `thp_file_align()` of the series align: the widest leaf of which a part of the file holds a
    /// whole one, if its address is displaced from its offset by `shift`, modulo the leaf.
    fn align(&self, offset: u64, length: u64, shift: u64) -> Option<u64> {
        let end = offset.checked_add(length)?.min(self.size);
        let wide = self.leaves[1..].iter().rev().copied();
        wide.into_iter().find(|leaf| {
            let first = offset.checked_next_multiple_of(*leaf);
            let last = first.and_then(|first| first.checked_add(*leaf));
            shift.is_multiple_of(*leaf) && last.is_some_and(|last| last <= end)
        })
    }

    /// `thp_mmap_align()` of the series align, for as much memory as glibc's ld.so reserves for a
    /// library whose `p_align` is above a page.
    fn reserved(&self, length: u64) -> Option<u64> {
        let widest = self.leaves[1..].last().copied();
        widest.filter(|leaf| *leaf <= length)
    }
}

/// The alignment that the patched kernel gives: its ELF loader for programs,
/// its mmap for libraries and for the memory that ld.so reserves for them.
fn patched_placement(elf: &Elf, file: &File) -> Placement {
    let page = file.page;
    let pristine = elf.as_loaded().placement(page, pmd(page));
    let Some(first) = elf.segments.first() else {
        return pristine;
    };
    let size = match elf.kind {
        Kind::PositionDependent => None,
        Kind::Library if elf.max_align() > page => file.reserved(elf.span() + elf.max_align()),
        Kind::Library => file.align(first.offset & !(page - 1), elf.span(), 0),
        // exec_alignment() in fs/binfmt_elf.c: by the segments with text.
        _ => {
            let base = first.address & !(page - 1);
            let text = elf.segments.iter().filter(|s| s.is_text() && !s.write);
            let each = text.filter_map(|s| {
                let shift = s.address.wrapping_sub(base).wrapping_sub(s.offset);
                file.align(s.offset, s.file_size, shift)
            });
            each.max()
        }
    };
    match size {
        Some(size) if pristine.holds(size) => pristine,
        Some(size) if elf.kind == Kind::Library => Placement::ByMmap(size),
        Some(size) => Placement::Aligned(size),
        None => pristine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ld_so_reserves_is_aligned_if_it_holds_a_leaf() {
        let file = |leaves: &[u64]| File {
            size: 0,
            page: 4096,
            leaves: leaves.to_vec(),
        };
        let arm64 = file(&[4096, 64 << 10, LEAF_2M]);
        assert_eq!(arm64.reserved(LEAF_2M), Some(LEAF_2M));
        assert_eq!(arm64.reserved(LEAF_2M - 4096), None);
        assert_eq!(file(&[4096]).reserved(LEAF_2M), None);
    }
}
