// SPDX-License-Identifier: GPL-2.0-only
//! The guest's first and only root: the `wideleaf-guest` binary and the job; or, where the lab did
//! not build the kernel, a command and what it needs.

use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::path::Path;
use wideleaf_elf::{Class, Elf, Kind, Machine, Order};
use wideleaf_guest::command::PATH as COMMAND_PATH;
use wideleaf_kbuild::Arch;

/// Writes an uncompressed cpio archive (newc, see the kernel's
/// `Documentation/driver-api/early-userspace/buffer-format.rst`) to `out`:
/// `/init` is `binary`, `/job.json` is `job`.
pub fn write(out: &Path, binary: &Path, arch: Arch, job: &[u8]) -> Result<()> {
    check(binary, arch)?;
    let init = read(binary)?;
    put(
        out,
        &[],
        &[file("init", 0o755, &init), file("job.json", 0o644, job)],
    )
}

/// Writes an initramfs whose init runs `words`, and then ends the machine.
///
/// Without `below` the first word is a static program of this machine's, which goes with it. With
/// `below`, an initramfs, it is one of the programs in there: the kernel unpacks one archive after
/// the other (Documentation/driver-api/early-userspace/buffer-format.rst).
///
/// # Errors
///
/// If a file cannot be read, or cannot be run in the guest.
pub fn write_command(
    out: &Path,
    binary: &Path,
    arch: Arch,
    words: &[String],
    below: Option<&Path>,
) -> Result<()> {
    check(binary, arch)?;
    let init = read(binary)?;
    let Some((first, rest)) = words.split_first() else {
        bail!("no command");
    };
    let (base, program, first) = match below {
        Some(below) => (padded(read(below)?, 4), None, first.clone()),
        None => {
            let path = Path::new(first);
            check(path, arch)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (Vec::new(), Some(read(path)?), format!("bin/{name}"))
        }
    };
    let words: Vec<_> = [&first].into_iter().chain(rest).collect();
    let words = serde_json::to_vec(&words)?;
    let mut files = vec![
        file("init", 0o755, &init),
        file(COMMAND_PATH.trim_start_matches('/'), 0o644, &words),
    ];
    files.extend((program.iter()).map(|program| file(&first, 0o755, program)));
    put(out, &base, &files)
}

