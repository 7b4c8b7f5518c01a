// SPDX-License-Identifier: GPL-2.0-only
//! Writes what was planned, with holes where nothing but zeroes would be, and
//! reads it back.

use crate::plan::pages;
use crate::{Plan, Refusal};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use wideleaf_elf::{Elf, FileSource};

/// File systems allocate in blocks of this size or smaller ones, in bytes.
const BLOCK: u64 = 4096;
/// How much is compared at once, in bytes.
const PIECE: u64 = 1 << 20;

/// Bytes that replace others, at an offset in the new file.
pub(crate) struct Patch {
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Plan {
    /// The headers as they will be.
    pub(crate) fn patches(&self, file: &[u8]) -> Vec<Patch> {
        let old = |offset: u64, size: u64| file[offset as usize..(offset + size) as usize].to_vec();
        let (before, after) = (&self.before, &self.after);
        let mut header = old(0, before.header_size());
        after.store_header(&mut header);
        let mut programs = old(before.phoff, before.programs_size());
        after.store_programs(&mut programs);
        let mut patches = vec![
            Patch {
                at: 0,
                bytes: header,
            },
            Patch {
                at: after.phoff,
                bytes: programs,
            },
        ];
        if !before.sections.is_empty() {
            let mut sections = old(before.shoff, before.sections_size());
            after.store_sections(&mut sections);
            patches.push(Patch {
                at: after.shoff,
                bytes: sections,
            });
        }
        patches
    }

    /// Calls `put` with each stretch of the new file that is not all zeroes,
    /// as far as runs go.
    fn stretches(
        &self,
        file: &[u8],
        mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for run in &self.runs {
            let bytes = &file[run.from as usize..(run.from + run.size) as usize];
            let mut at = 0;
            while at < bytes.len() {
                let (zero, length) = stretch(&bytes[at..], run.to + at as u64);
                if !zero {
                    put(run.to + at as u64, &bytes[at..at + length])?;
                }
                at += length;
            }
        }
        Ok(())
    }

    /// Bytes of disk that the new file will take, without the note.
    pub fn disk(&self, file: &[u8]) -> u64 {
        self.blocks(file, BLOCK)
    }

    /// The same where a file is made of blocks of this size in bytes, of 4K or more.
    pub fn blocks(&self, file: &[u8], block: u64) -> u64 {
        let mut sum = 0;
        let mut last = 0;
        // Stretches come in order; two of them may end and start in one block.
        let count = self.stretches(file, |at, bytes| {
            let end = (at + bytes.len() as u64).div_ceil(block);
            sum += end - (at / block).max(last).min(end);
            last = end.max(last);
            Ok(())
        });
        count.expect("counting does not fail");
        sum * block
    }

    /// Writes the new file, which is empty.
    pub(crate) fn write(&self, file: &[u8], out: &File) -> io::Result<()> {
        out.set_len(self.size)?;
        self.stretches(file, |at, bytes| out.write_all_at(bytes, at))?;
        for patch in self.patches(file) {
            out.write_all_at(&patch.bytes, patch.at)?;
        }
        Ok(())
    }

    /// Reads the new file's headers anew and compares all that is loaded, page
    /// for page, and every section with the old file.
    ///
    /// # Errors
    ///
    /// Where they differ, other than in the header fields that had to change.
    pub(crate) fn verify(&self, file: &[u8], elf: &Elf, out: &File) -> Result<(), Refusal> {
        let read = Refusal::io("cannot read back what was written");
        let source = out.try_clone().and_then(FileSource::new).map_err(read)?;
        let new = Elf::read(&source)?;
        let patches = self.patches(file);
        if new.segments.len() != elf.segments.len() {
            return Err(Refusal::Mismatch("the number of segments".into()));
        }
        for (old, new) in elf.segments.iter().zip(&new.segments) {
            let name = || format!("segment {}", old.index);
            let same = wideleaf_elf::Segment {
                offset: new.offset,
                align: new.align,
                ..old.clone()
            };
            let good = new.congruence().holds(self.leaf) && new.align == self.leaf;
            if same != *new || !good {
                return Err(Refusal::Mismatch(name()));
            }
            if old.file_size > 0 {
                let (start, end) = pages(old, self.page, file.len() as u64);
                let to = new.offset - (old.offset - start);
                compare(
                    &patches,
                    &file[start as usize..end as usize],
                    out,
                    to,
                    &name,
                )?;
            }
        }
        for (old, new) in self.before.sections.iter().zip(&self.after.sections) {
            if old.stored && old.size > 0 {
                let bytes = &file[old.offset as usize..(old.offset + old.size) as usize];
                let name = || format!("section {}", old.name);
                compare(&patches, bytes, out, new.offset, &name)?;
            }
        }
        Ok(())
    }
}

/// The length of what is at the start of `bytes`, in whole blocks of the new
/// file: all zeroes, or no block of zeroes.
fn stretch(bytes: &[u8], to: u64) -> (bool, usize) {
    let first = (BLOCK - to % BLOCK) as usize;
    let mut length = first.min(bytes.len());
    let zero = is_zero(&bytes[..length]);
    while length < bytes.len() {
        let next = &bytes[length..bytes.len().min(length + BLOCK as usize)];
        if is_zero(next) != zero {
            break;
        }
        length += next.len();
    }
    (zero, length)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Compares `old`, with the patches that fall into its place, with the new file.
fn compare(
    patches: &[Patch],
    old: &[u8],
    out: &File,
    to: u64,
    name: &dyn Fn() -> String,
) -> Result<(), Refusal> {
    let mut read = vec![0; PIECE as usize];
    for (piece, at) in old
        .chunks(PIECE as usize)
        .zip((to..).step_by(PIECE as usize))
    {
        let read = &mut read[..piece.len()];
        out.read_exact_at(read, at)
            .map_err(Refusal::io("cannot read back what was written"))?;
        let end = at + piece.len() as u64;
        let overlaps = |p: &Patch| p.at < end && at < p.at + p.bytes.len() as u64;
        let same = match patches.iter().any(overlaps) {
            false => same(piece, read),
            true => {
                let mut expected = piece.to_vec();
                for patch in patches {
                    overlay(&mut expected, at, patch);
                }
                same(&expected, read)
            }
        };
        if !same {
            return Err(Refusal::Mismatch(name()));
        }
    }
    Ok(())
}

/// musl's memcmp looks at one byte after the other; this becomes vector code.
fn same(a: &[u8], b: &[u8]) -> bool {
    let block = BLOCK as usize;
    let differ = |(a, b): (&[u8], &[u8])| a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) != 0;
    a.len() == b.len() && !a.chunks(block).zip(b.chunks(block)).any(differ)
}

fn overlay(bytes: &mut [u8], at: u64, patch: &Patch) {
    let start = patch.at.max(at);
    let end = (patch.at + patch.bytes.len() as u64).min(at + bytes.len() as u64);
    if start < end {
        let from = &patch.bytes[(start - patch.at) as usize..(end - patch.at) as usize];
        bytes[(start - at) as usize..(end - at) as usize].copy_from_slice(from);
    }
}
