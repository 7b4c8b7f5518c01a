// SPDX-License-Identifier: GPL-2.0-only
//! Causes that no linker of tests/linkers.rs gives rise to.

#[allow(dead_code)]
mod common;

use common::image::{ET_DYN, ET_EXEC, Image, R, W, X, load};
use std::path::Path;
use std::process::Command;
use wideleaf_elf::{
    Cause, Elf, FileSource, FileSystem, FileVerdict, Kind, LEAF_2M, LinkerName, Packer, explain,
    fix, judge,
};

const M: u64 = 1 << 20;

fn read(bytes: &[u8]) -> (Elf, FileVerdict) {
    let elf = Elf::read(&bytes).unwrap();
    let verdict = judge(&elf);
    (elf, verdict)
}

fn main_text(elf: &Elf, verdict: &FileVerdict) -> String {
    explain(elf, verdict.main().unwrap())
}

/// UPX 4.2 leaves two segments: the room that the program will take, and this,
/// with `l_info` behind the program headers.
#[test]
fn what_upx_has_packed_is_no_text() {
    let programs = vec![
        load(R | W, 0, 0x40_0000, 4096, 4096),
        load(R | X, 0, 0x80_0000, 5 * M, 4096),
    ];
    let mut bytes = Image::new(true, false, ET_EXEC, programs).bytes();
    let (_, plain) = read(&bytes);
    assert!(plain.text == 5 * M && plain.usable == 4 * M);
    let mark = 64 + 2 * 56 + 4;
    bytes[mark..mark + 4].copy_from_slice(b"UPX!");
    let (elf, verdict) = read(&bytes);
    assert_eq!(elf.packer, Some(Packer::Upx));
    assert_eq!((verdict.text, verdict.usable, verdict.gain), (0, 0, 0));
    assert_eq!(verdict.main().unwrap().cause, Cause::Packed);
    assert!(main_text(&elf, &verdict).contains("upx -d"));
    assert_eq!(fix(&elf, verdict.main().unwrap()), None);
}

#[test]
fn a_file_that_ends_with_its_program_headers_is_read() {
    let image = Image::new(
        true,
        false,
        ET_EXEC,
        vec![load(R | X, 0, 0x40_0000, 120, 4096)],
    );
    assert_eq!(read(&image.bytes()).0.packer, None);
}

/// As vmlinux: the first segment starts behind the headers.
#[test]
fn a_base_is_blamed_only_on_what_starts_with_the_file() {
    let at = |offset: u64, address: u64| {
        let programs = vec![load(R | X, offset, address, 5 * M, 4096)];
        read(&Image::new(true, false, ET_EXEC, programs).bytes())
    };
    let (elf, verdict) = at(0, 0x41_0000);
    assert_eq!(verdict.main().unwrap().cause, Cause::Base);
    assert!(main_text(&elf, &verdict).contains("linked to address 0x410000"));

    let (elf, verdict) = at(0x1000, 0xffff_ffff_8100_0000);
    assert_eq!(verdict.main().unwrap().cause, Cause::NotCongruent);
    let text = main_text(&elf, &verdict);
    assert!(
        text.contains("address 0xffffffff81000000 and offset 0x1000"),
        "{text}"
    );
    let fix = fix(&elf, verdict.main().unwrap()).unwrap();
    assert!(
        fix.flags.iter().all(|(_, f)| !f.contains("text-segment")),
        "{fix:?}"
    );
}

/// fs/binfmt_elf.c and glibc put the first segment at a multiple of p_align, not
/// what would be address 0. Tried with lld's --image-base on Linux 6.18.
#[test]
fn a_base_that_loaders_do_not_keep_does_not_count() {
    let judged = |shift: u64, align: u64| {
        let programs = vec![
            load(R, 0, 0x1_0000, 0x1000, align),
            load(R | X, 0x1000, 0x1_1000 + shift, 5 << 20, align),
        ];
        let mut image = Image::new(true, false, ET_DYN, programs);
        image.machine = 183;
        let (elf, verdict) = read(&image.bytes());
        let align = fix(&elf, &verdict.segments[1]).is_some_and(|fix| fix.align);
        (verdict.segments[1].cause, verdict.usable, align)
    };
    // As Go links for arm64: only p_align is in the way, and align cannot help.
    assert_eq!(judged(0, 0x1_0000), (Cause::MaxPageSize, 0, false));
    assert_eq!(judged(0, LEAF_2M), (Cause::Good, LEAF_2M, false));
    // Congruent in the file only.
    let (cause, usable, align) = judged(LEAF_2M - 0x1_0000, LEAF_2M);
    assert_eq!((cause, usable, align), (Cause::NotCongruent, 0, false));
}