/// Checks that `path` is an initramfs: a cpio archive, or one that is packed in a way that kernels
/// know (lib/decompress.c).
///
/// # Errors
///
/// If it cannot be read, or is something else.
pub fn check_archive(path: &Path) -> Result<()> {
    const KINDS: [&[u8]; 9] = [
        b"070701",
        b"070702",
        b"\x1f\x8b",
        b"BZh",
        b"\xfd7zXZ",
        b"\x5d\x00\x00",
        b"\x89LZO",
        b"\x02\x21\x4c\x18",
        b"\x28\xb5\x2f\xfd",
    ];
    let mut head = Vec::new();
    (std::fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut head)))
        .with_context(|| format!("{}: cannot read the initramfs", path.display()))?;
    if !KINDS.iter().any(|kind| head.starts_with(kind)) {
        bail!(
            "{}: no initramfs: it is no cpio archive (newc), packed or not",
            path.display()
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Archives begin at a multiple of four bytes; the kernel skips zeros between and behind them.
fn padded(mut archive: Vec<u8>, unit: usize) -> Vec<u8> {
    archive.resize(archive.len().next_multiple_of(unit), 0);
    archive
}

/// QEMU has the archive of an x86 guest end at most a byte before the end of low memory, and begin
/// with a page (`x86_load_linux()`). The firmware of `microvm` writes the ACPI tables into the last
/// page. So whole pages leave that one alone.
const PAGE: usize = 4096;

/// A file of the archive: its name, permissions, contents.
type Packed<'a> = (&'a str, u32, &'a [u8]);

fn file<'a>(name: &'a str, mode: u32, data: &'a [u8]) -> Packed<'a> {
    (name, mode, data)
}

fn put(out: &Path, base: &[u8], files: &[Packed<'_>]) -> Result<()> {
    let archive = archive(base, files).context("cannot compose the initramfs")?;
    std::fs::write(out, padded(archive, PAGE))
        .with_context(|| format!("cannot write {}", out.display()))
}

/// Checks that `binary` can be the init of such a guest.
///
/// # Errors
///
/// If it cannot be read or is not a static binary of that architecture.
pub fn check(binary: &Path, arch: Arch) -> Result<()> {
    check_binary(&read(binary)?, arch).with_context(|| binary.display().to_string())
}

fn archive(base: &[u8], files: &[Packed<'_>]) -> std::io::Result<Vec<u8>> {
    const DIR: u32 = 0o040_755;
    const NODE: u32 = 0o020_600;
    const FILE: u32 = 0o100_000;
    let mut out = base.to_vec();
    for (ino, name) in (1..).zip(["bin", "dev", "proc", "sys", "mnt", "tmp"]) {
        out = cpio::newc::Builder::new(name)
            .ino(ino)
            .mode(DIR)
            .nlink(2)
            .write(out, 0)
            .finish()?;
    }
    // The kernel opens it for init's output before devtmpfs is mounted.
    out = cpio::newc::Builder::new("dev/console")
        .ino(100)
        .mode(NODE)
        .rdev_major(5)
        .rdev_minor(1)
        .write(out, 0)
        .finish()?;
    for (ino, &(name, mode, data)) in (101..).zip(files) {
        let size = u32::try_from(data.len()).map_err(std::io::Error::other)?;
        let mut file = cpio::newc::Builder::new(name)
            .ino(ino)
            .mode(FILE | mode)
            .write(out, size);
        file.write_all(data)?;
        out = file.finish()?;
    }
    cpio::newc::trailer(out)
}

/// A binary of the wrong kind gives the kernel's unhelpful "No working init
/// found", so it is looked at here.
fn check_binary(file: &[u8], arch: Arch) -> Result<()> {
    let elf = Elf::read(&file)?;
    let wanted = match arch {
        Arch::Arm64 => Machine::ARM64,
        Arch::X86_64 => Machine::X86_64,
    };
    if (elf.class, elf.order, elf.machine) != (Class::Bits64, Order::Little, wanted) {
        bail!("built for {}, but the guest is {arch}", elf.machine);
    }
    if elf.dynamic {
        bail!("dynamically linked, but the guest has no libraries: build it for musl");
    }
    if !matches!(elf.kind, Kind::PositionDependent | Kind::StaticPie) {
        bail!("{}, but the guest needs a program", elf.kind.describe());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// An ET_EXEC with one loaded segment, and an interpreter if asked for.
    fn elf(machine: u16, interpreter: bool) -> Vec<u8> {
        const INTERPRETER: &[u8] = b"/lib/ld.so\0";
        let headers = 1 + u64::from(interpreter);
        let name = 64 + 56 * headers;
        let size = name + INTERPRETER.len() as u64;
        let segment = |kind: u32, offset: u64, len: u64, align: u64| {
            let mut header = [kind.to_le_bytes(), 5u32.to_le_bytes()].concat();
            let address = 0x40_0000 + offset;
            for word in [offset, address, address, len, len, align] {
                header.extend(word.to_le_bytes());
            }
            header
        };
        let mut elf = vec![0; 64];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        for (at, half) in [
            (16, 2),
            (18, machine),
            (20, 1),
            (52, 64),
            (54, 56),
            (56, headers as u16),
        ] {
            elf[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        elf[32..40].copy_from_slice(&64u64.to_le_bytes());
        if interpreter {
            elf.extend(segment(3, name, INTERPRETER.len() as u64, 1));
        }
        elf.extend(segment(1, 0, size, 0x1000));
        elf.extend(INTERPRETER);
        elf
    }

    #[test]
    fn the_wrong_binary_is_refused_with_the_reason() {
        let text = |elf: &[u8]| format!("{:#}", check_binary(elf, Arch::Arm64).unwrap_err());
        assert!(text(b"#!/bin/sh").contains("ELF"));
        assert!(text(&elf(62, false)).contains("built for x86_64"));
        assert!(text(&elf(183, true)).contains("musl"));
        check_binary(&elf(183, false), Arch::Arm64).unwrap();
    }

    /// Mode and content of each file of an archive.
    fn unpacked(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut rest = bytes;
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return found;
            }
            let mut data = Vec::new();
            reader.read_to_end(&mut data).unwrap();
            let mode = reader.entry().mode();
            found.insert(reader.entry().name().to_string(), (mode, data));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn a_program_of_this_machine_goes_with_its_command() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("guest"), elf(183, false)).unwrap();
        std::fs::write(path("test"), elf(183, false)).unwrap();
        let words = [path("test").display().to_string(), "a b".into()];
        let write = |words: &[String]| {
            write_command(&path("out"), &path("guest"), Arch::Arm64, words, None)
        };
        write(&words).unwrap();
        let found = unpacked(&std::fs::read(path("out")).unwrap());
        assert_eq!(found["command.json"].1, br#"["bin/test","a b"]"#);
        assert_eq!(found["bin/test"], (0o100_755, elf(183, false)));

        std::fs::write(path("test"), elf(62, false)).unwrap();
        let error = format!("{:#}", write(&words).unwrap_err());
        assert!(error.contains("test: built for x86_64"), "{error}");
    }

    #[test]
    fn a_command_of_an_initramfs_leaves_it_as_it_is_but_for_init() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("guest"), elf(183, false)).unwrap();
        // Not a multiple of four bytes, as packed ones are.
        std::fs::write(path("below"), b"\x1f\x8b123").unwrap();
        let (words, below) = (["sh".to_string()], path("below"));
        let (out, guest) = (path("out"), path("guest"));
        write_command(&out, &guest, Arch::Arm64, &words, Some(&below)).unwrap();
        let out = std::fs::read(out).unwrap();
        assert_eq!(out[..8], *b"\x1f\x8b123\0\0\0");
        let found = unpacked(&out[8..]);
        assert_eq!(found["command.json"].1, br#"["sh"]"#);
        assert!(!found.contains_key("sh") && found.contains_key("init"));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("initrd");
        for (head, good) in [
            ("070701", true),
            ("BZh9", true),
            ("#!/bin/sh", false),
            ("", false),
        ] {
            std::fs::write(&file, head).unwrap();
            assert_eq!(check_archive(&file).is_ok(), good, "{head}");
        }
    }

    #[test]
    fn cpio_finds_both_files_with_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("wideleaf");
        std::fs::write(&binary, elf(62, false)).unwrap();
        let out = dir.path().join("initramfs");
        write(&out, &binary, Arch::X86_64, b"{\"job\":1}").unwrap();
        let archive = std::fs::read(&out).unwrap();
        assert_eq!(
            archive.len() % PAGE,
            0,
            "reaches into the page of the ACPI tables"
        );
        let found = unpacked(&archive);
        assert_eq!(found["init"], (0o100_755, elf(62, false)));
        assert_eq!(found["job.json"].1, b"{\"job\":1}");
        assert_eq!(found["dev/console"].0, 0o020_600);
    }
}
