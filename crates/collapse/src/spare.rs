// SPDX-License-Identifier: GPL-2.0-only
//! Memory that can be taken before the kernel has to reclaim or compact, which
//! it would do in the one who asks, and at the cost of everybody: MADV_COLLAPSE
//! allocates with GFP_TRANSHUGE, whatever /sys/kernel/mm/transparent_hugepage/
//! defrag says (golang/go issue 63334). Where page cache fills the machine there
//! is none, so users may allow it.

use crate::advise::own;
use crate::headroom;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Blocks that stay free after one was taken.
const RESERVE: u64 = 2;

/// Where memory for new folios comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where the proc file system is.
    pub proc: PathBuf,
    /// Bytes of a base page.
    pub page: u64,
    /// Bytes of a block.
    pub pmd: u64,
    /// Others' page cache, too: the kernel may reclaim and compact.
    pub reclaim: bool,
}

impl Source {
    /// Bytes that may be taken.
    ///
    /// # Errors
    ///
    /// If a file of `proc` cannot be read.
    pub fn bytes(&self) -> io::Result<u64> {
        match self.reclaim {
            false => Ok(spare(&self.proc, self.page, self.pmd)?.bytes()),
            true => std::fs::read_to_string(self.proc.join("meminfo")).map(|text| available(&text)),
        }
    }

    /// Names the quantity that `bytes` counts.
    pub fn counts(reclaim: bool) -> &'static str {
        match reclaim {
            true => "free or reclaimable",
            false => "free in whole blocks",
        }
    }

    /// Whether one more block may be taken.
    pub fn has_block(&self) -> bool {
        self.bytes().unwrap_or(0) >= (1 + RESERVE) * self.pmd
    }

    /// Whether the memory control groups of a process leave room for one more block.
    pub fn fits(&self, pid: u32) -> bool {
        headroom(&self.proc, "/sys/fs/cgroup".as_ref(), pid) >= (1 + RESERVE) * self.pmd
    }
}

/// Has the kernel make `bytes` free in whole blocks of `pmd` bytes, as well as it can: readahead
/// and tmpfs take smaller folios rather than wait, so the blocks are allocated here, by
/// MADV_COLLAPSE, which waits for them, and freed.
pub fn make_blocks(bytes: u64, pmd: u64) {
    let Some(size) = NonZeroUsize::new((bytes.next_multiple_of(pmd) + pmd) as usize) else {
        return;
    };
    let flags = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping, which nothing else knows.
    let Ok(start) = (unsafe { mmap_anonymous(None, size, flags, MapFlags::MAP_PRIVATE) }) else {
        return;
    };
    let first = (start.as_ptr() as u64).next_multiple_of(pmd);
    for block in (first..first + bytes).step_by(pmd as usize) {
        // SAFETY: the block is within the mapping, which lives until `munmap`.
        unsafe {
            let at = start.byte_add((block - start.as_ptr() as u64) as usize);
            let _ = madvise(at, pmd as usize, MmapAdvise::MADV_HUGEPAGE);
            at.cast::<u8>().write_volatile(1);
        }
        // Where the settings of huge pages did not give it at once.
        let _ = own(block, pmd);
    }
    // SAFETY: what was mapped above; nothing points into it any more.
    let _ = unsafe { munmap(start, size.get()) };
}

/// `MemAvailable:    1234 kB`, in bytes.
fn available(text: &str) -> u64 {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = rest.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// What is free, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spare {
    /// In pieces of a PMD or more.
    pub whole: u64,
    /// Above the high watermarks, below which kswapd reclaims.
    pub above: u64,
}

impl Spare {
    /// What an allocation of whole blocks may take.
    pub fn bytes(self) -> u64 {
        self.whole.min(self.above)
    }
}

/// Reads `buddyinfo` and `zoneinfo` below `proc`. `page` and `pmd` in bytes.
///
/// # Errors
///
/// If one of the two cannot be read.
pub fn spare(proc: &Path, page: u64, pmd: u64) -> io::Result<Spare> {
    let read = |name: &str| std::fs::read_to_string(proc.join(name));
    let order = (pmd / page).ilog2() as usize;
    Ok(Spare {
        whole: whole(&read("buddyinfo")?, order) * page,
        above: above(&read("zoneinfo")?) * page,
    })
}

