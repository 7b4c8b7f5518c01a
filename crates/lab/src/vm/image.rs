// SPDX-License-Identifier: GPL-2.0-only
//! The kind of a kernel image by its first bytes: its architecture, and whether QEMU can start it.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use wideleaf_kbuild::Arch;

/// Where the architecture's magic is in images that begin as PE files do
/// (Documentation/arch/arm64/booting.rst).
const MAGIC: usize = 0x38;

/// Where an ELF file says which machine it is for.
const E_MACHINE: usize = 18;

/// Bytes that tell everything.
const HEAD: u64 = 0x400;

/// The remedy for an image that cannot be started.
const REMEDY: &str =
    "name arch/arm64/boot/Image or arch/x86/boot/bzImage of the kernel's build folder";

/// The architecture of the kernel at `path`.
///
/// # Errors
///
/// If it cannot be read, or QEMU cannot start it as a kernel of arm64 or x86-64.
pub fn arch(path: &Path) -> Result<Arch> {
    let what = || format!("{}: cannot read the kernel", path.display());
    let mut head = Vec::new();
    let file = File::open(path).with_context(what)?;
    (&file)
        .take(HEAD)
        .read_to_end(&mut head)
        .with_context(what)?;
    if head.starts_with(b"\x1f\x8b") {
        // QEMU unpacks an arm64 Image of `make Image.gz`.
        let mut inner = Vec::new();
        let file = File::open(path).with_context(what)?;
        let unpacked = flate2::read::GzDecoder::new(file);
        (unpacked.take(HEAD).read_to_end(&mut inner))
            .with_context(|| format!("{}: cannot unpack it", path.display()))?;
        head = inner;
    }
    told(&head).with_context(|| path.display().to_string())
}

fn told(head: &[u8]) -> Result<Arch> {
    let at = |place: usize, bytes: &[u8]| {
        (head.get(place..)).is_some_and(|rest| rest.starts_with(bytes))
    };
    if at(MAGIC, b"ARM\x64") {
        return Ok(Arch::Arm64);
    }
    if at(0, b"MZ") && at(4, b"zimg") {
        return zboot(head);
    }
    if at(0x202, b"HdrS") {
        // XLF_KERNEL_64, the first bit of xloadflags (Documentation/arch/x86/boot.rst).
        let is_64_bit = head.get(0x236).is_some_and(|flags| flags & 1 != 0);
        if !is_64_bit {
            bail!("a kernel for x86 of 32 bits: the referee knows arm64 and x86_64");
        }
        return Ok(Arch::X86_64);
    }
    if at(0, b"\x7fELF") {
        // QEMU starts one of x86-64 if it was built with CONFIG_PVH, and says so if not.
        if at(E_MACHINE, &62_u16.to_le_bytes()) {
            return Ok(Arch::X86_64);
        }
        bail!("an ELF file, as vmlinux is, which QEMU does not start: {REMEDY}");
    }
    let others: [(usize, &[u8], &str); 3] = [
        (MAGIC, b"RSC\x05", "RISC-V"),
        (
            MAGIC,
            b"\xcd\x23\x82\x81",
            "another architecture than arm64 or x86_64",
        ),
        (0x24, b"\x18\x28\x6f\x01", "32-bit ARM"),
    ];
    if let Some((.., name)) = others.iter().find(|(place, magic, _)| at(*place, magic)) {
        bail!("a kernel for {name}: the referee knows arm64 and x86_64");
    }
    bail!("no kernel image: {REMEDY}")
}

/// A `vmlinuz.efi` (CONFIG_EFI_ZBOOT), which QEMU unpacks if gzip packed it.
fn zboot(head: &[u8]) -> Result<Arch> {
    const ARM64: &[u8] = &0xaa64_u16.to_le_bytes();
    let word = |place: usize| {
        Some(u32::from_le_bytes(
            head.get(place..place + 4)?.try_into().ok()?,
        ))
    };
    // The machine stands behind the signature of the PE header.
    let header = word(0x3c).unwrap_or_default() as usize;
    if head.get(header + 4..header + 6) != Some(ARM64) {
        bail!("an EFI image for another architecture than arm64: {REMEDY}");
    }
    if !(head.get(0x18..)).is_some_and(|kind| kind.starts_with(b"gzip")) {
        bail!("an EFI image that is not packed by gzip, which QEMU cannot unpack: {REMEDY}");
    }
    Ok(Arch::Arm64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn image(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        for (at, part) in parts {
            bytes[*at..at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    #[test]
    fn images_tell_their_architecture() {
        assert_eq!(told(&image(&[(0x38, b"ARM\x64")])).unwrap(), Arch::Arm64);
        let x86 = image(&[(0x202, b"HdrS"), (0x236, b"\x3f")]);
        assert_eq!(told(&x86).unwrap(), Arch::X86_64);
        let vmlinux = image(&[(0, b"\x7fELF"), (E_MACHINE, &[62])]);
        assert_eq!(told(&vmlinux).unwrap(), Arch::X86_64);
        let parts: [(usize, &[u8]); 5] = [
            (0, b"MZ"),
            (4, b"zimg"),
            (0x18, b"gzip"),
            (0x3c, &[0x40]),
            (0x44, &[0x64, 0xaa]),
        ];
        assert_eq!(told(&image(&parts)).unwrap(), Arch::Arm64);
    }

    #[test]
    fn a_packed_image_is_looked_into() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut packer = flate2::write::GzEncoder::new(file.as_file(), Default::default());
        packer.write_all(&image(&[(0x38, b"ARM\x64")])).unwrap();
        packer.finish().unwrap();
        assert_eq!(arch(file.path()).unwrap(), Arch::Arm64);
    }

    #[test]
    fn other_files_are_refused_with_what_they_are() {
        let zboot = |kind: &'static [u8]| {
            let parts: [(usize, &[u8]); 5] = [
                (0, b"MZ"),
                (4, b"zimg"),
                (0x18, kind),
                (0x3c, &[0x40]),
                (0x44, &[0x64, 0xaa]),
            ];
            image(&parts)
        };
        for (bytes, words) in [
            (image(&[(0, b"\x7fELF")]), "vmlinux"),
            (image(&[(0x202, b"HdrS")]), "32 bits"),
            (image(&[(0x38, b"RSC\x05")]), "RISC-V"),
            (image(&[(0x24, b"\x18\x28\x6f\x01")]), "32-bit ARM"),
            (zboot(b"zstd"), "gzip"),
            (b"#!/bin/sh\n".to_vec(), "no kernel image"),
            (Vec::new(), "bzImage"),
        ] {
            let error = told(&bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        let error = format!("{:#}", arch(Path::new("/dev/null/Image")).unwrap_err());
        assert!(error.contains("/dev/null/Image"), "{error}");
    }
}
