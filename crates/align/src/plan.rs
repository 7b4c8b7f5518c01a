// SPDX-License-Identifier: GPL-2.0-only
//! Where each byte of the file goes. Nothing is read or written here but the
//! headers: a plan is a list of runs of the old file and their places in the
//! new one, holes between them.
//!
//! A loader maps whole pages, so a segment is more than its bytes: what comes
//! before it in its first page and after it in its last one is mapped too, and
//! neighbouring segments share such pages. Where neighbours move apart, shared
//! pages are copied to both. Neighbours that need the same move stay together,
//! and so does what lies between them.

use crate::Refusal;
use crate::headers::Headers;
use object::elf;
use serde::{Deserialize, Serialize};
use wideleaf_elf::{Elf, Kind, Segment, align_down, align_up};

/// The smallest page of any machine that Linux runs on.
const MIN_PAGE: u64 = 4 << 10;
/// The largest page of any machine whose files are common.
const MAX_PAGE: u64 = 64 << 10;
/// No leaf is wider that a program's text could use.
const MAX_LEAF: u64 = 1 << 30;

/// A stretch of the old file and where it goes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Offset in the old file.
    pub from: u64,
    /// Offset in the new file.
    pub to: u64,
    /// Length.
    pub size: u64,
    /// Offset in the old file from which it is more than a copy of the page
    /// that it shares with the run before.
    #[serde(skip)]
    pub own: u64,
}

impl Run {
    fn holds(&self, offset: u64, size: u64) -> bool {
        offset >= self.from
            && offset - self.from <= self.size
            && size <= self.size - (offset - self.from)
    }

    fn moved(&self, offset: u64) -> u64 {
        offset - self.from + self.to
    }
}

/// A segment's place before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Program header index.
    pub index: usize,
    /// `p_vaddr`, which stays.
    pub address: u64,
    /// `p_offset`
    pub offset_before: u64,
    /// `p_offset`
    pub offset_after: u64,
    /// `p_align`
    pub align_before: u64,
    /// `p_align`
    pub align_after: u64,
}

/// How to rewrite a file.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The leaf in bytes that every segment will be congruent at.
    pub leaf: u64,
    /// The largest page in bytes that a kernel could load the file with.
    pub page: u64,
    /// What goes where, in the order of the new file. They may share bytes of the old file.
    pub runs: Vec<Run>,
    /// Size of the new file in bytes, holes included.
    pub size: u64,
    /// The loadable segments.
    pub segments: Vec<Moved>,
    /// Where the note begins that tells how to undo it.
    pub(crate) note_at: u64,
    pub(crate) before: Headers,
    pub(crate) after: Headers,
}

/// Whether every segment is congruent at the leaf and asks for it.
pub fn is_aligned(elf: &Elf, leaf: u64) -> bool {
    let good = |s: &Segment| s.congruence().holds(leaf) && s.align >= leaf;
    elf.odd_base(leaf) == 0 && elf.segments.iter().all(good)
}

/// The largest page, of those the machine can have, that a kernel could map
/// the file with: all segments have to be congruent at it.
pub(crate) fn largest_page(elf: &Elf) -> u64 {
    let machine = elf::Machine(elf.machine.0);
    if matches!(machine, elf::EM_X86_64 | elf::EM_386) {
        return MIN_PAGE;
    }
    let fits = |page: &u64| elf.segments.iter().all(|s| s.congruence().holds(*page));
    let sizes = [MAX_PAGE, MAX_PAGE / 2, MAX_PAGE / 4, MAX_PAGE / 8];
    sizes.into_iter().find(fits).unwrap_or(MIN_PAGE)
}

/// The pages of the file that a loader maps for a segment, cut at the file's end.
pub(crate) fn pages(segment: &Segment, page: u64, file_size: u64) -> (u64, u64) {
    let end = align_up(segment.offset + segment.file_size, page);
    (align_down(segment.offset, page), end.min(file_size))
}

