// SPDX-License-Identifier: GPL-2.0-only
//! What a loader makes of a file before and after, with a loader of the test's
//! own, for images that no linker writes and for those of real linkers.

#![allow(missing_docs)]

#[path = "../../elf/tests/common/cases.rs"]
mod cases;
#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;

use cases::cases;
use image::{ET_DYN, ET_EXEC, Image, Program, R, W, X, load};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use wideleaf_align::{Options, Refusal, Status, Target, align, is_aligned, restore};
use wideleaf_elf::{Elf, Segment};

const M: u64 = 1 << 20;
const LEAF: u64 = 2 * M;

fn options() -> Options {
    Options {
        always: true,
        note: true,
        ..Options::new(LEAF)
    }
}

/// Memory by pages of 4K: their bytes, and where in the file these begin.
type Memory = BTreeMap<u64, (Vec<u8>, u64)>;
const SMALL: u64 = 4096;

/// Maps segments as Linux does: whole pages, later ones over earlier ones, what
/// exceeds the file's bytes zeroed, up to the page's end.
fn load_file(file: &[u8], segments: &[Segment], page: u64) -> Option<Memory> {
    let mut memory = Memory::new();
    for s in segments.iter().filter(|s| s.file_size > 0) {
        if !s.address.wrapping_sub(s.offset).is_multiple_of(page) {
            return None;
        }
        let start = s.offset / page * page;
        let end = (s.offset + s.file_size).next_multiple_of(page);
        // Beyond the file's last page nothing can be read.
        let end = end.min((file.len() as u64).next_multiple_of(page));
        for at in (start..end).step_by(SMALL as usize) {
            let address = s.address - (s.offset - start) + (at - start);
            let tail = file.get(at as usize..).unwrap_or_default();
            let mut bytes = tail[..tail.len().min(SMALL as usize)].to_vec();
            bytes.resize(SMALL as usize, 0);
            memory.insert(address, (bytes, at));
        }
        if s.memory_size > s.file_size {
            let from = s.address + s.file_size;
            for address in from..from.next_multiple_of(page) {
                let (bytes, _) = memory.get_mut(&(address / SMALL * SMALL)).expect("mapped");
                bytes[(address % SMALL) as usize] = 0;
            }
        }
    }
    Some(memory)
}

/// Offsets in the old file of the fields that may change.
fn fields(file: &[u8]) -> HashSet<u64> {
    let wide = file[4] == 2;
    let big = file[5] == 2;
    let word = |at: usize, size: usize| {
        let mut bytes = file[at..at + size].to_vec();
        if big {
            bytes.reverse();
        }
        bytes
            .iter()
            .rev()
            .fold(0u64, |sum, b| sum << 8 | u64::from(*b)) as usize
    };
    let mut fields = HashSet::new();
    let mut add = |at: usize, size: usize| fields.extend((at..at + size).map(|at| at as u64));
    let (table, count, entry, shoff) = match wide {
        true => (word(32, 8), word(56, 2), 56, word(40, 8)),
        false => (word(28, 4), word(44, 2), 32, word(32, 4)),
    };
    match wide {
        true => add(32, 16),
        false => add(28, 8),
    }
    for at in (0..count).map(|i| table + i * entry) {
        let (offset, align) = if wide { (8, 48) } else { (4, 28) };
        add(at + offset, if wide { 8 } else { 4 });
        add(at + align, if wide { 8 } else { 4 });
    }
    let sections = if wide { word(60, 2) } else { word(48, 2) };
    for i in 0..sections {
        match wide {
            true => add(shoff + i * 64 + 24, 8),
            false => add(shoff + i * 40 + 16, 4),
        }
    }
    fields
}

fn elf(file: &[u8]) -> Elf {
    Elf::read(&file).unwrap()
}

/// Aligns bytes, by way of files; the new bytes.
fn aligned(dir: &Path, bytes: &[u8], options: &Options) -> Result<Vec<u8>, Refusal> {
    let (old, new) = (dir.join("old"), dir.join("new"));
    std::fs::write(&old, bytes).unwrap();
    let report = align(&old, Target::File(&new), options)?;
    assert_eq!(report.status, Status::Aligned);
    let result = std::fs::read(&new).unwrap();
    assert_eq!(report.size_after, result.len() as u64);
    let back = dir.join("back");
    restore(&new, Target::File(&back), options).unwrap();
    assert!(
        std::fs::read(&back).unwrap() == bytes,
        "restoring gives every byte back"
    );
    Ok(result)
}