/// lld's library at an odd base, relinked with the flags that are named for it.
#[test]
fn the_flags_named_for_an_odd_base_move_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("x.c");
    std::fs::write(&source, "__asm__(\".text\\n.skip 5 << 20\\n\");\n").unwrap();
    let link = |options: &[&str]| {
        let out = dir.path().join("x.so");
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-nostdlib", "-fuse-ld=lld"])
            .args(options);
        let done = gcc.arg("-o").arg(&out).arg(&source).output();
        if !done.is_ok_and(|done| done.status.success()) {
            return None;
        }
        let elf = Elf::read(&FileSource::new(std::fs::File::open(&out).unwrap()).unwrap()).unwrap();
        let verdict = judge(&elf);
        Some((elf, verdict))
    };
    let odd = ["-Wl,--image-base=0x10000", "-Wl,-z,max-page-size=0x200000"];
    let Some((elf, verdict)) = link(&odd) else {
        eprintln!("SKIPPED: no lld");
        return;
    };
    let main = verdict.main().unwrap();
    assert_eq!((main.cause, verdict.usable), (Cause::PageShift, 0));
    assert!(main_text(&elf, &verdict).contains("the first segment's, 0x10000"));
    let fix = fix(&elf, main).unwrap();
    assert!(!fix.align);
    let flags: Vec<&str> = fix.flags[0].1.split(' ').collect();
    let (_, verdict) = link(&flags).unwrap();
    assert_eq!(verdict.main().unwrap().cause, Cause::Good);
}

#[test]
fn whether_mmap_aligns_is_the_file_systems_word() {
    let library = Image::new(true, false, ET_DYN, vec![load(R | X, 0, 0, 5 * M, 4096)]);
    let judged = |file_system| {
        let mut elf = Elf::read(&&library.bytes()[..]).unwrap();
        elf.file_system = file_system;
        assert_eq!(elf.kind, Kind::Library);
        let verdict = judge(&elf);
        (verdict.main().unwrap().cause, main_text(&elf, &verdict))
    };
    let (cause, text) = judged(None);
    assert!(
        cause == Cause::GoodByMmap && text.contains("not overlayfs"),
        "{text}"
    );
    let system = |name, aligns| Some(FileSystem { name, aligns });
    let (cause, text) = judged(system("ext4", true));
    assert!(
        cause == Cause::GoodByMmap && text.contains("here, because ext4"),
        "{text}"
    );
    let (cause, text) = judged(system("overlay", false));
    assert!(
        cause == Cause::MaxPageSize && text.contains("overlay does not"),
        "{text}"
    );
}

const GO: &str = r#"package main
import ("crypto/tls"; "encoding/json"; "fmt"; "go/types"; "html/template"; "net/http"; "os")
func main() {
	b, _ := json.Marshal([]int{1})
	fmt.Println(http.StatusText(200), tls.VersionName(0x303), string(b))
	if len(os.Args) > 5 {
		http.ListenAndServe(":1", nil)
		template.New("x").Execute(os.Stdout, nil)
		new(types.Config).Check("", nil, nil, nil)
	}
}
"#;

/// Builds a Go program of some 4M of text; `None` without Go.
fn go(dir: &Path, options: &[&str]) -> Option<(Elf, FileVerdict)> {
    let output = dir.join("out");
    let result = Command::new("go")
        .args(["build", "-buildmode=pie"])
        .args(options)
        .arg("-o")
        .args([&output, &dir.join("main.go")])
        .env("GO111MODULE", "off")
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{options:?}: {said}");
    let elf = Elf::read(&FileSource::new(std::fs::File::open(&output).unwrap()).unwrap()).unwrap();
    let verdict = judge(&elf);
    Some((elf, verdict))
}

#[test]
fn the_flags_named_for_go_build_remove_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("main.go"), GO).unwrap();
    let Some((elf, verdict)) = go(dir.path(), &[]) else {
        eprintln!("SKIPPED: go is not installed");
        return;
    };
    assert_eq!(elf.linker.name, LinkerName::Go);
    assert_eq!(verdict.main().unwrap().cause, Cause::MaxPageSize);
    let fix = fix(&elf, verdict.main().unwrap()).unwrap();
    let names: Vec<LinkerName> = fix.flags.iter().map(|f| f.0).collect();
    assert_eq!(names, [LinkerName::Go, LinkerName::Gnu]);
    assert_eq!(fix.flags[0].1, "-ldflags=-R=0x200000");
    for (_, flags) in &fix.flags {
        // One word for the shell, which takes the outer quotes away.
        let word = flags.replace('\'', "");
        let (_, after) = go(dir.path(), &[&word]).unwrap();
        let main = after.main().unwrap();
        assert_eq!(main.cause, Cause::Good, "{word}: {main:?}");
        assert!(after.usable >= 2 * M, "{word}");
    }
}
