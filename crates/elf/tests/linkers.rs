// SPDX-License-Identifier: GPL-2.0-only
//! The verdicts and the flags, checked with the linkers themselves: link a
//! program, judge it, link it again with the flags that the fix names, judge
//! again. Needs Debian's packages binutils-x86-64-linux-gnu,
//! binutils-aarch64-linux-gnu, lld and mold, which `scripts/deps check` installs; gold, which binutils are about to
//! drop, is tested if it is there.

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_elf::{Cause, Elf, FileSource, FileVerdict, Kind, LEAF_2M, LinkerName, fix, judge};

const M: u64 = 1 << 20;

/// A linker's command line up to the options, for one architecture.
type Tool = (LinkerName, &'static [&'static str]);

static X86_64: [Tool; 4] = [
    (LinkerName::Gnu, &["x86_64-linux-gnu-ld.bfd"]),
    (LinkerName::Gold, &["x86_64-linux-gnu-ld.gold"]),
    (LinkerName::Lld, &["ld.lld", "-m", "elf_x86_64"]),
    (LinkerName::Mold, &["mold", "-m", "elf_x86_64"]),
];
static ARM64: [Tool; 4] = [
    (LinkerName::Gnu, &["aarch64-linux-gnu-ld.bfd"]),
    (LinkerName::Gold, &["aarch64-linux-gnu-ld.gold"]),
    (LinkerName::Lld, &["ld.lld", "-m", "aarch64linux"]),
    (LinkerName::Mold, &["mold", "-m", "aarch64linux"]),
];
const MODES: [(Kind, &[&str]); 3] = [
    (Kind::PositionDependent, &[]),
    (Kind::StaticPie, &["-pie", "--no-dynamic-linker"]),
    (Kind::Library, &["-shared", "-soname", "libx.so"]),
];
const INTERPRETER: &[&str] = &["-pie", "-dynamic-linker", "/lib/ld.so"];

/// The linkers to test: all but gold have to be there.
fn installed(tools: &'static [Tool]) -> Vec<&'static Tool> {
    let present = |tool: &&Tool| {
        let there =
            tool.0 != LinkerName::Gold || Command::new(tool.1[0]).arg("-v").output().is_ok();
        if !there {
            eprintln!("SKIPPED: {} is not installed", tool.1[0]);
        }
        there
    };
    tools.iter().filter(present).collect()
}

/// An object file with this much code and constants.
fn object(dir: &Path, arch: Architecture, text: u64, constants: u64) -> PathBuf {
    let mut object = Object::new(BinaryFormat::Elf, arch, Endianness::Little);
    let code = object.section_id(StandardSection::Text);
    object.append_section_data(code, &vec![0; text as usize], 16);
    let rodata = object.section_id(StandardSection::ReadOnlyData);
    object.append_section_data(rodata, &vec![1; constants as usize], 16);
    let data = object.section_id(StandardSection::Data);
    object.append_section_data(data, &[2; 5000], 16);
    object.add_symbol(Symbol {
        name: b"_start".to_vec(),
        value: 0,
        size: text,
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(code),
        flags: SymbolFlags::None,
    });
    let path = dir.join(format!("{arch:?}-{text}-{constants}.o"));
    std::fs::write(&path, object.write().unwrap()).unwrap();
    path
}

fn link(tool: &[&str], options: &[&str], input: &Path) -> (Elf, FileVerdict) {
    let output = input.with_extension("out");
    let result = Command::new(tool[0])
        .args(&tool[1..])
        .args(options)
        .arg(input)
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}: install what `scripts/deps check` lists", tool[0]));
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{tool:?} {options:?}: {said}");
    judge_file(&output)
}

fn judge_file(path: &Path) -> (Elf, FileVerdict) {
    let file = FileSource::new(std::fs::File::open(path).unwrap()).unwrap();
    let elf = Elf::read(&file).unwrap();
    let verdict = judge(&elf);
    (elf, verdict)
}