/// All pages of all page sizes that the file could be loaded with.
fn assert_same_memory(old: &[u8], new: &[u8], pages: &[u64]) {
    let (before, after) = (elf(old), elf(new));
    let may_change = fields(old);
    for page in pages {
        let Some(expected) = load_file(old, &before.segments, *page) else {
            continue;
        };
        let memory = load_file(new, &after.segments, *page).expect("congruent");
        assert_eq!(
            expected.len(),
            memory.len(),
            "{page:#x}: as many bytes are mapped"
        );
        for ((address, (bytes, source)), (other, (found, _))) in expected.iter().zip(&memory) {
            assert_eq!(address, other);
            for at in (0..SMALL as usize).filter(|at| bytes[*at] != found[*at]) {
                assert!(
                    may_change.contains(&(source + at as u64)),
                    "page size {page:#x}, address {address:#x}+{at:#x}: {:#x} became {:#x}",
                    bytes[at],
                    found[at]
                );
            }
        }
    }
}

fn check(bytes: &[u8], pages: &[u64]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let new = aligned(dir.path(), bytes, &options()).unwrap();
    assert!(is_aligned(&elf(&new), LEAF));
    assert_same_memory(bytes, &new, pages);
    new
}

/// Every byte tells where it is.
fn fill(mut bytes: Vec<u8>, from: usize) -> Vec<u8> {
    for (at, byte) in bytes.iter_mut().enumerate().skip(from) {
        *byte = (at / 251 + at % 251) as u8 | 1;
    }
    bytes
}

const PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

#[test]
fn lld_s_page_shift_is_undone_in_every_class_and_byte_order() {
    for bits64 in [false, true] {
        for big in [false, true] {
            let programs = vec![
                load(R, 0, 0, 0x12345, 0x10000),
                load(R | X, 0x12345, 0x22345, 0x4_5678, 0x10000),
                Program {
                    memory_size: 0x9000,
                    ..load(R | W, 0x579bd, 0x879bd, 0x1234, 0x10000)
                },
            ];
            let mut image = Image::new(bits64, big, ET_DYN, programs);
            image.machine = 183;
            image.size += 0x777;
            let bytes = fill(image.bytes(), 0x200);
            // What lies behind the last segment belongs to nobody.
            let dir = tempfile::tempdir().unwrap();
            let refused = aligned(dir.path(), &bytes, &options()).unwrap_err();
            assert!(
                matches!(refused, Refusal::Appended { size: 0x777, .. }),
                "{refused}"
            );
            let force = Options {
                force: true,
                ..options()
            };
            let new = aligned(dir.path(), &bytes, &force).unwrap();
            assert_same_memory(&bytes, &new, &PAGES);
            assert!(is_aligned(&elf(&new), LEAF));
        }
    }
}

#[test]
fn neighbours_that_share_a_page_both_keep_all_of_it() {
    // GNU ld without separate-code: the second segment starts in the page in
    // which the first one ends, at another distance.
    let programs = vec![
        load(R | X, 0, 0x400000, 0x1834, 0x1000),
        load(R | W, 0x1834, 0x602834, 0x300, 0x1000),
        load(R | W, 0x1b34, 0x903b34, 0x40, 0x1000),
    ];
    let bytes = fill(Image::new(true, false, ET_EXEC, programs).bytes(), 0x200);
    let new = check(&bytes, &PAGES);
    let read = elf(&new);
    let memory = load_file(&new, &read.segments, 4096).unwrap();
    // The first segment's last page still shows the second one's bytes.
    assert_eq!(memory[&0x401000].0[0x900], bytes[0x1900]);
    assert_eq!(memory[&0x602000].0[0], bytes[0x1000]);
}

