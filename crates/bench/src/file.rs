// SPDX-License-Identifier: GPL-2.0-only
//! The stub file: a return instruction at every 4K offset, traps everywhere else.
//!
//! A call that goes astray by a byte dies at once instead of sliding into the next stub. The
//! first block carries a line of text behind its stub that names architecture and size, so that
//! the benchmark can refuse to execute a file that was not made for it.

use crate::options::{BadOptions, STUB_SPACING};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use nix::unistd::{AccessFlags, access};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wideleaf_kit::arch::Arch;
use wideleaf_kit::size::long;

const BLOCK: usize = STUB_SPACING as usize;

/// Where the line of text begins in the first block.
const LABEL_AT: usize = 16;
const LABEL: &str = "wideleaf-stubs 1";

/// 4K of the file: the stub, then traps.
#[must_use]
pub fn block(arch: Arch) -> [u8; BLOCK] {
    let (stub, trap): (&[u8], &[u8]) = match arch {
        // ret; brk #0x574c. Not udf, which is all zeros and looks like a hole.
        Arch::Arm64 => (&[0xc0, 0x03, 0x5f, 0xd6], &[0x80, 0xe9, 0x2a, 0xd4]),
        // ret; int3
        Arch::X86_64 => (&[0xc3], &[0xcc]),
    };
    let mut block = [0; BLOCK];
    for (byte, trap) in block.iter_mut().zip(trap.iter().cycle()) {
        *byte = *trap;
    }
    block[..stub.len()].copy_from_slice(stub);
    block
}

fn label(arch: Arch, size: u64) -> String {
    format!("{LABEL} {arch} {size}\n")
}

/// Writes a stub file of `size` bytes, a multiple of 4K, to a stream.
///
/// # Errors
///
/// The stream's own, or `InvalidInput` for an impossible size.
pub fn write(out: &mut impl Write, arch: Arch, size: u64) -> io::Result<()> {
    if let Err(e) = check_size(size) {
        return Err(io::Error::new(ErrorKind::InvalidInput, e.to_string()));
    }
    let block = block(arch);
    let mut first = block;
    let text = label(arch, size);
    first[LABEL_AT..LABEL_AT + text.len()].copy_from_slice(text.as_bytes());
    out.write_all(&first)?;

    // 1 MiB at a time: few system calls, and a chunk that stays in the L2 cache.
    let chunk = block.repeat((1 << 20) / BLOCK);
    let mut left = size - STUB_SPACING;
    while left > 0 {
        let part = left.min(chunk.len() as u64);
        out.write_all(&chunk[..part as usize])?;
        left -= part;
    }
    out.flush()
}

fn check_size(size: u64) -> Result<(), BadOptions> {
    match size {
        0 => Err(BadOptions::EmptyFile),
        _ if !size.is_multiple_of(STUB_SPACING) => Err(BadOptions::FileSize { size }),
        _ => Ok(()),
    }
}

/// Makes a new executable stub file and has it on the disk when it returns.
///
/// # Errors
///
/// If `path` exists, `size` is impossible or does not fit. No part of a file is left behind.
pub fn create(path: &Path, arch: Arch, size: u64) -> Result<()> {
    check_size(size)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)
        .with_context(|| format!("{}: cannot create the stub file", path.display()))?;
    let filled = fill(&mut file, arch, size).with_context(|| {
        format!(
            "{}: cannot write a stub file of {}",
            path.display(),
            long(size)
        )
    });
    if filled.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(path);
    }
    filled
}

/// A stub file without a name, gone when this value is: nothing is left behind whatever happens.
#[derive(Debug)]
pub struct Unnamed(File);

impl Unnamed {
    /// A path by which this process can open it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Makes a stub file without a name on the file system of `dir`, to be executed here.
///
/// # Errors
///
/// If `size` is impossible or does not fit, or `dir` cannot be written or not executed from.
pub fn create_unnamed(dir: &Path, arch: Arch, size: u64) -> Result<Unnamed> {
    check_size(size)?;
    let name = dir.display();
    let mut file = tempfile::tempfile_in(dir)
        .with_context(|| format!("{name}: cannot make a temporary file there"))?;
    file.set_permissions(Permissions::from_mode(0o755))
        .with_context(|| format!("{name}: cannot make a file executable"))?;
    check_mount(dir, &file)?;
    fill(&mut file, arch, size)
        .with_context(|| format!("{name}: cannot write a stub file of {}", long(size)))?;
    Ok(Unnamed(file))
}

/// Writes and syncs.
fn fill(file: &mut File, arch: Arch, size: u64) -> Result<()> {
    let free = free_bytes(file)?;
    // Past it the kernel kills with SIGXFSZ before any write could fail.
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE).context("getrlimit")?;
    ensure!(
        size <= limit,
        "ulimit -f allows files of {limit} bytes; raise it or ask for less"
    );
    ensure!(
        size <= free,
        "the file system has {} MiB free; ask for less or choose another place",
        free >> 20
    );
    match write(file, arch, size).and_then(|()| file.sync_all()) {
        Err(e) if e.kind() == ErrorKind::FileTooLarge => {
            bail!("larger than this file system allows for one file; ask for less")
        }
        other => Ok(other?),
    }
}

fn free_bytes(file: &File) -> Result<u64> {
    let vfs = fstatvfs(file).context("fstatvfs")?;
    Ok(vfs.blocks_available() as u64 * vfs.fragment_size() as u64)
}

/// An opened stub file, known to be one.
#[derive(Debug)]
pub struct StubFile {
    /// Open for reading.
    pub file: File,
    /// Length in bytes.
    pub len: u64,
    /// Whose stubs.
    pub arch: Arch,
}

