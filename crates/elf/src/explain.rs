// SPDX-License-Identifier: GPL-2.0-only
//! A verdict in words.

use crate::{Cause, Elf, LEAF_2M, Placement, Segment, Verdict};
use wideleaf_kit::size::short;

/// Says why a segment can or cannot be mapped by wide leaves, in a sentence or
/// two, with the values that decide.
pub fn explain(elf: &Elf, verdict: &Verdict) -> String {
    let text = words(&elf.as_loaded(), verdict);
    match (elf.odd_base(LEAF_2M), verdict.cause) {
        (0, _) => text,
        (base, Cause::NotCongruent | Cause::PageShift) => format!(
            "{text}. Addresses count from the first segment's, {base:#x}: kernel and ld.so put that \
             at a multiple of p_align"
        ),
        _ => text,
    }
}

fn words(elf: &Elf, verdict: &Verdict) -> String {
    let segment = &elf.segments[verdict.position];
    let leaf = short(verdict.target);
    match verdict.cause {
        Cause::Good => good(elf, verdict),
        Cause::GoodByMmap => format!(
            "good {}: address and offset are congruent at {leaf}, and the file is large enough to be \
             placed at a multiple of it, though its p_align of {} does not ask for that",
            by_mmap(elf),
            short(elf.max_align())
        ),
        Cause::MaxPageSize => format!(
            "max-page-size was too small: address and offset are congruent at {leaf}, but p_align is \
             {}, so that the file is loaded at any multiple of {0} and {leaf} leaves fit by chance only{}",
            short(elf.max_align()),
            match elf.file_system {
                Some(fs) if !fs.aligns => format!("; {} does not align mmap", fs.name),
                _ => String::new(),
            }
        ),
        Cause::PageShift => format!(
            "page shift: {} moved the address by {:#x} against the offset, a page for each segment \
             before, so that they are congruent at {} only; no {leaf} folio of the file can be mapped by one leaf",
            elf.linker,
            shift_from_first(elf, segment),
            short(lowest_bit(segment)),
        ),
        Cause::Base => format!(
            "the program is linked to address {:#x}, which is no multiple of {leaf}: address and \
             offset are congruent at {} only",
            elf.segments[0].address,
            short(lowest_bit(segment)),
        ),
        Cause::NotCongruent => format!(
            "address {:#x} and offset {:#x} are congruent at {} only; no {leaf} folio of the file can \
             be mapped by one leaf",
            segment.address,
            segment.offset,
            short(lowest_bit(segment)),
        ),
        Cause::Straddles => format!(
            "large enough for a {leaf} leaf, but at {:#x} to {:#x} it contains no whole block of that \
             size: it straddles a boundary",
            segment.address,
            segment.address + segment.file_size,
        ),
        Cause::SeparateCode => {
            "linked with separate-code: too small for a 2M leaf, while code and the \
             constants next to it would fill one together"
                .to_string()
        }
        Cause::TooSmall => format!(
            "too small to matter: no leaf wider than a page fits, {} is the narrowest on {}",
            short(elf.machine.narrowest_wide_leaf()),
            elf.machine
        ),
        Cause::Writable => {
            "writable: private pages are copied one by one when written, no wide leaf lasts"
                .to_string()
        }
        Cause::ZeroFilled => "zero-filled: nothing of it comes from the file".to_string(),
        Cause::Packed => {
            "packed by UPX: the segment holds a compressed program, which is unpacked \
             into private memory at each start, where no leaf is shared and none comes from the \
             file; `upx -d` gives the program back"
                .to_string()
        }
        Cause::OffPage => format!(
            "address {:#x} and offset {:#x} differ within a page: mmap refuses that",
            segment.address, segment.offset
        ),
    }
}

fn good(elf: &Elf, verdict: &Verdict) -> String {
    let leaf = short(verdict.target);
    let placed = match verdict.placement {
        Placement::Fixed => "the address is fixed".to_string(),
        _ => format!("p_align asks for a multiple of {}", short(elf.max_align())),
    };
    format!("good: address and offset are congruent at {leaf}, and {placed}")
}

fn by_mmap(elf: &Elf) -> String {
    match elf.file_system {
        Some(fs) => format!("here, because {} aligns mmap", fs.name),
        None => "on file systems that align mmap (ext4, XFS, Btrfs, EROFS, FUSE; not overlayfs)"
            .to_string(),
    }
}

fn lowest_bit(segment: &Segment) -> u64 {
    let shift = segment.shift();
    shift & shift.wrapping_neg()
}

fn shift_from_first(elf: &Elf, segment: &Segment) -> u64 {
    segment.shift().wrapping_sub(elf.segments[0].shift())
}