#[test]
fn a_base_that_is_no_multiple_of_the_leaf_moves_the_headers_with_their_segment() {
    let programs = vec![
        load(R | X, 0, 0x0804_8000, 0x3000, 0x1000),
        load(R | W, 0x3000, 0x0804_c000, 0x500, 0x1000),
    ];
    let bytes = fill(Image::new(false, false, ET_EXEC, programs).bytes(), 0x200);
    let new = check(&bytes, &[4096]);
    // AT_PHDR: e_phoff lies in the first segment, at the address it had.
    let phoff = u32::from_le_bytes(new[28..32].try_into().unwrap()) as u64;
    let first = &elf(&new).segments[0];
    assert_eq!(first.address + (phoff - first.offset), 0x0804_8000 + 52);
    // A static program's C library finds them from its own header in memory.
    assert_eq!(new[first.offset as usize..][..52], bytes[..52]);
    // GNU strip writes headers to the start of the file, and the segment after them.
    let dir = tempfile::tempdir().unwrap();
    let careful = Options {
        strippable: true,
        ..options()
    };
    let refusal = aligned(dir.path(), &bytes, &careful).unwrap_err();
    assert!(
        matches!(refusal, Refusal::HeadersMove { leaf: LEAF }),
        "{refusal}"
    );
}

#[test]
fn a_base_that_loaders_do_not_keep_is_refused() {
    let programs = || {
        vec![
            load(R | X, 0, 0x1_0000, 0x50_0000, 0x1_0000),
            load(R | W, 0x51_0000, 0x52_0000, 0x500, 0x1_0000),
        ]
    };
    let image = |kind| fill(Image::new(true, false, kind, programs()).bytes(), 0x200);
    let dir = tempfile::tempdir().unwrap();
    let refusal = aligned(dir.path(), &image(ET_DYN), &options()).unwrap_err();
    let base = Refusal::Base {
        base: 0x1_0000,
        leaf: LEAF,
    };
    assert_eq!(refusal.to_string(), base.to_string());
    check(&image(ET_EXEC), &[4096]);
}

#[test]
fn segments_without_bytes_and_out_of_order_are_congruent_too() {
    let bss = Program {
        kind: 1,
        flags: R | W,
        offset: 0x5123,
        address: 0x90_4123,
        memory_size: 0x8000,
        align: 0x1000,
        ..Program::default()
    };
    let programs = vec![
        load(R, 0x4000, 0x10_0000, 0x1123, 0x1000),
        bss,
        load(R | X, 0x0, 0xa0_1000, 0x3f00, 0x1000),
    ];
    check(
        &fill(Image::new(true, false, ET_EXEC, programs).bytes(), 0x200),
        &PAGES,
    );
}

#[test]
fn what_cannot_be_aligned_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let off_page = Image::new(true, false, ET_DYN, vec![load(R, 0x10, 0x20, 9, 1)]);
    let huge = Image::new(true, false, ET_DYN, vec![load(R, 0, 0, 0x100, 1 << 40)]);
    let overlap: Vec<Program> = (0..50)
        .map(|i| load(R, 0x1000, 0x10_1000 + i * 0x10_1000, 0x10_0000, 0x1000))
        .collect();
    let overlap = Image::new(true, false, ET_EXEC, overlap);
    let mut packed = Image::new(true, false, ET_DYN, vec![load(R, 0, 0, 0x300, 0x1000)]).bytes();
    packed[0x7c..0x80].copy_from_slice(b"UPX!");
    let object = Image::new(true, false, 1, vec![]);
    for (bytes, expected) in [
        (off_page.bytes(), "differ within a 4K page"),
        (huge.bytes(), "at most 1G"),
        (overlap.bytes(), "overlap"),
        (packed, "upx -d"),
        (object.bytes(), "relocatable object"),
        (
            Image::new(true, false, ET_DYN, vec![]).bytes(),
            "no loadable segment",
        ),
        (b"#!/bin/sh -e\nexit\n".to_vec(), "its interpreter, /bin/sh"),
        (b"".to_vec(), "empty file"),
        (b"\x7fELF\x02\x01\x01".to_vec(), "truncated"),
    ] {
        let error = aligned(dir.path(), &bytes, &options())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{error}");
    }
}