/// Plans the move of a file's segments to offsets that are congruent at
/// `leaf`, a power of two from 4K to 1G.
///
/// # Errors
///
/// Why the file cannot be aligned; with `force`, bytes that no header names
/// are no reason.
pub fn plan(file: &[u8], elf: &Elf, leaf: u64, force: bool) -> Result<Plan, Refusal> {
    check(elf)?;
    let before = Headers::read(file)?;
    let appended = appended(file, &before);
    if is_packed(file, &before) {
        return Err(Refusal::Packed);
    }
    if let (Some((offset, size)), false) = (appended, force) {
        return Err(Refusal::Appended { offset, size });
    }
    let asked = elf.segments.iter().map(|s| s.align).max().unwrap_or(0);
    let leaf = leaf.max(asked);
    match elf.odd_base(leaf) {
        0 => {}
        base => return Err(Refusal::Base { base, leaf }),
    }
    let page = largest_page(elf);
    let runs = runs(file, elf, &before, leaf, page)?;
    let mut plan = Plan {
        leaf,
        page,
        size: runs.iter().map(|r| r.to + r.size).max().unwrap_or(0),
        runs,
        segments: Vec::new(),
        note_at: 0,
        after: before.clone(),
        before,
    };
    // Behind the last page of a segment that the file ends in, where zeroes are mapped.
    plan.note_at = align_up(plan.size, plan.page.max(8));
    if plan.size > plan.before.max_offset() {
        return Err(Refusal::TooLarge(plan.size));
    }
    let copied: u64 = plan.runs.iter().map(|r| r.size).sum();
    let room = 2 * file.len() as u64 + 2 * page * elf.segments.len() as u64;
    if copied > room {
        return Err(Refusal::Overlap(copied));
    }
    plan.move_programs(elf)?;
    plan.move_sections()?;
    Ok(plan)
}

fn check(elf: &Elf) -> Result<(), Refusal> {
    match elf.kind {
        Kind::Relocatable | Kind::Core | Kind::Other => {
            return Err(Refusal::Kind(elf.kind.describe()));
        }
        _ if elf.sections.debug_only => return Err(Refusal::Kind("separate debug file")),
        _ => {}
    }
    if elf.segments.is_empty() {
        return Err(Refusal::NoSegments);
    }
    for segment in &elf.segments {
        if segment.file_size > 0 && !segment.congruence().holds(MIN_PAGE) {
            return Err(Refusal::OffPage {
                index: segment.index,
                address: segment.address,
                offset: segment.offset,
            });
        }
        if segment.align > MAX_LEAF {
            return Err(Refusal::Align {
                index: segment.index,
                align: segment.align,
            });
        }
    }
    Ok(())
}

/// Every stretch of the file that a header names.
fn named(headers: &Headers) -> impl Iterator<Item = (u64, u64)> + '_ {
    let tables = [
        (0, headers.header_size()),
        (headers.phoff, headers.programs_size()),
        (headers.shoff, headers.sections_size()),
    ];
    let programs = headers.programs.iter().map(|p| (p.offset, p.file_size));
    let sections = headers.sections.iter().filter(|s| s.stored);
    let sections = sections.map(|s| (s.offset, s.size));
    tables.into_iter().chain(programs).chain(sections)
}

/// What follows everything that headers name, unless it is zeroes.
fn appended(file: &[u8], headers: &Headers) -> Option<(u64, u64)> {
    let end = named(headers).map(|(offset, size)| offset.saturating_add(size));
    let end = end.max().unwrap_or(0).min(file.len() as u64);
    let rest = &file[end as usize..];
    let zeroes = rest.iter().take_while(|b| **b == 0).count();
    (zeroes < rest.len()).then_some((end, rest.len() as u64))
}

/// UPX writes its mark behind the program headers, after a checksum.
fn is_packed(file: &[u8], headers: &Headers) -> bool {
    let at = (headers.phoff + headers.programs_size()) as usize;
    file.get(at..at + 64)
        .is_some_and(|bytes| bytes.windows(4).any(|word| word == b"UPX!"))
}