/// What follows `-Wl,` in flags for the compiler driver.
fn driver_flags(flags: &str) -> Vec<&str> {
    flags
        .split(' ')
        .flat_map(|flag| flag.strip_prefix("-Wl,").expect(flag).split(','))
        .collect()
}

/// Links as is and, if there is a cause, again with the fix. Returns the first
/// verdict's cause.
fn link_and_repair(tool: &Tool, mode: &[&str], input: &Path) -> Cause {
    let (elf, verdict) = link(tool.1, mode, input);
    assert_eq!(elf.linker.name, tool.0, "{}", elf.linker);
    let main = verdict.main().expect("there is text");
    let Some(fix) = fix(&elf, main) else {
        assert_eq!(verdict.gain, 0, "{main:?}");
        return main.cause;
    };
    let [(_, flags)] = &fix.flags[..] else {
        panic!("the linker is known, so there is one set of flags: {fix:?}");
    };
    let options = [mode, &driver_flags(flags)].concat();
    let (_, repaired) = link(tool.1, &options, input);
    let after = repaired.main().unwrap();
    let context = format!("{tool:?} {options:?}: {main:?} became {after:?}");
    assert_eq!(after.cause, Cause::Good, "{context}");
    assert_eq!(repaired.gain, 0, "{context}");
    assert!(repaired.usable >= LEAF_2M, "{context}");
    if !fix.align {
        assert!(repaired.usable >= verdict.gain, "{context}");
    }
    main.cause
}

/// The kinds that a linker can make: gold knows no static PIE.
fn modes(tool: &Tool) -> impl Iterator<Item = (Kind, &'static [&'static str])> {
    let gold = tool.0 == LinkerName::Gold;
    let modes = MODES.into_iter();
    modes.filter(move |(kind, _)| !(gold && *kind == Kind::StaticPie))
}

fn causes(tool: &Tool, input: &Path) -> Vec<Cause> {
    let modes = modes(tool).map(|(_, mode)| mode);
    let all = modes.chain([INTERPRETER]);
    all.map(|mode| link_and_repair(tool, mode, input)).collect()
}

#[test]
fn large_text_of_each_linker_has_its_cause_and_the_flags_remove_it() {
    use Cause::{Good, GoodByMmap, MaxPageSize, PageShift};
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 5 * M, 300_000);
    for tool in installed(&X86_64) {
        let expected = match tool.0 {
            // position-dependent, static PIE, library, PIE
            LinkerName::Gnu => vec![Good, GoodByMmap, GoodByMmap, MaxPageSize],
            LinkerName::Gold => vec![Good, GoodByMmap, MaxPageSize],
            _ => vec![PageShift; 4],
        };
        assert_eq!(causes(tool, &input), expected, "{tool:?}");
    }
    // p_align of 64K: ld.so and the kernel align to that and no further.
    let input = object(dir.path(), Architecture::Aarch64, 5 * M, 300_000);
    for tool in installed(&ARM64) {
        let expected = match tool.0 {
            LinkerName::Gnu => vec![Good, MaxPageSize, MaxPageSize, MaxPageSize],
            LinkerName::Gold => vec![Good, MaxPageSize, MaxPageSize],
            _ => vec![PageShift; 4],
        };
        assert_eq!(causes(tool, &input), expected, "{tool:?}");
    }
}

#[test]
fn text_that_straddles_a_boundary_is_moved_onto_one() {
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 5 * M / 2, M);
    for tool in installed(&X86_64) {
        // gold puts code and constants together, from the first byte on.
        let expected = match tool.0 {
            LinkerName::Gold => [Cause::Good, Cause::MaxPageSize],
            _ => [Cause::Straddles; 2],
        };
        for (mode, expected) in [&[], INTERPRETER].into_iter().zip(expected) {
            assert_eq!(link_and_repair(tool, mode, &input), expected, "{tool:?}");
        }
    }
}

