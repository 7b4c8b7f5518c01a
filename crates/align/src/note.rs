// SPDX-License-Identifier: GPL-2.0-only
//! The note behind an aligned file that tells how it was before: the runs, the
//! header fields and a hash of the whole. No header names it; `strip` drops it.
//!
//! From the end of the file: 16 bytes of mark, the length of the note (8
//! bytes, little-endian), the note in JSON.

use crate::headers::Headers;
use crate::{Plan, Refusal, Run};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;

const MARK: &[u8; 16] = b"wideleaf-align-1";
/// Mark and length.
const FOOT: usize = 24;
/// The original is given back only if this many of its bytes are claimed at
/// most, for each byte of the aligned file.
const MAX_GROWTH: u64 = 64;

#[derive(Serialize, Deserialize)]
struct Note {
    /// Size of the original in bytes.
    size: u64,
    /// BLAKE3 of the original.
    hash: String,
    runs: Vec<Run>,
    phoff: u64,
    shoff: u64,
    /// `p_offset` and `p_align` of each program header.
    programs: Vec<(u64, u64)>,
    /// `sh_offset` of each section.
    sections: Vec<u64>,
    /// The table of program headers, if segments were joined, and its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<(u64, Vec<u8>)>,
}

/// Writes the note behind a file that was written by this plan; `table` is the original's table of
/// program headers if segments were joined before it was planned.
pub(crate) fn append(
    plan: &Plan,
    original: &[u8],
    table: Option<&(u64, Vec<u8>)>,
    out: &File,
) -> std::io::Result<()> {
    let before = &plan.before;
    let note = Note {
        size: original.len() as u64,
        hash: blake3::hash(original).to_string(),
        runs: plan.runs.clone(),
        phoff: before.phoff,
        shoff: before.shoff,
        programs: before
            .programs
            .iter()
            .map(|p| (p.offset, p.align))
            .collect(),
        sections: before.sections.iter().map(|s| s.offset).collect(),
        table: table.cloned(),
    };
    let mut bytes = serde_json::to_vec(&note).expect("numbers and a string");
    let length = bytes.len() as u64;
    bytes.extend(length.to_le_bytes());
    bytes.extend(MARK);
    out.write_all_at(&bytes, plan.note_at)
}

/// Where the note of a file begins, if it has one.
pub(crate) fn find(file: &[u8]) -> Option<usize> {
    let foot = file.len().checked_sub(FOOT)?;
    let (length, mark) = file[foot..].split_at(8);
    let length = u64::from_le_bytes(length.try_into().ok()?);
    let start = foot.checked_sub(usize::try_from(length).ok()?)?;
    (mark == MARK).then_some(start)
}

/// Whether a file ends as those do that have a note.
pub(crate) fn is_marked(file: &File) -> std::io::Result<bool> {
    let size = file.metadata()?.len();
    let mut mark = [0; MARK.len()];
    let Some(at) = size.checked_sub(mark.len() as u64) else {
        return Ok(false);
    };
    file.read_exact_at(&mut mark, at)?;
    Ok(mark == *MARK)
}

/// The file as it was before, from one that ends with a note.
///
/// # Errors
///
/// If there is no note, or the file was changed since.
pub(crate) fn restore(file: &[u8]) -> Result<Vec<u8>, Refusal> {
    let start = find(file).ok_or(Refusal::NoNote)?;
    let note: Note =
        serde_json::from_slice(&file[start..file.len() - FOOT]).map_err(|_| Refusal::Changed)?;
    if note.size > MAX_GROWTH * file.len() as u64 {
        return Err(Refusal::Changed);
    }
    let mut old = vec![0; note.size as usize];
    for run in &note.runs {
        copy_back(file, &mut old, run).ok_or(Refusal::Changed)?;
    }
    let mut headers = Headers::read(&file[..start]).map_err(|_| Refusal::Changed)?;
    let counts = (headers.programs.len(), headers.sections.len());
    if counts != (note.programs.len(), note.sections.len()) {
        return Err(Refusal::Changed);
    }
    (headers.phoff, headers.shoff) = (note.phoff, note.shoff);
    for (program, (offset, align)) in headers.programs.iter_mut().zip(&note.programs) {
        (program.offset, program.align) = (*offset, *align);
    }
    for (section, offset) in headers.sections.iter_mut().zip(&note.sections) {
        section.offset = *offset;
    }
    store(&headers, &mut old).ok_or(Refusal::Changed)?;
    if let Some((at, table)) = &note.table {
        let place = slice(&mut old, *at, table.len() as u64).ok_or(Refusal::Changed)?;
        place.copy_from_slice(table);
    }
    match blake3::hash(&old).to_string() == note.hash {
        true => Ok(old),
        false => Err(Refusal::Changed),
    }
}

fn slice(bytes: &mut [u8], at: u64, size: u64) -> Option<&mut [u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get_mut(at..)?.get_mut(..usize::try_from(size).ok()?)
}

fn copy_back(file: &[u8], old: &mut [u8], run: &Run) -> Option<()> {
    let to = usize::try_from(run.to).ok()?;
    let bytes = file.get(to..)?.get(..usize::try_from(run.size).ok()?)?;
    slice(old, run.from, run.size)?.copy_from_slice(bytes);
    Some(())
}

fn store(headers: &Headers, old: &mut [u8]) -> Option<()> {
    headers.store_header(slice(old, 0, headers.header_size())?);
    headers.store_programs(slice(old, headers.phoff, headers.programs_size())?);
    if !headers.sections.is_empty() {
        headers.store_sections(slice(old, headers.shoff, headers.sections_size())?);
    }
    Some(())
}
