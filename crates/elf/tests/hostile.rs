// SPDX-License-Identifier: GPL-2.0-only
//! Files of every class and byte order, and files that lie: the errors must
//! name the field, its value and what would be right.

#![allow(missing_docs)]

#[path = "common/cases.rs"]
mod cases;
mod common;

use cases::cases;
use common::image::{ET_DYN, ET_EXEC, Image, PT_INTERP, Program, R, W, X, load};
use common::invariants;
use proptest::prelude::*;
use std::path::Path;
use wideleaf_elf::{Cause, Class, Elf, Kind, Order, judge};

const M: u64 = 1 << 20;

fn error(bytes: &[u8]) -> String {
    match Elf::read(&bytes) {
        Ok(elf) => panic!("read without complaint: {elf:?}"),
        Err(error) => error.to_string(),
    }
}

/// A program with 4M of text, congruent at any size.
fn good() -> Image {
    let programs = vec![
        load(R | X, 0, 4 * M, 4 * M, 0x1000),
        load(R | W, 4 * M, 9 * M, 0x1000, 0x1000),
    ];
    Image::new(true, false, ET_EXEC, programs)
}

fn with(change: impl FnOnce(&mut Image)) -> String {
    let mut image = good();
    change(&mut image);
    error(&image.bytes())
}

#[test]
fn both_classes_and_byte_orders_give_the_same_verdict() {
    for (bits64, big_endian) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut image = good();
        (image.bits64, image.big_endian) = (bits64, big_endian);
        let image = Image::new(bits64, big_endian, ET_EXEC, image.programs);
        let elf = Elf::read(&&image.bytes()[..]).unwrap();
        let expected = match (bits64, big_endian) {
            (false, false) => (Class::Bits32, Order::Little),
            (false, true) => (Class::Bits32, Order::Big),
            (true, false) => (Class::Bits64, Order::Little),
            (true, true) => (Class::Bits64, Order::Big),
        };
        assert_eq!((elf.class, elf.order), expected);
        assert_eq!(elf.kind, Kind::PositionDependent);
        let verdict = judge(&elf);
        assert_eq!(verdict.main().unwrap().cause, Cause::Good);
        assert_eq!((verdict.usable, verdict.gain), (4 * M, 0));
        assert_eq!(verdict.segments[1].cause, Cause::Writable);
    }
}

/// A PIE whose interpreter's name is `name`, by its header of `size` bytes.
fn with_interpreter(name: &[u8], size: u64) -> Vec<u8> {
    let offset = 0x800;
    let mut programs = good().programs;
    programs.push(Program {
        kind: PT_INTERP,
        offset: offset as u64,
        file_size: size,
        ..Program::default()
    });
    let mut bytes = Image::new(true, false, ET_DYN, programs).bytes();
    bytes[offset..offset + name.len()].copy_from_slice(name);
    bytes
}

#[test]
fn an_interpreter_that_cannot_be_read_is_none_and_the_file_is_a_pie_still() {
    for (name, size) in [
        (&b""[..], 0),
        (b"\0", 1),
        (b"/lib/ld.so", 10),
        (b"/lib/ld.so\0", 4097),
        (b"/lib/ld.so\0", u64::MAX),
    ] {
        let elf = Elf::read(&&with_interpreter(name, size)[..]).unwrap();
        assert_eq!((elf.kind, elf.dynamic), (Kind::Pie, true));
        assert_eq!(elf.interpreter, None, "{size:#x} bytes");
    }
}

#[test]
fn a_pie_of_4k_alignment_could_gain_what_it_cannot_use() {
    let name = b"/lib/ld.so\0";
    let elf = Elf::read(&&with_interpreter(name, name.len() as u64)[..]).unwrap();
    assert_eq!((elf.kind, elf.dynamic), (Kind::Pie, true));
    assert_eq!(elf.interpreter.as_deref(), Some(Path::new("/lib/ld.so")));
    let verdict = judge(&elf);
    assert_eq!(verdict.main().unwrap().cause, Cause::MaxPageSize);
    assert_eq!((verdict.usable, verdict.gain), (0, 4 * M));
}

#[test]
fn what_is_no_elf_file_shows_its_first_bytes() {
    assert!(error(b"#!/bin/sh\n").contains("starts with 23 21 2f 62"));
    assert!(error(b"").contains("empty file"));
    assert!(error(b"\x7fELF").contains("ELF identification"));
    let mut bytes = good().bytes();
    bytes[4] = 7;
    assert!(error(&bytes).contains("EI_CLASS is 7, must be 1 (32-bit) or 2 (64-bit)"));
    bytes[4] = 2;
    bytes[5] = 0;
    assert!(error(&bytes).contains("EI_DATA is 0"));
}

#[test]
fn a_truncated_file_says_what_is_missing_and_how_much_there_is() {
    let bytes = good().bytes();
    assert!(error(&bytes[..40]).contains("ELF header"));
    assert!(error(&bytes[..100]).contains("program header table"));
    let cut = error(&bytes[..bytes.len() - 1]);
    assert!(cut.contains("segment 1 is at 0x400000+0x1000"), "{cut}");
    assert!(cut.contains("only 0x400fff bytes"), "{cut}");
}

