// SPDX-License-Identifier: GPL-2.0-only
//! A file, and which blocks of its text a leaf could map.

use crate::Error;
use nix::unistd::{AccessFlags, access, geteuid};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wideleaf_elf::{Elf, FileSource, Segment};
use wideleaf_inspect::file_system;

/// A program or library.
pub struct Text {
    /// As it is shown.
    pub name: PathBuf,
    /// The file.
    pub file: File,
    /// Device and inode, which two names of one file share.
    pub identity: (u64, u64),
    /// The file system that holds it, as /proc/mounts names it.
    pub file_system: &'static str,
    /// Bytes of text.
    pub size: u64,
    /// Offsets of the blocks that one leaf could map.
    pub blocks: Vec<u64>,
    /// Offsets of the whole blocks that none could: their addresses are not congruent.
    pub odd: Vec<u64>,
    /// Loaded at any page, so that leaves fit by chance only.
    pub at_any_page: bool,
    /// Whether mincore(2) tells this user the truth about the file.
    pub(crate) tells: bool,
}

impl Text {
    /// Reads the file at `path`, which is shown as `name`. `pmd` is the size of a block, `page` of
    /// a base page.
    ///
    /// # Errors
    ///
    /// Why nothing can be done for it.
    pub fn read(name: &Path, path: &Path, page: u64, pmd: u64) -> Result<Self, Error> {
        // Looked at before it is opened: a device may act on that, a FIFO waits for a writer.
        if !path.metadata()?.is_file() {
            return Err(Error::NotRegular);
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let metadata = file.metadata()?;
        let source = FileSource::with_size(file.try_clone()?, metadata.len());
        let mut elf = Elf::read(&source).map_err(|error| match error {
            wideleaf_elf::Error::NotElf { .. } => Error::NotElf,
            other => Error::Elf(other),
        })?;
        if elf.packer.is_some() {
            return Err(Error::Packed);
        }
        elf.file_system = file_system(&file);
        let loaded = elf.as_loaded();
        let texts = || loaded.segments.iter().filter(|segment| segment.is_text());
        let of = |congruent: bool| -> Vec<u64> {
            let these = texts().filter(|text| text.congruence().holds(pmd) == congruent);
            let blocks = these.flat_map(|text| blocks(text, page, pmd));
            blocks
                .filter(|offset| offset.saturating_add(pmd) <= metadata.len())
                .collect()
        };
        let own = metadata.uid() == geteuid().as_raw() || geteuid().is_root();
        Ok(Self {
            name: name.to_owned(),
            identity: (metadata.dev(), metadata.ino()),
            file_system: elf.file_system.map_or("its file system", |fs| fs.name),
            size: texts().map(|text| text.file_size).sum(),
            blocks: of(true),
            odd: of(false),
            at_any_page: !elf.placement(page, pmd).holds(pmd),
            // mm/mincore.c, `can_do_mincore()`.
            tells: own || access(path, AccessFlags::W_OK).is_ok(),
            file,
        })
    }
}

/// Offsets of the whole blocks at the addresses of a segment.
fn blocks(text: &Segment, page: u64, pmd: u64) -> impl Iterator<Item = u64> {
    let (start, end) = text.mapped(page);
    let first = start.checked_next_multiple_of(pmd).unwrap_or(end);
    let shift = text.shift();
    (first..end / pmd * pmd)
        .step_by(pmd as usize)
        .map(move |address| address.wrapping_sub(shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    const M2: u64 = 2 << 20;

    fn segment(offset: u64, address: u64, file_size: u64) -> Segment {
        Segment {
            index: 0,
            offset,
            address,
            file_size,
            memory_size: file_size,
            align: 4096,
            read: true,
            write: false,
            execute: true,
        }
    }

    #[test]
    fn only_whole_blocks_at_their_addresses_count() {
        let offsets = |s: Segment| blocks(&s, 4096, M2).collect::<Vec<_>>();
        assert_eq!(offsets(segment(0x1000, 0x40_1000, 3 * M2)), [M2, 2 * M2]);
        // The loader maps whole pages.
        assert_eq!(offsets(segment(M2, 2 * M2, M2 - 5)), [M2]);
        assert!(offsets(segment(0x1000, 0x40_1000, M2)).is_empty());
        // Not congruent: the addresses decide where a block lies.
        assert_eq!(offsets(segment(0, 0x1000, 2 * M2)), [M2 - 0x1000]);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let read = |path: &Path| Text::read(path, path, 4096, M2).err().unwrap();
        assert!(matches!(read(folder.path()), Error::NotRegular));
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(matches!(read(&script), Error::NotElf));
        assert!(matches!(read(&folder.path().join("none")), Error::Io(_)));
        assert!(matches!(read(Path::new("/dev/null")), Error::NotRegular));
    }
}