#[test]
fn a_file_that_was_changed_or_stripped_of_its_note_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let programs = vec![load(R | X, 0, 0x1000, 0x5000, 0x1000)];
    let bytes = fill(Image::new(true, false, ET_EXEC, programs).bytes(), 0x100);
    let new = aligned(dir.path(), &bytes, &options()).unwrap();
    let restored = |bytes: &[u8]| {
        let path = dir.path().join("x");
        std::fs::write(&path, bytes).unwrap();
        restore(&path, Target::InPlace, &options())
            .unwrap_err()
            .to_string()
    };
    let mut changed = new.clone();
    let text = elf(&new).segments[0].offset as usize;
    changed[text + 0x300] ^= 1;
    assert!(restored(&changed).contains("was changed since"));
    assert!(restored(&new[..new.len() - 1]).contains("no note"));
    assert!(restored(&bytes).contains("no note"));
    // Lengths and places in a damaged note are not believed.
    for at in new.len() - 700..new.len() - 16 {
        let mut damaged = new.clone();
        damaged[at] ^= 0x15;
        restored(&damaged);
    }
}

#[test]
fn a_second_leaf_starts_from_the_original_again() {
    let dir = tempfile::tempdir().unwrap();
    let programs = vec![
        load(R, 0, 0, 0x5000, 0x1000),
        load(R | X, 0x5000, 0x6000, 0x5000, 0x1000),
    ];
    let bytes = fill(Image::new(true, false, ET_DYN, programs).bytes(), 0x100);
    let narrow = Options {
        leaf: 64 << 10,
        ..options()
    };
    let first = aligned(dir.path(), &bytes, &narrow).unwrap();
    let (path, out) = (dir.path().join("narrow"), dir.path().join("wide"));
    std::fs::write(&path, first).unwrap();
    align(&path, Target::File(&out), &options()).unwrap();
    restore(&out, Target::InPlace, &options()).unwrap();
    assert!(std::fs::read(&out).unwrap() == bytes);
}

/// As GNU ld links with separate-code: code between constants, written data behind.
fn separate_code(bits64: bool, big: bool) -> Vec<u8> {
    let programs = vec![
        Program {
            kind: image::PT_INTERP,
            flags: R,
            offset: 0x300,
            address: 0x40_0300,
            file_size: 0x10,
            memory_size: 0x10,
            align: 1,
        },
        load(R, 0, 0x40_0000, 0x1_e3e8, 0x1000),
        load(R | X, 0x2_0000, 0x42_0000, 0x1a_2289, 0x1000),
        load(R, 0x1c_3000, 0x5c_3000, 0x5_2968, 0x1000),
        load(R | W, 0x21_5dc8, 0xa1_6dc8, 0x1230, 0x1000),
    ];
    fill(Image::new(bits64, big, ET_EXEC, programs).bytes(), 0x200)
}

#[test]
fn code_and_constants_become_one_segment_and_no_byte_of_them_changes() {
    let merge = Options {
        merge: true,
        ..options()
    };
    for (bits64, big) in [(true, false), (false, false), (true, true)] {
        let bytes = separate_code(bits64, big);
        let dir = tempfile::tempdir().unwrap();
        // It is restored as well, to the last byte.
        let new = aligned(dir.path(), &bytes, &merge).unwrap();
        let read = elf(&new);
        assert!(is_aligned(&read, LEAF));
        let flags: Vec<String> = read.segments.iter().map(Segment::flags).collect();
        assert_eq!(flags, ["r-x", "rw-"]);
        let one = &read.segments[0];
        assert_eq!((one.address, one.file_size), (0x40_0000, 0x21_5968));
        // Headers apart, each page is what it was; one page between the segments is new.
        let before = load_file(&bytes, &elf(&bytes).segments, 4096).unwrap();
        let after = load_file(&new, &read.segments, 4096).unwrap();
        assert_eq!(after.len(), before.len() + 1);
        for (address, (page, _)) in before.iter().filter(|(address, _)| **address != 0x40_0000) {
            assert!(*page == after[address].0, "{address:#x}");
        }
        let (old, new) = (&before[&0x40_0000].0, &after[&0x40_0000].0);
        let headers = 64 + 5 * 56;
        assert!(old[headers..] == new[headers..]);
    }
}

