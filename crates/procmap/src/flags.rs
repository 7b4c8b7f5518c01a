// SPDX-License-Identifier: GPL-2.0-only
//! `/proc/kpageflags`, read in blocks and kept.
//!
//! Text is shared: the same libc is looked up for every process, so what was
//! read once is kept for one pass over the processes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Page frames per block: the granularity of reading and keeping. A scattered
/// page costs one block, so it is small; a large folio takes many.
const BLOCK: u64 = 64;
/// Blocks read in one system call at most (8 192 page frames, 64 KiB).
const BATCH: u64 = 128;
/// Blocks kept at most; the table is 72 bytes a block, so some 10 MiB.
const KEPT: usize = 110_000;

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

type Block = [Flags; BLOCK as usize];

/// Flags by page frame number.
pub(crate) struct PageFlags {
    file: File,
    kept: HashMap<u64, Block>,
    last: (u64, Block),
    buffer: Vec<u8>,
}

impl PageFlags {
    /// Opens `kpageflags` below `root`. Fails without CAP_SYS_ADMIN.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(root.join("kpageflags"))?,
            kept: HashMap::new(),
            last: (u64::MAX, [Flags::default(); BLOCK as usize]),
            buffer: Vec::new(),
        })
    }

    /// Forgets what was read: a later pass must see the pages as they are.
    pub(crate) fn forget(&mut self) {
        self.kept.clear();
        self.last.0 = u64::MAX;
    }

    /// Makes sure that the flags of all `frames` are at hand, with as few
    /// system calls as their order allows. `frames` is used as scratch.
    pub(crate) fn prefetch(&mut self, frames: &mut Vec<u64>) -> io::Result<()> {
        for frame in frames.iter_mut() {
            *frame /= BLOCK;
        }
        frames.dedup();
        frames.sort_unstable();
        frames.dedup();
        if self.kept.len() + frames.len() > KEPT {
            self.kept.clear();
        }
        frames.retain(|block| !self.kept.contains_key(block));
        for run in frames.chunk_by(|a, b| a + 1 == *b) {
            for part in run.chunks(BATCH as usize) {
                self.read(part[0], part.len() as u64)?;
            }
        }
        Ok(())
    }

    /// The flags of one page frame.
    pub(crate) fn get(&mut self, frame: u64) -> io::Result<Flags> {
        let block = frame / BLOCK;
        if self.last.0 != block {
            if !self.kept.contains_key(&block) {
                self.read(block, 1)?;
            }
            self.last = (block, self.kept[&block]);
        }
        Ok(self.last.1[(frame % BLOCK) as usize])
    }

    /// Reads `count` blocks. Past the end of memory the file ends; frames
    /// there have no flags.
    fn read(&mut self, first: u64, count: u64) -> io::Result<()> {
        let want = (count * BLOCK * 8) as usize;
        self.buffer.clear();
        self.buffer.resize(want, 0);
        let Some(offset) = first.checked_mul(BLOCK * 8) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "page frame number beyond any memory",
            ));
        };
        let mut done = 0;
        while done < want {
            match self
                .file
                .read_at(&mut self.buffer[done..], offset + done as u64)
            {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        for (i, bytes) in self.buffer.chunks_exact((BLOCK * 8) as usize).enumerate() {
            let mut block = [Flags::default(); BLOCK as usize];
            for (flags, word) in block.iter_mut().zip(bytes.chunks_exact(8)) {
                *flags = Flags::from_kernel(u64::from_ne_bytes(word.try_into().expect("8 bytes")));
            }
            self.kept.insert(first + i as u64, block);
        }
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
        assert_eq!(flags.kept.len(), 4);
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
