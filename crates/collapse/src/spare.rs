// SPDX-License-Identifier: GPL-2.0-only
//! Memory that can be taken before the kernel has to reclaim or compact, which
//! it would do in the one who asks, and at the cost of everybody: MADV_COLLAPSE
//! allocates with GFP_TRANSHUGE, whatever /sys/kernel/mm/transparent_hugepage/
//! defrag says (golang/go issue 63334).

use std::io;
use std::path::Path;

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
    fn this_machine_tells_both() {
        let spare = spare(Path::new("/proc"), 4096, 2 << 20).unwrap();
        assert!(spare.bytes() <= spare.whole && spare.bytes() <= spare.above);
    }
}
