// SPDX-License-Identifier: GPL-2.0-only
//! The verdicts of `wideleaf inspect` on the text that processes had, of the very files of the disk.

use super::{Predicted, Reach};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use wideleaf_bench::page_size;
use wideleaf_elf::{Cause, Elf, Error, FileSource, Kind, LEAF_2M, Placement, Source, judge};
use wideleaf_guest::kit::trace::Mapped;
use wideleaf_kit::arch::Arch;
use wideleaf_outlook::{Kernel, outlook};
use wideleaf_policy::Table;

/// Folders that are no part of the disk.
const IN_MEMORY: &[&str] = &["dev", "run", "tmp"];

/// The disk that programs see.
pub(super) struct Disk<'a> {
    /// Where it is mounted.
    pub(super) root: &'a str,
    /// Its device: `vda`.
    pub(super) device: &'a str,
    /// Whether it is seen through an overlay.
    pub(super) overlay: bool,
}

/// Sizes of the leaves of this guest up to those of 2M, the widest first and the page last.
pub(super) fn leaves() -> Vec<u64> {
    let of = |arch: Arch| Table::find(arch.name(), page_size().trailing_zeros() as u8);
    let table = Arch::host().and_then(of);
    let leaves = table.iter().flat_map(|table| table.leaves().iter().rev());
    let sizes = leaves.map(|leaf| 1 << leaf.shift);
    sizes.filter(|size| *size <= LEAF_2M).collect()
}

/// The predictions for the segments with text of each file, once. A file that is not ELF has none,
/// nor has one that is gone.
///
/// # Errors
///
/// If one cannot be read.
pub(super) fn predict(text: &[Mapped], disk: &Disk<'_>) -> Result<Vec<Predicted>> {
    let paths: BTreeSet<_> = text.iter().map(|mapped| &mapped.file).collect();
    let mut files = Vec::new();
    for path in paths {
        files.extend(read(path).with_context(|| path.clone())?);
    }
    let interpreters: Vec<_> = files.iter().filter_map(|file| file.interpreter()).collect();
    let loader = Loader {
        musl: interpreters.iter().any(|path| path.contains("/ld-musl-")),
        inodes: interpreters
            .iter()
            .filter_map(|path| disk.inode(path))
            .collect(),
        large_folios: disk.has_large_folios()?,
    };
    let leaves = leaves();
    let of_file = |file: &ElfFile| file.predicted(disk, &loader, &leaves);
    Ok(files.iter().flat_map(of_file).collect())
}

/// Facts besides the file that decide where it is loaded.
struct Loader {
    /// One of the programs is loaded by musl's ld.so, which aligns no library.
    musl: bool,
    /// Inodes of the programs' interpreters, which the kernel aligns by no `p_align`.
    inodes: BTreeSet<u64>,
    /// Whether the disk's file system has them.
    large_folios: bool,
}

impl Disk<'_> {
    fn inode(&self, path: &str) -> Option<u64> {
        let meta = fs::metadata(format!("{}{path}", self.root)).ok()?;
        Some(meta.ino())
    }

    fn holds(&self, path: &str) -> bool {
        let inside = Path::new(path).strip_prefix(self.root);
        inside.is_ok_and(|path| !IN_MEMORY.iter().any(|folder| path.starts_with(folder)))
    }

    /// ext4 has them since 6.16.
    fn has_large_folios(&self) -> Result<bool> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| path.to_string());
        let release = read("/proc/sys/kernel/osrelease")?;
        let device = format!("/dev/{} ", self.device);
        let mounts = read("/proc/mounts")?;
        let on_it = mounts.lines().find(|line| line.starts_with(&device));
        let ext4 = on_it.is_some_and(|line| line.split(' ').nth(2) == Some("ext4"));
        Ok(!ext4 || !release.starts_with("6.12."))
    }
}

/// An ELF file and its size.
struct ElfFile<'a> {
    path: &'a str,
    inode: u64,
    elf: Elf,
    size: u64,
}

fn read(path: &str) -> Result<Option<ElfFile<'_>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let inode = file.metadata()?.ino();
    let source = FileSource::new(file)?;
    let elf = match Elf::read(&source) {
        Err(Error::Io(error)) => return Err(error.into()),
        elf => elf.ok(),
    };
    Ok(elf.map(|elf| ElfFile {
        path,
        inode,
        elf,
        size: source.size(),
    }))
}