/// The zones that hold ordinary memory; DMA is for devices.
fn ordinary(zone: &str) -> bool {
    matches!(zone, "Normal" | "DMA32" | "Movable" | "HighMem")
}

/// `Node 0, zone   Normal   1   2   3 ...`: free pieces of 1, 2, 4, ... pages.
/// In pages.
fn whole(text: &str, order: usize) -> u64 {
    let zone = |line: &str| -> Option<u64> {
        let (_, rest) = line.split_once("zone")?;
        let mut words = rest.split_whitespace();
        let name = words.next()?;
        let counts = words.enumerate().skip(order);
        let pages = counts.filter_map(|(order, n)| Some(n.parse::<u64>().ok()? << order));
        ordinary(name).then(|| pages.sum())
    };
    text.lines().filter_map(zone).sum()
}

/// Free pages of each zone above its high watermark. In pages.
fn above(text: &str) -> u64 {
    let (mut sum, mut free, mut counts) = (0, 0, false);
    for line in text.lines() {
        if let Some((_, zone)) = line.split_once(", zone") {
            counts = ordinary(zone.trim());
            continue;
        }
        let mut words = line.split_whitespace();
        let value = |word: Option<&str>| word.and_then(|w| w.parse::<u64>().ok());
        match (words.next(), words.next()) {
            (Some("pages"), Some("free")) => free = value(words.next()).unwrap_or(0),
            (Some("high"), high @ Some(_)) if counts => {
                sum += free.saturating_sub(value(high).unwrap_or(free));
                // Per-CPU page sets have a line `high:` and no watermark.
                counts = false;
            }
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDDY: &str = "\
Node 0, zone      DMA      1      0      0      0      0      0      0      0      0      1      3
Node 0, zone    DMA32      2      1      1      2      1      1      1      0      3      2    700
Node 0, zone   Normal    100     50      9      4      0      0      0      7      0      5     10
";
    const ZONES: &str = "\
Node 0, zone      DMA
  pages free     3840
        boost    0
        min      10
        low      13
        high     16
Node 0, zone    DMA32
  pages free     720000
        min      2000
        low      2700
        high     3400
  pagesets
    cpu: 0
              count:    119
              high:     500
Node 0, zone   Normal
  pages free     15000
        high     20000
";

    #[test]
    fn only_pieces_that_are_large_enough_count() {
        assert_eq!(whole(BUDDY, 9), 2 * 512 + 700 * 1024 + 5 * 512 + 10 * 1024);
        assert_eq!(whole("nonsense\nNode 0, zone\n", 9), 0);
    }

    #[test]
    fn a_zone_below_its_watermark_gives_nothing_and_takes_nothing() {
        assert_eq!(above(ZONES), 720_000 - 3400);
    }

    #[test]
    fn with_reclaim_page_cache_counts_as_free() {
        let proc = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(proc.path().join(name), text).unwrap();
        file("buddyinfo", "Node 0, zone Normal 9 9 9 9 9 9 9 9 9 2 0\n");
        file("zoneinfo", ZONES);
        file("meminfo", "MemFree: 1 kB\nMemAvailable:    6144 kB\n");
        let mut source = Source {
            proc: proc.path().to_owned(),
            page: 4096,
            pmd: 2 << 20,
            reclaim: false,
        };
        assert_eq!(
            (source.bytes().unwrap(), source.has_block()),
            (4 << 20, false)
        );
        source.reclaim = true;
        assert_eq!(
            (source.bytes().unwrap(), source.has_block()),
            (6 << 20, true)
        );
        source.proc = "/nowhere".into();
        assert!(source.bytes().is_err() && !source.has_block());
        assert_eq!(available("MemAvailable: much\n"), 0);
    }

    #[test]
    fn this_machine_tells_both() {
        let spare = spare(Path::new("/proc"), 4096, 2 << 20).unwrap();
        assert!(spare.bytes() <= spare.whole && spare.bytes() <= spare.above);
    }
}