#[test]
fn code_that_only_fills_a_block_with_its_constants_is_blamed_on_separate_code() {
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 3 * M / 2, M);
    for tool in installed(&X86_64) {
        let expected = match tool.0 {
            LinkerName::Gold => Cause::Good,
            _ => Cause::SeparateCode,
        };
        assert_eq!(link_and_repair(tool, &[], &input), expected, "{tool:?}");
    }
}

#[test]
fn a_base_that_is_no_multiple_of_the_leaf_is_named_and_moved() {
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 5 * M, 300_000);
    for tool in installed(&X86_64[..2]) {
        let mode = ["-Ttext-segment=0x410000"];
        assert_eq!(
            link(tool.1, &mode, &input).1.main().unwrap().cause,
            Cause::Base
        );
        assert_eq!(link_and_repair(tool, &mode, &input), Cause::Base);
    }
    for tool in installed(&X86_64[2..]) {
        let mode = ["--image-base=0x410000", "--no-rosegment"];
        assert_eq!(
            link_and_repair(tool, &mode, &input),
            Cause::Base,
            "{tool:?}"
        );
    }
}

#[test]
fn small_code_is_too_small_on_x86_and_fine_at_64k_on_arm64() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(Architecture, &'static [Tool], Cause); 2] = [
        (Architecture::X86_64, &X86_64, Cause::TooSmall),
        (Architecture::Aarch64, &ARM64[..2], Cause::Good),
    ];
    for (arch, tools, expected) in cases {
        let input = object(dir.path(), arch, 200_000, 1000);
        for tool in installed(tools) {
            let (_, verdict) = link(tool.1, INTERPRETER, &input);
            let main = verdict.main().unwrap();
            assert_eq!(main.cause, expected, "{tool:?} {main:?}");
            assert_eq!(verdict.gain, 0);
        }
    }
}

#[test]
fn every_kind_of_file_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 1000, 10);
    for tool in installed(&X86_64) {
        for (kind, mode) in modes(tool) {
            let (elf, _) = link(tool.1, mode, &input);
            assert_eq!(elf.kind, kind, "{tool:?} {mode:?}");
            assert!(!elf.dynamic && elf.sections.symbols, "{tool:?} {mode:?}");
        }
        let (elf, _) = link(tool.1, INTERPRETER, &input);
        assert_eq!((elf.kind, elf.dynamic), (Kind::Pie, true), "{tool:?}");
    }
}

/// What dh_strip does to Debian's programs.
#[test]
fn without_its_comment_a_linker_is_told_by_the_layout() {
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 5 * M, 300_001);
    for tool in installed(&X86_64) {
        link(tool.1, INTERPRETER, &input);
        let linked = input.with_extension("out");
        let status = Command::new("x86_64-linux-gnu-objcopy")
            .args(["--strip-all", "--remove-section=.comment"])
            .arg(&linked)
            .status()
            .expect("objcopy, from Debian's binutils");
        assert!(status.success());
        let (elf, _) = judge_file(&linked);
        let expected = match tool.0 {
            LinkerName::Mold => LinkerName::Lld, // "lld or mold"
            name => name,
        };
        assert_eq!(elf.linker.name, expected, "{tool:?}");
        assert!(!elf.sections.symbols);
    }
}

#[test]
fn a_separate_debug_file_is_not_taken_for_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let input = object(dir.path(), Architecture::X86_64, 5 * M, 300_000);
    link(X86_64[0].1, INTERPRETER, &input);
    let linked = input.with_extension("out");
    let status = Command::new("x86_64-linux-gnu-objcopy")
        .arg("--only-keep-debug")
        .arg(&linked)
        .status()
        .expect("objcopy, from Debian's binutils");
    assert!(status.success());
    let (elf, verdict) = judge_file(&linked);
    assert!(elf.sections.debug_only && elf.segments.is_empty());
    assert_eq!((verdict.text, verdict.main), (0, None));
}