impl ElfFile<'_> {
    fn interpreter(&self) -> Option<&str> {
        self.elf.interpreter.as_ref()?.to_str()
    }

    /// Whether `inspect` says where each kernel places it: it takes a library for one that glibc's
    /// ld.so loads.
    fn is_placed_as_predicted(&self, disk: &Disk<'_>, loader: &Loader) -> bool {
        let by_musl = loader.musl && self.elf.kind == Kind::Library;
        disk.holds(self.path) && !by_musl && !loader.inodes.contains(&self.inode)
    }

    fn predicted(&self, disk: &Disk<'_>, loader: &Loader, leaves: &[u64]) -> Vec<Predicted> {
        let elf = match disk.overlay {
            true => &self.elf.clone().on_overlay(),
            false => &self.elf,
        };
        let page = leaves.last().copied().unwrap_or(LEAF_2M);
        let (verdicts, mut kernels) = (judge(elf).segments, outlook(elf, self.size, page));
        kernels.retain(|kernel| {
            self.is_placed_as_predicted(disk, loader)
                && (loader.large_folios || kernel.kernel != Kernel::Patched)
        });
        let segments = elf.segments.iter().zip(verdicts).enumerate();
        let text = segments.filter(|(_, (segment, _))| segment.is_text());
        let predicted = text.map(|(nth, (segment, verdict))| {
            let (start, end) = segment.mapped(page);
            let reach = kernels.iter().filter_map(|kernel| {
                let covered = kernel.segments.get(nth)?.reachable.iter();
                let reach = Reach {
                    aligned: aligned(kernel.placement),
                    leaves: covered
                        .map(|covered| (covered.leaf, covered.bytes))
                        .collect(),
                };
                Some((kernel.kernel.name().to_string(), reach))
            });
            let has_leaf = verdict.target > page && leaves.contains(&verdict.target);
            Predicted {
                file: self.path.into(),
                offset: segment.offset / page * page,
                len: end - start,
                verdict: cause(verdict.cause, has_leaf).label().into(),
                kernels: reach.collect(),
            }
        });
        predicted.collect()
    }
}

/// The cause on a machine that has no leaf of the size a verdict speaks of, such as 64K.
fn cause(cause: Cause, has_leaf: bool) -> Cause {
    match cause {
        Cause::SeparateCode | Cause::Packed | Cause::OffPage => cause,
        _ if has_leaf => cause,
        _ => Cause::TooSmall,
    }
}

/// Where the linker has put it, it always is.
fn aligned(placement: Placement) -> u64 {
    match placement {
        Placement::Fixed => u64::MAX,
        Placement::Aligned(size) | Placement::ByMmap(size) | Placement::AnyPage(size) => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Disk<'_> = Disk {
        root: "/",
        device: "vda",
        overlay: false,
    };

    fn mapped(file: &str) -> Mapped {
        Mapped {
            id: 1,
            file: file.into(),
            start: 0,
            len: 0,
            offset: 0,
            block: 0,
            mapping: 1,
        }
    }

    #[test]
    fn this_very_test_is_predicted_and_neither_a_text_nor_what_is_gone() {
        let path = std::env::current_exe().unwrap();
        let this = mapped(path.to_str().unwrap());
        let text = mapped(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let gone = mapped("/usr/lib/libx.so (deleted)");
        let found = predict(&[this.clone(), text, gone, this.clone()], &DISK).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].file, this.file);
        for reach in found[0].kernels.values() {
            assert_eq!(reach.leaves.values().sum::<u64>(), found[0].len);
        }
        // In a folder that is in memory nothing is said of kernels.
        assert_eq!(
            found[0].kernels.len(),
            if DISK.holds(&this.file) { 3 } else { 0 }
        );
    }

    #[test]
    fn an_interpreter_is_not_placed_as_predicted() {
        let shell = read("/bin/sh").unwrap().unwrap();
        let ld_so = shell.interpreter().unwrap().to_string();
        let found = predict(&[mapped("/bin/sh"), mapped(&ld_so)], &DISK).unwrap();
        let kernels = |path: &str| {
            let of_file = found.iter().find(|segment| segment.file == path);
            of_file.unwrap().kernels.len()
        };
        assert_eq!((kernels("/bin/sh"), kernels(&ld_so)), (3, 0));
    }

    #[test]
    fn folders_in_memory_are_not_on_the_disk() {
        let disk = Disk {
            root: "/mnt",
            ..DISK
        };
        assert!(disk.holds("/mnt/usr/lib/libc.so.6"));
        assert!(!disk.holds("/mnt/tmp/a.so") && !disk.holds("/init"));
    }

    #[test]
    fn a_verdict_on_a_leaf_that_the_machine_lacks_is_too_small() {
        assert_eq!(cause(Cause::Straddles, true), Cause::Straddles);
        assert_eq!(cause(Cause::Straddles, false), Cause::TooSmall);
        assert_eq!(cause(Cause::SeparateCode, false), Cause::SeparateCode);
    }

    #[test]
    fn leaves_end_with_the_page() {
        let leaves = leaves();
        assert_eq!(leaves.first(), Some(&LEAF_2M));
        assert_eq!(leaves.last(), Some(&page_size()));
    }
}
