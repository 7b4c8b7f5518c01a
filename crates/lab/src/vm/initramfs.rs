// SPDX-License-Identifier: GPL-2.0-only
//! The guest's first and only root: the `wideleaf-guest` binary and the job.

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::Path;
use wideleaf_elf::{Class, Elf, Kind, Machine, Order};
use wideleaf_kbuild::Arch;

/// Writes an uncompressed cpio archive (newc, see the kernel's
/// `Documentation/driver-api/early-userspace/buffer-format.rst`) to `out`:
/// `/init` is `binary`, `/job.json` is `job`.
pub fn write(out: &Path, binary: &Path, arch: Arch, job: &[u8]) -> Result<()> {
    let init =
        std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    check_binary(&init, arch).with_context(|| binary.display().to_string())?;
    let archive = archive(&init, job).context("cannot compose the initramfs")?;
    std::fs::write(out, archive).with_context(|| format!("cannot write {}", out.display()))
}

/// Checks that `binary` can be the init of such a guest.
///
/// # Errors
///
/// If it cannot be read or is not a static binary of that architecture.
pub fn check(binary: &Path, arch: Arch) -> Result<()> {
    let elf = std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    check_binary(&elf, arch).with_context(|| binary.display().to_string())
}

fn archive(init: &[u8], job: &[u8]) -> std::io::Result<Vec<u8>> {
    const DIR: u32 = 0o040_755;
    const NODE: u32 = 0o020_600;
    const FILE: u32 = 0o100_000;
    let mut out = Vec::with_capacity(init.len() + job.len() + 4096);
    for (ino, name) in (1..).zip(["dev", "proc", "sys", "mnt", "tmp"]) {
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
    for (ino, name, mode, data) in [(101, "init", 0o755, init), (102, "job.json", 0o644, job)] {
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

    #[test]
    fn cpio_finds_both_files_with_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("wideleaf");
        std::fs::write(&binary, elf(62, false)).unwrap();
        let out = dir.path().join("initramfs");
        write(&out, &binary, Arch::X86_64, b"{\"job\":1}").unwrap();
        let bytes = std::fs::read(&out).unwrap();
        let mut found = std::collections::BTreeMap::new();
        let mut rest = bytes.as_slice();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut data = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut data).unwrap();
            let mode = reader.entry().mode();
            found.insert(reader.entry().name().to_string(), (mode, data));
            rest = reader.finish().unwrap();
        }
        assert_eq!(found["init"], (0o100_755, elf(62, false)));
        assert_eq!(found["job.json"].1, b"{\"job\":1}");
        assert_eq!(found["dev/console"].0, 0o020_600);
    }
}
