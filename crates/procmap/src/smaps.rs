// SPDX-License-Identifier: GPL-2.0-only
//! What PMDs map according to `/proc/PID/smaps`: the fallback for kernels
//! without PAGEMAP_SCAN. It costs a walk of the whole address space.

use crate::Error;
use crate::maps::parse_line;
use crate::process::Folder;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};

/// Bytes that PMDs map, `(anonymous, file)`, by the start of the mapping.
pub(crate) type PmdMapped = HashMap<u64, (u64, u64)>;

/// Reads the whole of smaps.
pub(crate) fn pmd_mapped(folder: &Folder) -> Result<PmdMapped, Error> {
    let mut input = BufReader::with_capacity(64 << 10, folder.file("smaps")?);
    let mut found = PmdMapped::new();
    let mut start = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        if input
            .read_until(b'\n', &mut line)
            .map_err(|e| folder.error("smaps", e))?
            == 0
        {
            return Ok(found);
        }
        let line = line.trim_ascii_end();
        match counter(line) {
            Some((b"AnonHugePages", bytes)) => found.entry(start).or_default().0 += bytes,
            Some((b"ShmemPmdMapped" | b"FilePmdMapped", bytes)) => {
                found.entry(start).or_default().1 += bytes
            }
            Some(_) => {}
            None => {
                if let Some(vma) = parse_line(line) {
                    start = vma.start;
                }
            }
        }
    }
}

/// `Name:   123 kB` in bytes.
fn counter(line: &[u8]) -> Option<(&[u8], u64)> {
    let colon = line.iter().position(|b| *b == b':')?;
    let number = line[colon + 1..].trim_ascii().strip_suffix(b" kB")?;
    let kib: u64 = std::str::from_utf8(number).ok()?.trim().parse().ok()?;
    Some((&line[..colon], kib.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_other_lines() {
        assert_eq!(
            counter(b"FilePmdMapped:     2048 kB"),
            Some((&b"FilePmdMapped"[..], 2 << 20))
        );
        assert_eq!(counter(b"VmFlags: rd ex mr mw me"), None);
        assert_eq!(counter(b"1000-2000 r-xp 00000000 fd:01 1 /a:12 kBx"), None);
    }
}
