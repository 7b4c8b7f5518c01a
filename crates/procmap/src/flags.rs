// SPDX-License-Identifier: GPL-2.0-only
//! `/proc/kpageflags`, read in runs and kept.
//!
//! Text is shared: the same libc is looked up for every process, so what was
//! read once is kept for one pass over the processes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Frames per chunk of the table: one byte each.
const CHUNK: u64 = 4096;
/// Chunks kept at most: 24 MiB, flags of 96 GiB of memory in 4K pages.
const KEPT: usize = 6144;
/// Frames read in one system call at most (64 KiB).
const BATCH: u64 = 8192;
/// Frames between two wanted ones that are read rather than left out. The
/// kernel copies the descriptor of each page, some 150 ns: a system call costs
/// as much as two or three of them.
const GAP: u64 = 2;

/// The flags of a page that matter here, from the kernel's
/// `include/uapi/linux/kernel-page-flags.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    /// KPF_ANON (bit 12): anonymous memory.
    pub(crate) const ANON: u8 = 1;
    /// KPF_COMPOUND_HEAD (bit 15): first page of a compound page.
    pub(crate) const HEAD: u8 = 1 << 1;
    /// KPF_COMPOUND_TAIL (bit 16): a further page of it.
    pub(crate) const TAIL: u8 = 1 << 2;
    /// KPF_HUGE (bit 17): hugetlb.
    pub(crate) const HUGE: u8 = 1 << 3;
    /// KPF_THP (bit 22): a large folio of any size.
    pub(crate) const THP: u8 = 1 << 4;

    fn from_kernel(word: u64) -> Self {
        let bit = |at: u32, flag: u8| ((word >> at) & 1) as u8 * flag;
        Self(
            bit(12, Self::ANON)
                | bit(15, Self::HEAD)
                | bit(16, Self::TAIL)
                | bit(17, Self::HUGE)
                | bit(22, Self::THP),
        )
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    #[cfg(test)]
    pub(crate) fn of(flags: u8) -> Self {
        Self(flags)
    }
}

/// Marks a byte of the table as read.
const KNOWN: u8 = 1 << 7;

type Chunk = Box<[u8; CHUNK as usize]>;

/// Flags by page frame number.
pub(crate) struct PageFlags {
    file: File,
    chunks: Vec<Chunk>,
    index: HashMap<u64, usize>,
    /// The chunk looked up last: its number and its place in `chunks`.
    last: (u64, usize),
    buffer: Vec<u8>,
}

impl PageFlags {
    /// Opens `kpageflags` below `root`. Fails without CAP_SYS_ADMIN.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let file = File::open(root.join("kpageflags"))?;
        Ok(Self {
            file,
            chunks: Vec::new(),
            index: HashMap::new(),
            last: (u64::MAX, 0),
            buffer: Vec::new(),
        })
    }

    /// Forgets what was read: a later pass must see the pages as they are.
    pub(crate) fn forget(&mut self) {
        self.chunks.clear();
        self.index.clear();
        self.last.0 = u64::MAX;
    }

    /// Makes sure that the flags of all `frames` are at hand, with as few
    /// system calls as their order allows. `frames` is used as scratch.
    pub(crate) fn prefetch(&mut self, frames: &mut Vec<u64>) -> io::Result<()> {
        frames.sort_unstable();
        frames.dedup();
        frames.retain(|frame| !self.known(*frame));
        for near in frames.chunk_by(|a, b| b - a <= GAP + 1) {
            let (mut first, last) = (near[0], near[near.len() - 1]);
            while first <= last {
                let count = BATCH.min(last - first + 1);
                self.read(first, count)?;
                first += count;
            }
        }
        Ok(())
    }

    /// The flags of one page frame.
    pub(crate) fn get(&mut self, frame: u64) -> io::Result<Flags> {
        if !self.known(frame) {
            self.read(frame, 1)?;
        }
        let place = self.place(frame);
        Ok(Flags(self.chunks[place][(frame % CHUNK) as usize] & !KNOWN))
    }

    fn known(&mut self, frame: u64) -> bool {
        let place = self.place(frame);
        self.chunks[place][(frame % CHUNK) as usize] & KNOWN != 0
    }

    /// Where the chunk of `frame` is; an empty one is made if need be.
    fn place(&mut self, frame: u64) -> usize {
        let number = frame / CHUNK;
        if self.last.0 != number {
            if !self.index.contains_key(&number) {
                if self.chunks.len() == KEPT {
                    self.forget();
                }
                self.index.insert(number, self.chunks.len());
                self.chunks.push(Box::new([0; CHUNK as usize]));
            }
            self.last = (number, self.index[&number]);
        }
        self.last.1
    }

    /// Reads `count` frames' flags. Past the end of memory the file ends;
    /// frames there have none.
    fn read(&mut self, first: u64, count: u64) -> io::Result<()> {
        let want = (count * 8) as usize;
        let Some(offset) = first.checked_mul(8).filter(|o| *o < i64::MAX as u64) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "page frame number beyond any memory",
            ));
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(want, 0);
        let mut done = 0;
        while done < want {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        for (frame, bytes) in (first..).zip(buffer.chunks_exact(8)) {
            let flags = Flags::from_kernel(u64::from_ne_bytes(bytes.try_into().expect("8 bytes")));
            let place = self.place(frame);
            self.chunks[place][(frame % CHUNK) as usize] = flags.0 | KNOWN;
        }
        self.buffer = buffer;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(words: &[(u64, u64)]) -> (tempfile::TempDir, PageFlags) {
        let root = tempfile::tempdir().unwrap();
        let file = File::create(root.path().join("kpageflags")).unwrap();
        for (frame, word) in words {
            file.write_all_at(&word.to_ne_bytes(), frame * 8).unwrap();
        }
        let flags = PageFlags::open(root.path()).unwrap();
        (root, flags)
    }

    #[test]
    fn flags_are_found_wherever_the_block_lies() {
        let thp_head = 1 << 22 | 1 << 15;
        let (_root, mut flags) = with_file(&[
            (5, 1 << 12),
            (64, thp_head),
            (9000, thp_head),
            (700_000, 1 << 17),
        ]);
        flags.prefetch(&mut vec![9000, 5, 64, 700_000, 65]).unwrap();
        assert!(flags.known(64) && flags.known(65) && flags.known(9000) && !flags.known(66));
        assert_eq!(flags.get(5).unwrap(), Flags::of(Flags::ANON));
        assert_eq!(flags.get(64).unwrap(), Flags::of(Flags::THP | Flags::HEAD));
        assert_eq!(
            flags.get(9000).unwrap(),
            Flags::of(Flags::THP | Flags::HEAD)
        );
        assert_eq!(flags.get(700_000).unwrap(), Flags::of(Flags::HUGE));
        assert_eq!(flags.get(6).unwrap(), Flags::default());
    }

    #[test]
    fn frames_past_the_end_have_no_flags_and_absurd_ones_are_an_error() {
        let (_root, mut flags) = with_file(&[(1, 1 << 12)]);
        assert_eq!(flags.get(1 << 30).unwrap(), Flags::default());
        assert!(flags.get(u64::MAX).is_err());
    }

    #[test]
    fn a_new_pass_sees_changed_flags() {
        let (root, mut flags) = with_file(&[(1, 1 << 12)]);
        assert!(flags.get(1).unwrap().has(Flags::ANON));
        std::fs::write(root.path().join("kpageflags"), [0u8; 512]).unwrap();
        flags.forget();
        assert!(!flags.get(1).unwrap().has(Flags::ANON));
    }
}