/// Neighbours in the file that need the same move.
struct Chunk {
    /// `(address − offset) mod leaf`
    shift: u64,
    /// First byte of a segment.
    start: u64,
    /// End of the last byte of a segment.
    end: u64,
}

fn chunks(elf: &Elf, leaf: u64) -> Vec<Chunk> {
    let mut segments: Vec<&Segment> = elf.segments.iter().filter(|s| s.file_size > 0).collect();
    segments.sort_by_key(|s| (s.offset, s.address));
    let mut chunks: Vec<Chunk> = Vec::new();
    for segment in segments {
        let shift = segment.shift() & (leaf - 1);
        let end = segment.offset + segment.file_size;
        match chunks.last_mut() {
            Some(last) if last.shift == shift => last.end = last.end.max(end),
            _ => chunks.push(Chunk {
                shift,
                start: segment.offset,
                end,
            }),
        }
    }
    chunks
}

fn runs(
    file: &[u8],
    elf: &Elf,
    headers: &Headers,
    leaf: u64,
    page: u64,
) -> Result<Vec<Run>, Refusal> {
    let size = file.len() as u64;
    let chunks = chunks(elf, leaf);
    let mut runs: Vec<Run> = Vec::new();
    let first = chunks.first().map_or(size, |c| c.start);
    let first = match chunks.first() {
        Some(chunk) if align_down(first, page) == 0 && chunk.shift == 0 => 0,
        // The file header has to be at 0 and its segment elsewhere: the
        // header is there twice.
        Some(_) if align_down(first, page) == 0 => headers.header_size(),
        _ => first,
    };
    if first > 0 {
        runs.push(Run {
            from: 0,
            to: 0,
            size: first,
            own: 0,
        });
    }
    for (position, chunk) in chunks.iter().enumerate() {
        let from = align_down(chunk.start, page);
        let end = align_up(chunk.end, page).min(size);
        let end = match chunks.get(position + 1) {
            None => size,
            Some(next) if is_needed(file, headers, chunk.end, next.start) => end.max(next.start),
            Some(_) => end,
        };
        let free = runs.last().map_or(0, |r| align_up(r.to + r.size, page));
        let place = |to: u64| (from.wrapping_add(chunk.shift)).wrapping_sub(to) & (leaf - 1);
        runs.push(Run {
            from,
            to: free + place(free),
            size: end - from,
            own: if runs.is_empty() { 0 } else { chunk.start },
        });
    }
    Ok(runs)
}

/// Whether what lies between two chunks holds anything.
fn is_needed(file: &[u8], headers: &Headers, start: u64, end: u64) -> bool {
    if start >= end {
        return false;
    }
    let inside = |(offset, size): (u64, u64)| size > 0 && offset < end && offset + size > start;
    named(headers).any(inside)
        || file[start as usize..end as usize]
            .iter()
            .any(|byte| *byte != 0)
}

impl Plan {
    /// Where a stretch of the old file went: with the run that it belongs to,
    /// else with any that holds it whole.
    fn find(&self, offset: u64, size: u64) -> Option<u64> {
        let mut holders = self.runs.iter().rev().filter(|r| r.holds(offset, size));
        let run = holders.clone().find(|r| r.own <= offset);
        let run = run.or_else(|| holders.next())?;
        Some(run.moved(offset))
    }

    fn torn(&self, name: &str, offset: u64, size: u64) -> Refusal {
        Refusal::Torn {
            name: name.to_string(),
            offset,
            size,
        }
    }

    /// The new offset of what is loaded at this address from this offset.
    fn find_loaded(&self, offset: u64, address: u64, size: u64) -> Option<u64> {
        let loads = self.before.programs.iter().zip(&self.after.programs);
        let mut loads = loads.filter(|(old, _)| old.load);
        let (old, new) = loads.find(|(old, _)| {
            address >= old.address
                && address - old.address <= old.memory_size
                && size <= old.memory_size - (address - old.address)
                && offset.wrapping_sub(old.offset) == address - old.address
        })?;
        Some(new.offset.wrapping_add(offset.wrapping_sub(old.offset)))
    }

