// SPDX-License-Identifier: GPL-2.0-only
//! MADV_COLLAPSE of a program's text before it runs: the page cache then holds
//! folios of a leaf's size, which every process that maps the file finds.

use crate::Refused;
use crate::program::Image;
use std::fs::File;
use wideleaf_collapse::{Blocks, Refusal};

/// Collapses whole blocks of the text of `images`, `limit` bytes at most.
/// Returns the bytes that are one folio a block now.
///
/// # Errors
///
/// The kernel's reason, if it refused the first block, or that no text has one.
pub fn collapse(images: &[Image], pmd: u64, limit: u64) -> Result<u64, Refused> {
    let mut done = 0;
    for image in images {
        let what = image.path.display().to_string();
        let file = File::open(&image.path).map_err(Refused::io(what))?;
        for (offset, length) in blocks(image, pmd) {
            for block in 0..length / pmd {
                if done + pmd > limit {
                    return match done {
                        0 => Err(Refused::NoRoom),
                        _ => Ok(done),
                    };
                }
                match one(&file, offset + block * pmd, pmd) {
                    Ok(()) => done += pmd,
                    Err(refusal) if done == 0 => return Err(refusal.into()),
                    Err(_) => return Ok(done),
                }
            }
        }
    }
    match done {
        0 => Err(Refused::NotCongruent),
        _ => Ok(done),
    }
}

/// Offset and length of the whole blocks of text that a leaf can map as the
/// file is.
fn blocks(image: &Image, pmd: u64) -> Vec<(u64, u64)> {
    let usable = image.verdict.segments.iter().filter(|v| v.usable > 0);
    let loaded = image.elf.as_loaded();
    usable
        .map(|verdict| &loaded.segments[verdict.position])
        .filter(|segment| segment.is_text())
        .filter_map(|segment| {
            let first = segment.address.next_multiple_of(pmd);
            let last = (segment.address + segment.file_size) / pmd * pmd;
            let offset = segment.offset + (first - segment.address);
            (first < last).then(|| (offset, last - first))
        })
        .collect()
}

fn one(file: &File, offset: u64, pmd: u64) -> Result<(), Refusal> {
    let block = Blocks::of_text(file, offset, pmd, pmd)?;
    // 6.1 refuses a block of which no page was mapped yet.
    block.touch();
    block.collapse()
}