#[test]
fn headers_that_lie_are_named() {
    let cases = [
        (
            with(|i| i.phnum = Some(60000)),
            "e_phnum is 60000, must be at most 1170",
        ),
        (
            with(|i| {
                i.phnum = Some(900);
                i.size = 9000;
            }),
            "program header table (e_phoff, e_phnum 900)",
        ),
        (with(|i| i.phentsize = 57), "e_phentsize is 57, must be 56"),
        (with(|i| i.phoff = u64::MAX), "0xffffffffffffffff"),
        (
            with(|i| i.programs[0].align = 3),
            "p_align of segment 0 is 0x3, must be 0 or a power of two",
        ),
        (
            with(|i| i.programs[1].memory_size = 1),
            "p_filesz of segment 1 is 0x1000, must be at most p_memsz, 0x1",
        ),
        (
            with(|i| i.programs[1].memory_size = u64::MAX),
            "p_memsz of segment 1",
        ),
        (
            with(|i| i.programs[1].offset = u64::MAX - 5),
            "truncated: segment 1",
        ),
        (
            with(|i| i.programs[1].address = 5 * M),
            "segments 0 and 1 overlap: 0 ends at 0x800000, 1 starts at 0x500000",
        ),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{said} / {expected}");
    }
}

#[test]
fn an_address_beyond_32_bits_is_refused_in_a_32_bit_file() {
    let programs = vec![load(R | X, 0, 0xffff_f000, 0x2000, 0x1000)];
    let said = error(&Image::new(false, true, ET_EXEC, programs).bytes());
    assert!(said.contains("inside the address space"), "{said}");
}

#[test]
fn damaged_section_headers_are_stated_and_do_not_hide_the_verdict() {
    let mut image = good();
    (image.shoff, image.shnum, image.shentsize) = (u64::MAX - 7, 30, 64);
    let elf = Elf::read(&&image.bytes()[..]).unwrap();
    let why = elf.sections.damaged.as_deref().unwrap();
    assert!(why.contains("section header table"), "{why}");
    assert_eq!(judge(&elf).usable, 4 * M);
}

#[test]
fn only_headers_are_read_of_a_file_of_any_size() {
    struct Sparse(Vec<u8>);
    impl wideleaf_elf::Source for Sparse {
        fn size(&self) -> u64 {
            1 << 50
        }
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
            assert!(offset < 8192 && buf.len() <= 8192, "{offset} {}", buf.len());
            let at = offset as usize;
            buf.copy_from_slice(&self.0[at..at + buf.len()]);
            Ok(())
        }
    }
    let mut image = good();
    image.programs = vec![load(R | X, 0, 4 * M, 1 << 49, 0x1000)];
    image.size = 8192;
    let elf = Elf::read(&Sparse(image.bytes())).unwrap();
    assert_eq!(judge(&elf).usable, 1 << 49);
}

/// Values where arithmetic goes wrong, and some that do not.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        (0u32..64, -1i64..=1).prop_map(|(bit, by)| (1u64 << bit).wrapping_add_signed(by)),
        0u64..20_000,
        any::<u64>(),
    ]
}

prop_compose! {
    fn program()(
        kind in prop_oneof![4 => Just(1u32), 1 => 0u32..8, 1 => any::<u32>()],
        flags in 0u32..8,
        fields in prop::array::uniform5(value()),
    ) -> Program {
        let [offset, address, file_size, memory_size, align] = fields;
        Program { kind, flags, offset, address, file_size, memory_size, align }
    }
}

prop_compose! {
    fn image()(
        (bits64, big_endian) in any::<(bool, bool)>(),
        kind in 0u16..6,
        machine in prop_oneof![Just(62u16), Just(183), any::<u16>()],
        programs in prop::collection::vec(program(), 0..5),
        phoff in prop_oneof![3 => Just(None), 1 => value().prop_map(Some)],
        phnum in prop_oneof![3 => Just(None), 1 => any::<u16>().prop_map(Some)],
        (shoff, shnum, shstrndx) in (value(), 0u16..40, 0u16..40),
        size in 0usize..16_384,
    ) -> Image {
        let image = Image::new(bits64, big_endian, kind, programs);
        let shentsize = if bits64 { 64 } else { 40 };
        let phoff = phoff.unwrap_or(image.phoff);
        Image { machine, phoff, phnum, shoff, shentsize, shnum, shstrndx, size, ..image }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(4_000) })]

    #[test]
    fn no_image_makes_the_reader_panic(image in image()) {
        invariants::check(&image.bytes());
    }
}

/// The test's own program, cut short and with bytes changed: real sections,
/// notes and a dynamic section.
#[test]
fn no_damage_to_a_real_program_makes_the_reader_panic() {
    let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let headers = whole[..1024]
        .iter()
        .enumerate()
        .map(|(at, byte)| (at, *byte));
    let mut bytes = whole.clone();
    for (at, byte) in headers {
        for damage in [0, 0xff, 0x80, byte ^ 1, byte.wrapping_add(1)] {
            bytes[at] = damage;
            invariants::check(&bytes);
        }
        bytes[at] = byte;
    }
    for size in (0..4096).chain((4096..whole.len()).step_by(whole.len() / 500)) {
        invariants::check(&whole[..size]);
    }
}