#[test]
fn joining_is_reported_done_once_and_only_where_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("old"), dir.path().join("new"));
    let bytes = separate_code(true, false);
    std::fs::write(&path, &bytes).unwrap();
    let gaining = Options {
        only_gaining: true,
        note: true,
        ..Options::new(LEAF)
    };
    let merge = Options {
        merge: true,
        ..gaining.clone()
    };
    let report = align(&path, Target::File(&out), &gaining).unwrap();
    assert_eq!((report.status, report.merged), (Status::NoGain, None));
    let report = align(&path, Target::File(&out), &merge).unwrap();
    let join = report.merged.unwrap();
    assert_eq!(join.segments, [1, 2, 3]);
    assert_eq!(
        (join.constants, join.between),
        (0x1_e3e8 + 0x5_2968, 0x1000)
    );
    assert_eq!((report.usable_before, report.usable_after), (0, LEAF));
    // The second time, with and without the option, it is good.
    for options in [&merge, &gaining] {
        let report = align(&out, Target::InPlace, options).unwrap();
        assert_eq!(report.status, Status::Good);
    }
    // One that was aligned before is joined from what it was.
    let aligned_only = Options {
        always: true,
        note: true,
        ..Options::new(LEAF)
    };
    align(&path, Target::InPlace, &aligned_only).unwrap();
    assert_eq!(elf(&std::fs::read(&path).unwrap()).segments.len(), 4);
    assert_eq!(
        align(&path, Target::InPlace, &merge).unwrap().status,
        Status::Aligned
    );
    assert_eq!(elf(&std::fs::read(&path).unwrap()).segments.len(), 2);
    restore(&path, Target::InPlace, &merge).unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes);
}

/// Some segments one after the other, as linkers place them, each moved by
/// whole pages against its offset.
fn arbitrary() -> impl Strategy<Value = (Image, u64)> {
    let segment = (1u64..0x6000, 0u64..40, 0u64..3, 0u64..0x3000);
    let sizes = prop::sample::select(vec![0x1000u64, 0x4000, 0x1_0000]);
    (
        prop::collection::vec(segment, 1..6),
        sizes,
        any::<[bool; 3]>(),
    )
        .prop_map(|(segments, page, [bits64, big, fixed])| {
            let (mut offset, mut address) = (0, if fixed { 0x0804_8000 & !(page - 1) } else { 0 });
            let mut programs = Vec::new();
            for (size, pages, gap, extra) in segments {
                offset += gap * 0x123;
                let size = if offset == 0 { size + 0x400 } else { size };
                // What loaders put at a multiple of p_align is linked to one: 0.
                let pages = if programs.is_empty() && !fixed {
                    0
                } else {
                    pages
                };
                // The next page with the offset's place in it.
                address = (address + pages * page).next_multiple_of(page) + offset % page;
                let mut program = load(R | X, offset, address, size, page);
                program.memory_size += extra;
                programs.push(program);
                offset += size;
                address += program.memory_size;
            }
            let kind = if fixed { ET_EXEC } else { ET_DYN };
            let mut image = Image::new(bits64, big, kind, programs);
            image.machine = 183;
            (image, page)
        })
}

proptest! {
    #![proptest_config(cases(60))]
    #[test]
    fn memory_stays_the_same_for_any_layout((image, _page) in arbitrary()) {
        let bytes = fill(image.bytes(), 0x400);
        check(&bytes, &PAGES);
    }
}

/// Real files, foreign ones too: what the host's linkers and Go made.
#[test]
fn files_of_this_machine_keep_their_memory() {
    let mut files: Vec<PathBuf> = vec![std::env::current_exe().unwrap()];
    for name in [
        "/bin/sh",
        "/usr/bin/ld.bfd",
        "/usr/bin/mold",
        "/usr/bin/ld.lld",
    ] {
        files.push(name.into());
    }
    files.retain(|path| path.exists());
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let new = aligned(dir.path(), &bytes, &options()).unwrap();
        let (old_elf, new_elf) = (elf(&bytes), elf(&new));
        let may_change = fields(&bytes);
        for (old, new_segment) in old_elf.segments.iter().zip(&new_elf.segments) {
            let (from, to) = (old.offset as usize, new_segment.offset as usize);
            let size = old.file_size as usize;
            if bytes[from..from + size] == new[to..to + size] {
                continue;
            }
            for at in 0..size {
                let same = bytes[from + at] == new[to + at];
                assert!(
                    same || may_change.contains(&((from + at) as u64)),
                    "{path:?} {at:#x}"
                );
            }
        }
    }
}
