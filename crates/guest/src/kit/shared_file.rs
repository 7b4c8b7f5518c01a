// SPDX-License-Identifier: GPL-2.0-only
//! A file that is written through shared mappings, and what each of its pages must hold then.

use crate::kit::mapping::{Buffer, Mapping, RW};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wideleaf_bench::page_size;

/// The largest folio that is asked for.
pub const FOLIO_MOST: u64 = 2 << 20;

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;

/// What no mapping has written.
const BLANK: u8 = 0x5a;

/// Bytes of a value that is written.
const WORD: u64 = 8;

/// Bytes of large folios: of several contiguous leaves, less than a PMD maps. With 4K pages 256K,
/// else 2M, of which only 16K pages and 64K pages have leaves.
pub fn folio() -> u64 {
    if page_size() == 4096 {
        256 << 10
    } else {
        FOLIO_MOST
    }
}

/// What round `round` of process `who` writes to page `page`.
pub fn value(who: u64, round: u64, page: u64) -> u64 {
    0xa5 << 56 | who << 48 | round << 40 | page
}

/// A file.
#[derive(Debug)]
pub struct SharedFile {
    path: PathBuf,
    file: File,
}

impl SharedFile {
    /// A file of `size` bytes, written by `piece` bytes at a time so that its folios are of that
    /// size where the file system has such, and clean.
    pub fn make(path: &Path, size: u64, piece: u64) -> Result<Self> {
        let context = || path.display().to_string();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .with_context(context)?;
        // XFS reserves more than is asked for behind the end of a file that grows, and ends a folio
        // where a reservation ends.
        file.set_len(size).with_context(context)?;
        let blank = vec![BLANK; piece as usize];
        for at in (0..size).step_by(piece as usize) {
            file.write_all_at(&blank[..piece.min(size - at) as usize], at)
                .with_context(context)?;
        }
        file.sync_all().with_context(context)?;
        Ok(Self {
            path: path.into(),
            file,
        })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Maps `len` bytes from `before` on, shared and writable, at an address that is congruent to
    /// the offset modulo 2M but for `skew` bytes.
    pub fn map(&self, before: u64, len: u64, skew: u64) -> Result<Mapping> {
        let room = Mapping::room(len + 3 * FOLIO_MOST)?.start;
        let at = room.next_multiple_of(FOLIO_MOST) + before % FOLIO_MOST + skew;
        self.map_at(at, before, len)
    }

    /// The same at `at`, over what was there.
    pub fn map_at(&self, at: u64, before: u64, len: u64) -> Result<Mapping> {
        let file = Some((&self.file, before));
        Mapping::new(Some(at), len, RW, libc::MAP_SHARED, file)
    }

    /// Looks, on the disk where there is one, whether each page of the mapping has what each round
    /// wrote, and nothing else was written.
    pub fn verify(&self, before: u64, len: u64, who: u64, rounds: u64) -> Result<()> {
        self.file.sync_all()?;
        let size = self.file.metadata()?.len();
        let direct = self.unbuffered()?;
        let page = page_size();
        let mut buffer = Buffer::new(CHUNK)?;
        for at in (0..size).step_by(CHUNK as usize) {
            let bytes = &mut buffer.bytes()[..CHUNK.min(size - at) as usize];
            direct
                .read_exact_at(bytes, at)
                .with_context(|| format!("{}, direct read", self.path.display()))?;
            for (bytes, at) in bytes
                .chunks(page as usize)
                .zip((at..).step_by(page as usize))
            {
                let mapped = (before..before + len).contains(&at);
                let number = mapped.then(|| (at - before) / page);
                check_page(bytes, who, number, rounds)
                    .with_context(|| format!("{} at {at}", self.path.display()))?;
            }
        }
        Ok(())
    }

    /// What the disk has at the place that round `round` writes in page `page`.
    pub fn on_disk(&self, page: u64, round: u64) -> Result<u64> {
        let mut buffer = Buffer::new(page_size())?;
        self.unbuffered()?
            .read_exact_at(buffer.bytes(), page * page_size())
            .with_context(|| format!("{}, direct read", self.path.display()))?;
        let word = &buffer.bytes()[(round * WORD) as usize..][..8];
        Ok(u64::from_ne_bytes(word.try_into()?))
    }

    /// The file past the page cache; tmpfs has nothing else.
    fn unbuffered(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT);
        let direct = options.open(&self.path);
        direct
            .or_else(|_| self.file.try_clone())
            .with_context(|| self.path.display().to_string())
    }

    /// Takes it away, and with it what it has in memory.
    pub fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| self.path.display().to_string())
    }
}

/// Whether a page has what the rounds wrote to page `number` of the mapping, or nothing if it is
/// none of its pages.
fn check_page(bytes: &[u8], who: u64, number: Option<u64>, rounds: u64) -> Result<()> {
    let blank = u64::from_ne_bytes([BLANK; 8]);
    for (slot, found) in (0..).zip(bytes.chunks_exact(WORD as usize)) {
        let found = u64::from_ne_bytes(found.try_into()?);
        let number = number.filter(|_| slot < rounds);
        let expected = number.map_or(blank, |number| value(who, slot, number));
        ensure!(
            found == expected,
            "word {slot} is {found:#x}, and not {expected:#x}, which was written last"
        );
    }
    Ok(())
}

/// Writes to each page of a mapping what its round writes.
pub fn write_all(mapping: Mapping, who: u64, round: u64) {
    for n in 0..mapping.len / page_size() {
        // SAFETY: inside of a mapping of the caller's that is writable.
        unsafe { word(mapping.start, n, round).write_volatile(value(who, round, n)) };
    }
}

/// Reads from each page of a mapping.
pub fn read_all(mapping: Mapping) {
    for page in 0..mapping.len / page_size() {
        // SAFETY: inside of a mapping of the caller's.
        unsafe { word(mapping.start, page, 0).read_volatile() };
    }
}

/// The place that round `round` writes in page `page` of a mapping.
pub fn word(start: u64, page: u64, round: u64) -> *mut u64 {
    (start + page * page_size() + round * WORD) as *mut u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, size: u64) -> SharedFile {
        SharedFile::make(&folder.join("file"), size, page_size()).unwrap()
    }

    #[test]
    fn what_is_written_through_a_mapping_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (page, len) = (page_size(), 8 * page_size());
        let file = file(dir.path(), len + 2 * page);
        for round in 0..2 {
            let mapping = file.map(page, len, 0).unwrap();
            assert_eq!(mapping.start % FOLIO_MOST, page);
            write_all(mapping, 3, round);
            mapping.unmap().unwrap();
        }
        file.verify(page, len, 3, 2).unwrap();
        let error = format!("{:#}", file.verify(page, len, 3, 3).unwrap_err());
        assert!(error.contains("word 2 is 0x5a5a"), "{error}");
        file.remove().unwrap();
    }

    #[test]
    fn a_write_beside_the_mapping_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let page = page_size();
        let file = file(dir.path(), 4 * page);
        let mapping = file.map(page, page, 0).unwrap();
        write_all(mapping, 0, 0);
        file.verify(page, page, 0, 1).unwrap();
        file.file().write_all_at(&[1], 3 * page + 100).unwrap();
        assert!(file.verify(page, page, 0, 1).is_err());
    }
}
