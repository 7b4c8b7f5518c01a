// SPDX-License-Identifier: GPL-2.0-only
//! Whether a kernel with a given base page can load a file at all.

use crate::{Elf, Kind, Segment, align_down, align_up};
use wideleaf_kit::size::short;

impl Elf {
    /// Why a kernel with base pages of `page` bytes, or its ld.so, does not
    /// load the file; `None` if it does.
    pub fn not_loadable(&self, page: u64) -> Option<String> {
        let loaded: Vec<&Segment> = self.segments.iter().filter(|s| s.memory_size > 0).collect();
        // fs/binfmt_elf.c, elf_map(): mmap takes offsets of whole pages only.
        if let Some(s) = loaded
            .iter()
            .find(|s| s.file_size > 0 && !s.shift().is_multiple_of(page))
        {
            return Some(format!(
                "segment {}: address {:#x} and offset {:#x} differ within a page of {}, which mmap refuses",
                s.index,
                s.address,
                s.offset,
                short(page)
            ));
        }
        // glibc, elf/dl-load.c: "ELF load command alignment not page-aligned".
        if self.kind == Kind::Library
            && !self.dynamic
            && let Some(s) = loaded.iter().find(|s| s.align < page)
        {
            return Some(format!(
                "segment {}: p_align {} is below a page of {}, which ld.so refuses",
                s.index,
                short(s.align),
                short(page)
            ));
        }
        let mut sorted = loaded;
        sorted.sort_by_key(|s| s.address);
        sorted
            .windows(2)
            .find_map(|pair| clash(pair[0], pair[1], page))
    }

    /// The base page sizes of `pages`, in bytes, whose kernels cannot load the
    /// file, with the reason of the first; `None` if all can.
    pub fn not_loadable_with(&self, pages: &[u64]) -> Option<(Vec<u64>, String)> {
        let mut refused = pages
            .iter()
            .filter_map(|page| Some((*page, self.not_loadable(*page)?)));
        let (first, reason) = refused.next()?;
        let sizes = std::iter::once(first)
            .chain(refused.map(|(page, _)| page))
            .collect();
        Some((sizes, reason))
    }
}

/// Segments that share a page: the later mapping takes the place of the
/// earlier one (MAP_FIXED), with its own rights and its own part of the file.
fn clash(a: &Segment, b: &Segment, page: u64) -> Option<String> {
    let end = align_up(a.address + a.memory_size, page);
    if b.file_size == 0 || end <= align_down(b.address, page) {
        return None;
    }
    let lost = match () {
        () if a.execute && !b.execute => "the right to execute",
        () if a.write && !b.write => "the right to write",
        () if a.shift() != b.shift() => "its content",
        () => return None,
    };
    Some(format!(
        "segments {} and {} share a page of {}, where {1} takes {lost} from {0}",
        a.index,
        b.index,
        short(page)
    ))
}

#[cfg(test)]
mod tests {
    use crate::samples::{self, segment};
    use crate::{Elf, Kind, Machine, Segment};

    fn elf(kind: Kind, segments: Vec<Segment>) -> Elf {
        samples::elf(Machine::ARM64, kind, segments)
    }

    const K4: u64 = 4 << 10;
    const K64: u64 = 64 << 10;

    #[test]
    fn what_gnu_ld_makes_for_4k_pages_dies_with_64k_pages() {
        let file = elf(
            Kind::Pie,
            vec![
                segment(1, "rx", 0, 0, 0x2_1000),
                segment(2, "rw", 0x2_1db8, 0x2_2db8, 0x300),
            ],
        );
        assert_eq!(file.not_loadable(K4), None);
        let why = file.not_loadable(K64).unwrap();
        assert!(
            why.contains("segment 2: address 0x22db8 and offset 0x21db8"),
            "{why}"
        );
        let (sizes, _) = file.not_loadable_with(&[K4, 16 << 10, K64]).unwrap();
        assert_eq!(sizes, [16 << 10, K64]);
    }

    #[test]
    fn a_page_that_two_segments_share_has_the_rights_of_the_later_one() {
        let text = |end: u64| segment(2, "x", 0x1000, 0x1000, end - 0x1000);
        let data = segment(3, "rw", 0x1_2000, 0x1_2000, 0x100);
        let file = elf(Kind::Pie, vec![text(0x1_1800), data.clone()]);
        assert_eq!(file.not_loadable(K4), None);
        let why = file.not_loadable(K64).unwrap();
        assert!(why.contains("3 takes the right to execute from 2"), "{why}");
        // Nobody loses anything by a page that text shares with constants before it.
        let constants = segment(1, "r", 0, 0, 0x800);
        let file = elf(Kind::Pie, vec![constants, text(0xf000)]);
        assert_eq!(file.not_loadable(K64), None);
        // The same bytes of the file, read-only data below written data.
        let file = elf(
            Kind::Pie,
            vec![
                segment(1, "r", 0, 0, 0x800),
                segment(2, "rw", 0x1000, 0x1000, 9),
            ],
        );
        assert_eq!(file.not_loadable(K64), None);
    }

    #[test]
    fn ld_so_refuses_a_library_by_p_align_alone() {
        let one = vec![segment(1, "x", 0, 0, 0x1000)];
        assert_eq!(elf(Kind::Pie, one.clone()).not_loadable(K64), None);
        let why = elf(Kind::Library, one).not_loadable(K64).unwrap();
        assert!(why.contains("p_align 4K"), "{why}");
    }
}