/// Opens a stub file to be executed here.
///
/// # Errors
///
/// If it is not a stub file for this machine, was cut short, or may not be executed.
pub fn open(path: &Path) -> Result<StubFile> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name}: cannot open the stub file"))?;
    let meta = file
        .metadata()
        .with_context(|| format!("{name}: cannot stat"))?;
    ensure!(
        meta.is_file(),
        "{name}: not a regular file; give a stub file"
    );
    let stubs = read_label(&file, meta.len()).with_context(|| format!("{name}: {HOW_TO_MAKE}"))?;
    ensure!(
        Some(stubs) == Arch::host(),
        "{name}: holds {stubs} stubs, which this machine cannot execute"
    );
    check_executable(path, &file)?;
    Ok(StubFile {
        file,
        len: meta.len(),
        arch: stubs,
    })
}

const HOW_TO_MAKE: &str = "not a usable stub file; make one with `wideleaf bench create`";

/// The architecture that the first block names.
fn read_label(file: &File, len: u64) -> Result<Arch> {
    let mut line = [0; 64];
    let read = file.read_at(&mut line, LABEL_AT as u64)?;
    let line = line[..read]
        .split(|b| *b == b'\n')
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let rest = line
        .strip_prefix(LABEL)
        .with_context(|| format!("no `{LABEL}` at offset {LABEL_AT}"))?;
    let mut words = rest.split_ascii_whitespace();
    let (Some(arch), Some(size)) = (words.next(), words.next()) else {
        bail!("its label `{line}` lacks architecture or size");
    };
    let arch = arch.parse::<Arch>()?;
    ensure!(
        size == len.to_string(),
        "made with {size} bytes, but has {len}"
    );
    Ok(arch)
}

/// mmap would say only EPERM, or nothing at all for a lacking permission bit.
fn check_executable(path: &Path, file: &File) -> Result<()> {
    check_mount(path, file)?;
    access(path, AccessFlags::X_OK)
        .with_context(|| format!("{}: no permission to execute; chmod +x it", path.display()))
}

fn check_mount(path: &Path, file: &File) -> Result<()> {
    let name = path.display();
    let flags = fstatvfs(file)
        .with_context(|| format!("{name}: fstatvfs"))?
        .flags();
    ensure!(
        !flags.contains(FsFlags::ST_NOEXEC),
        "{name}: on a file system mounted noexec; choose one mounted exec"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(arch: Arch, size: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, arch, size).unwrap();
        out
    }

    #[test]
    fn a_stub_at_every_4k_and_traps_between() {
        // Larger than the writer's chunk and not a multiple of it.
        let size = (2 << 20) + 3 * 4096;
        let x86 = made(Arch::X86_64, size);
        assert_eq!(x86.len() as u64, size);
        for block in x86.chunks(4096) {
            assert_eq!(block[..4], [0xc3, 0xcc, 0xcc, 0xcc]);
            assert_eq!(block[100..], [0xcc; 3996]);
        }
        let arm = made(Arch::Arm64, size);
        for block in arm.chunks(4096) {
            let mut words = block
                .chunks(4)
                .map(|w| u32::from_le_bytes(w.try_into().unwrap()));
            assert_eq!(words.next(), Some(0xd65f_03c0), "ret");
            assert!(
                words.skip(24).all(|w| w == 0xd420_0000 | 0x574c << 5),
                "brk #0x574c"
            );
        }
    }

    #[test]
    fn the_label_stays_in_the_first_block_and_off_the_stub() {
        let file = made(Arch::Arm64, 8192);
        assert!(file[16..].starts_with(b"wideleaf-stubs 1 arm64 8192\n"));
        assert_eq!(file[4096..], block(Arch::Arm64));
    }

    #[test]
    fn impossible_sizes_are_refused_before_a_file_exists() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stubs");
        let error = |size| format!("{:#}", create(&path, Arch::X86_64, size).unwrap_err());
        assert!(error(0).contains("0 bytes"));
        assert!(error(5000).contains("5000") && error(5000).contains("8K"));
        assert!(error(1 << 60).contains("free"), "{}", error(1 << 60));
        assert!(!path.exists());
    }

    #[test]
    fn an_unnamed_file_can_be_opened_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let stubs = create_unnamed(dir.path(), Arch::host().unwrap(), 8192).unwrap();
        assert_eq!(open(&stubs.path()).unwrap().len, 8192);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = create_unnamed(Path::new("/no/such"), Arch::Arm64, 8192).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }

    #[test]
    fn only_whole_executable_stub_files_of_this_machine_open() {
        let dir = tempfile::tempdir().unwrap();
        let host = Arch::host().unwrap();
        let path = dir.path().join("stubs");
        create(&path, host, 16_384).unwrap();
        let stubs = open(&path).unwrap();
        assert_eq!((stubs.len, stubs.arch), (16_384, host));
        assert!(
            create(&path, host, 16_384).is_err(),
            "an existing file is never overwritten"
        );

        let error = || format!("{:#}", open(&path).unwrap_err());
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(8192)
            .unwrap();
        assert!(
            error().contains("16384") && error().contains("8192"),
            "{}",
            error()
        );

        let other = if host == Arch::Arm64 {
            Arch::X86_64
        } else {
            Arch::Arm64
        };
        std::fs::write(&path, made(other, 4096)).unwrap();
        assert!(error().contains(other.name()), "{}", error());

        std::fs::write(&path, made(host, 4096)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(error().contains("chmod +x"), "{}", error());

        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(error().contains("wideleaf bench create"), "{}", error());
    }
}
