// SPDX-License-Identifier: GPL-2.0-only
//! The classifier on hand-made pages with known answers.

use crate::classify::{Classifier, Geometry, Page};
use crate::coverage::{Coverage, Extent, Folios, Leaf};
use crate::flags::{Flags, PageFlags};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

const K4: u64 = 4 << 10;
const K16: u64 = 16 << 10;
const K64: u64 = 64 << 10;
const M2: u64 = 2 << 20;

/// A stretch: first virtual page, first frame, pages, offset of the first
/// within its folio of `1 << order` pages.
struct Stretch(u64, u64, u64, u64, u32);

fn flags_at(index: u64, order: u32) -> Flags {
    match (order, index) {
        (0, _) => Flags::default(),
        (_, 0) => Flags::of(Flags::THP | Flags::HEAD),
        _ => Flags::of(Flags::THP | Flags::TAIL),
    }
}

fn word(flags: Flags) -> u64 {
    let bit = |flag, at: u32| u64::from(flags.has(flag)) << at;
    bit(Flags::HEAD, 15) | bit(Flags::TAIL, 16) | bit(Flags::THP, 22)
}

fn classify(
    coalesce: &[u64],
    stretches: &[Stretch],
    smaps: Option<(u64, u64)>,
) -> (Coverage, Folios, Vec<Extent>) {
    let root = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(root.path().join("kpageflags")).unwrap();
    for Stretch(_, frame, _, offset, order) in stretches {
        for index in 0..1u64 << order {
            file.write_all_at(
                &word(flags_at(index, *order)).to_ne_bytes(),
                (frame - offset + index) * 8,
            )
            .unwrap();
        }
    }
    let mut flags = PageFlags::open(root.path()).unwrap();
    let geometry = Geometry {
        page: K4,
        pmd: M2,
        coalesce: coalesce.to_vec(),
    };
    let mut runs = Vec::new();
    let mut sink = |run| runs.push(run);
    let mut classifier = Classifier::new(&geometry, Some(&mut flags), &mut sink, 4 * M2);
    for Stretch(virt, frame, pages, offset, order) in stretches {
        for i in 0..*pages {
            let flags = Some(flags_at(offset + i, *order));
            classifier
                .page(Page {
                    virt: virt + i,
                    frame: frame + i,
                    flags,
                })
                .unwrap();
        }
    }
    let (coverage, folios) = classifier.finish(smaps).unwrap();
    (coverage, folios, runs)
}

#[test]
fn an_aligned_folio_is_one_group_on_arm64_and_four_on_zen() {
    let folio = [Stretch(0x40, 0x1000, 16, 0, 4)];
    let (coverage, folios, _) = classify(&[K64], &folio, None);
    assert_eq!(coverage.leaves, BTreeMap::from([(K64, K64)]));
    assert_eq!(coverage.entries(K4), BTreeMap::from([(K64, 1)]));
    assert_eq!(folios.file.aligned, BTreeMap::from([(K64, K64)]));
    let (coverage, ..) = classify(&[K16], &folio, None);
    assert_eq!(coverage.entries(K4), BTreeMap::from([(K16, 4)]));
    let (coverage, ..) = classify(&[], &folio, None);
    assert_eq!(coverage.entries(K4), BTreeMap::from([(K4, 16)]));
}

#[test]
fn a_shifted_mapping_wastes_the_folio() {
    // lld's page shift: the folio lies one page off in the address space.
    let (coverage, folios, _) = classify(&[K64, K16], &[Stretch(0x41, 0x1000, 16, 0, 4)], None);
    assert_eq!(coverage.leaves, BTreeMap::from([(K4, K64)]));
    assert_eq!(folios.file.unaligned, BTreeMap::from([(K64, K64)]));
    assert!(folios.file.blocks.is_empty());
}

#[test]
fn edges_of_a_run_fall_to_narrower_groups_in_address_order() {
    // Pages 2..39 of a 64-page folio: one whole 64K group, 16K groups and
    // pages around it.
    let (coverage, folios, runs) = classify(&[K64, K16], &[Stretch(0x42, 0x1002, 37, 2, 6)], None);
    assert_eq!(
        coverage.leaves,
        BTreeMap::from([(K64, K64), (K16, 4 * K16), (K4, 5 * K4)])
    );
    assert_eq!(coverage.resident, 37 * K4);
    assert_eq!(folios.file.partial, 37 * K4);
    assert_eq!(
        folios.file.blocks,
        BTreeMap::from([(K64, K64), (K16, 8 * K16)])
    );
    let mut next = 0x42 * K4;
    for run in &runs {
        assert_eq!(run.start, next);
        next += run.len;
    }
    assert_eq!(next, (0x42 + 37) * K4);
}

