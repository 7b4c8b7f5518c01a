// SPDX-License-Identifier: GPL-2.0-only
//! What kernels would do with a file's segments: the pristine bases by their
//! source, the patched ones by asking the policy core that they run.
//!
//! Assumed is a file system whose page cache holds large folios (XFS on 6.12,
//! XFS and ext4 on 7.3), its usual readahead window of 128K, enough memory, and
//! faults that touch the text densely. Counted is what a fault itself reads: on
//! 6.12 that is folios of four pages (`page_cache_ra_order()` adds 2 to order
//! 0), narrower than any wide leaf. A fault that meets the marker of an earlier
//! read brings wider ones there, as chance has it; on 7.3 text has no markers.

use serde::Serialize;
use wideleaf_elf::{Class, Elf, Kind, LEAF_2M, Machine, Placement, Segment};
use wideleaf_policy::{Account, Advice, Align, Ground, Read, SCAN, Table, Thp};

/// A kernel, as far as text is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kernel {
    /// Linux 6.12 as Debian ships it.
    #[serde(rename = "6.12 pristine")]
    Pristine612,
    /// Linux 7.3 as Debian ships it.
    #[serde(rename = "7.3 pristine")]
    Pristine73,
    /// Both bases: the policy is the same.
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
/// and the policy has a table for; empty if it knows nothing of the machine.
pub fn page_sizes(machine: Machine) -> Vec<u64> {
    let tables = Table::all().into_iter();
    let ours = tables.filter(|table| table.arch() == machine.to_string());
    ours.map(|table| 1 << table.page_shift()).collect()
}

/// What each kernel with this page size would do with a file; empty if the
/// policy has no table for it.
pub fn outlook(elf: &Elf, file_size: u64, page: u64) -> Vec<Outlook> {
    let arch = elf.machine.to_string();
    let Some(table) = Table::find(&arch, page.trailing_zeros() as u8) else {
        return Vec::new();
    };
    if elf.class == Class::Bits32 {
        return Vec::new();
    }
    let ground = Ground {
        table,
        file_size,
        min_order: 0,
        max_order: (LEAF_2M / page).trailing_zeros() as u8,
        thp: Thp::Always,
        enabled: true,
    };
    let not_loadable = elf.not_loadable(page);
    let loaded = elf.as_loaded();
    let one = |kernel| {
        let placement = match kernel {
            Kernel::Patched => patched_placement(elf, &ground, page),
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
                .map(|s| segment_outlook(kernel, elf.machine, &ground, placement, s, page))
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
    ground: &Ground,
    placement: Placement,
    segment: &Segment,
    page: u64,
) -> SegmentOutlook {
    let mut leaves: Vec<u64> = ground.table.leaves().iter().map(|l| 1 << l.shift).collect();
    leaves.retain(|leaf| *leaf <= LEAF_2M);
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
        (Kernel::Patched, _) => patched_leaf(ground, segment, reachable, page),
    };
    SegmentOutlook {
        coverage: coverage(segment, &leaves, widest(folio.min(reachable)), page),
        reachable: coverage(segment, &leaves, reachable, page),
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

/// The alignment that the patched kernel gives: its ELF loader for programs,
/// its mmap for libraries that do not ask for one themselves.
fn patched_placement(elf: &Elf, ground: &Ground, page: u64) -> Placement {
    let pristine = elf.as_loaded().placement(page, pmd(page));
    let Some(first) = elf.segments.first() else {
        return pristine;
    };
    let align = Align {
        ground: *ground,
        offset: first.offset,
        length: elf.span(),
        space: 1 << 47,
    };
    let answer = match elf.kind {
        Kind::PositionDependent => return pristine,
        Kind::Library if elf.max_align() > page => return pristine,
        Kind::Library => wideleaf_policy::align(&align),
        _ => {
            let segments: Vec<_> = elf.segments.iter().map(policy_segment).collect();
            wideleaf_policy::align_elf(&align, &segments)
        }
    };
    let size = 1 << answer.shift;
    match pristine.holds(size) {
        true => pristine,
        false if elf.kind == Kind::Library => Placement::ByMmap(size),
        false => Placement::Aligned(size),
    }
}

fn policy_segment(segment: &Segment) -> wideleaf_policy::Segment {
    wideleaf_policy::Segment {
        vaddr: segment.address,
        offset: segment.offset,
        filesz: segment.file_size,
        writable: segment.write,
    }
}

/// The leaf that the policy reads in the middle of dense use: everything
/// before the fault is resident and has proven useful, nothing after it is.
fn patched_leaf(ground: &Ground, segment: &Segment, reachable: u64, page: u64) -> u64 {
    let (start, end) = segment.mapped(page);
    let fault = wideleaf_elf::align_up(start, reachable);
    let read = Read {
        ground: *ground,
        start,
        end,
        offset: segment.offset & !(page - 1),
        fault,
        window: 128 << 10,
        spare: 1 << 40,
        hole: 0,
        run: SCAN,
        gap: SCAN,
        last_size: 0,
        collapse: 0,
        filled: 0,
        evicted: false,
        advice: Advice::None,
        account: Account::default(),
    };
    1 << wideleaf_policy::read(&read).leaf
}