    fn move_programs(&mut self, elf: &Elf) -> Result<(), Refusal> {
        for segment in &elf.segments {
            let to = match segment.file_size {
                0 => self.place_empty(segment),
                size => self
                    .find_congruent(segment)
                    .ok_or_else(|| self.torn("(a segment)", segment.offset, size))?,
            };
            let program = &mut self.after.programs[segment.index];
            program.offset = to;
            program.align = self.leaf;
            self.segments.push(Moved {
                index: segment.index,
                address: segment.address,
                offset_before: segment.offset,
                offset_after: to,
                align_before: segment.align,
                align_after: self.leaf,
            });
        }
        for index in 0..self.before.programs.len() {
            let program = self.before.programs[index];
            let nothing = program.offset == 0 && program.file_size == 0;
            if program.load || nothing {
                continue;
            }
            let (offset, size) = (program.offset, program.file_size);
            let found = self.find_loaded(offset, program.address, size);
            let found = found.or_else(|| self.find(offset, size));
            let found = found.or((size == 0).then_some(offset));
            let name = format!("of program header {index}");
            self.after.programs[index].offset =
                found.ok_or_else(|| self.torn(&name, offset, size))?;
        }
        let (offset, size) = (self.before.phoff, self.before.programs_size());
        // A program finds its own headers through the segment they are in.
        let found = self
            .find_headers(offset, size)
            .or_else(|| self.find(offset, size));
        self.after.phoff =
            found.ok_or_else(|| self.torn("(program header table)", offset, size))?;
        Ok(())
    }

    /// The run that takes a segment to a congruent place.
    fn find_congruent(&self, segment: &Segment) -> Option<u64> {
        let mut runs = self.runs.iter();
        let run = runs.find(|r| {
            let to = r.to.wrapping_sub(r.from).wrapping_add(segment.offset);
            let (start, end) = pages(segment, self.page, r.from + r.size);
            r.holds(segment.offset, segment.file_size)
                && r.holds(start, end - start)
                && segment.address.wrapping_sub(to) & (self.leaf - 1) == 0
        })?;
        Some(run.moved(segment.offset))
    }

    /// A segment without bytes still has an offset, which ld.so checks.
    fn place_empty(&self, segment: &Segment) -> u64 {
        let near = self.find(segment.offset, 0).unwrap_or(0);
        near + (segment.address.wrapping_sub(near) & (self.leaf - 1))
    }

    fn find_headers(&self, offset: u64, size: u64) -> Option<u64> {
        let loads = self.before.programs.iter().zip(&self.after.programs);
        let mut loads = loads.filter(|(old, _)| old.load);
        let (old, new) = loads
            .find(|(old, _)| old.offset <= offset && offset - old.offset + size <= old.file_size)?;
        Some(new.offset + (offset - old.offset))
    }

    fn move_sections(&mut self) -> Result<(), Refusal> {
        if self.before.sections.is_empty() {
            return Ok(());
        }
        for index in 0..self.before.sections.len() {
            let section = &self.before.sections[index];
            if section.null {
                continue;
            }
            let size = if section.stored { section.size } else { 0 };
            let loaded = match section.alloc {
                true => self.find_loaded(section.offset, section.address, size),
                false => None,
            };
            let found = loaded.or_else(|| self.find(section.offset, size));
            // What has no bytes may claim to be anywhere.
            let found = found.or((size == 0).then_some(section.offset));
            let torn = || self.torn(&section.name, section.offset, size);
            self.after.sections[index].offset = found.ok_or_else(torn)?;
        }
        let (offset, size) = (self.before.shoff, self.before.sections_size());
        let found = self.find(offset, size);
        self.after.shoff =
            found.ok_or_else(|| self.torn("(section header table)", offset, size))?;
        Ok(())
    }
}