#[test]
fn contiguous_frames_of_different_folios_are_no_group() {
    let stretches = [
        Stretch(0x40, 0x1000, 8, 0, 3),
        Stretch(0x48, 0x1008, 8, 0, 3),
    ];
    let (coverage, folios, _) = classify(&[K64], &stretches, None);
    assert_eq!(coverage.leaves, BTreeMap::from([(K4, K64)]));
    assert_eq!(folios.file.aligned, BTreeMap::from([(8 * K4, K64)]));
}

#[test]
fn base_pages_are_base_pages_however_contiguous() {
    let (coverage, folios, runs) = classify(
        &[K16],
        &[
            Stretch(0x40, 0x1000, 1, 0, 0),
            Stretch(0x41, 0x1001, 1, 0, 0),
        ],
        None,
    );
    assert_eq!(coverage.leaves, BTreeMap::from([(K4, 2 * K4)]));
    assert_eq!(folios, Folios::default());
    assert_eq!(
        runs,
        [Extent {
            start: 0x40 * K4,
            len: 2 * K4,
            leaf: Leaf::Size(K4)
        }]
    );
}

#[test]
fn a_folio_with_its_tail_unmapped_is_partial() {
    let (_, folios, _) = classify(&[], &[Stretch(0x40, 0x1000, 8, 0, 4)], None);
    assert_eq!(
        (folios.file.partial, folios.file.aligned.len()),
        (8 * K4, 0)
    );
}

#[test]
fn smaps_says_how_much_a_pmd_maps_where_the_kernel_tells_no_more() {
    let two = [
        Stretch(0x200, 0x1000, 512, 0, 9),
        Stretch(0x400, 0x2000, 512, 0, 9),
    ];
    let (coverage, folios, _) = classify(&[K64], &two, Some((0, M2)));
    assert_eq!(coverage.leaves, BTreeMap::from([(M2, M2), (K64, M2)]));
    assert_eq!(
        (
            folios.file.pmd,
            folios.file.aligned[&M2],
            folios.file.blocks[&K64]
        ),
        (M2, M2, M2)
    );
    let (coverage, ..) = classify(&[K64], &two, Some((0, 2 * M2)));
    assert_eq!(coverage.leaves, BTreeMap::from([(M2, 2 * M2)]));
    // smaps was read when more was mapped: never more than is resident.
    let (coverage, ..) = classify(&[K64], &two, Some((0, 9 * M2)));
    assert_eq!(coverage.leaves, BTreeMap::from([(M2, 2 * M2)]));
}

#[test]
fn hidden_frames_are_unknown_unless_a_pmd_maps_them() {
    let geometry = Geometry {
        page: K4,
        pmd: M2,
        coalesce: vec![K64],
    };
    let mut sink = |_| {};
    let mut classifier = Classifier::new(&geometry, None, &mut sink, 2 * M2);
    for i in 0..4 {
        classifier
            .page(Page {
                virt: 0x200 + i,
                frame: 0,
                flags: None,
            })
            .unwrap();
    }
    classifier.pmd(0x400, 512, false).unwrap();
    let (coverage, folios) = classifier.finish(None).unwrap();
    assert_eq!((coverage.unknown, coverage.resident), (4 * K4, 4 * K4 + M2));
    assert_eq!(coverage.leaves, BTreeMap::from([(M2, M2)]));
    assert_eq!((folios.file.pmd, folios.anon.pmd), (M2, 0));
}

#[test]
fn hugetlb_pages_are_their_own_leaf_and_no_folio_of_thpmaps() {
    let geometry = Geometry {
        page: K4,
        pmd: M2,
        coalesce: vec![K64],
    };
    let mut sink = |_| {};
    let mut classifier = Classifier::new(&geometry, None, &mut sink, M2);
    for i in 0..512 {
        let flags = Flags::of(Flags::HUGE | if i == 0 { Flags::HEAD } else { Flags::TAIL });
        classifier
            .page(Page {
                virt: 0x200 + i,
                frame: 0x200 + i,
                flags: Some(flags),
            })
            .unwrap();
    }
    let (coverage, folios) = classifier.finish(None).unwrap();
    assert_eq!(coverage.leaves, BTreeMap::from([(M2, M2)]));
    assert_eq!(folios, Folios::default());
}
