// SPDX-License-Identifier: GPL-2.0-only
//! The core against a second, slow implementation that was written from the
//! rules and not from the C code: it tries every page where the core computes.

mod common;

use common::{aligns, images, reads};
use proptest::prelude::*;
use wideleaf_policy::{Advice, Align, Ground, Read, Segment, Thp};

/// 128 bits, so that nothing overflows on this side.
type Wide = i128;

fn page(ground: &Ground) -> Wide {
    1 << ground.table.page_shift()
}

/// The pages of the file that `[offset, offset + length)` touches: first
/// byte and byte after the last.
fn pages(ground: &Ground, offset: u64, length: u64) -> Option<(Wide, Wide)> {
    let page = page(ground);
    let (offset, length) = (Wide::from(offset), Wide::from(length));
    if length == 0 || offset + length > 1 << 64 {
        return None;
    }
    let up = |value: Wide| (value + page - 1) / page * page;
    let mut end = up(offset + length);
    if ground.file_size != 0 {
        end = end.min(up(Wide::from(ground.file_size)));
    }
    let start = offset / page * page;
    (start < end).then_some((start, end))
}

fn on(ground: &Ground) -> bool {
    ground.enabled && ground.thp != Thp::Never
}

/// Leaves that some place in the mapping can use, widest first. Tries each
/// leaf-sized block between the mapping's first and last byte.
fn usable(ground: &Ground, range: (Wide, Wide), displacement: Wide) -> Vec<u8> {
    let mut shifts: Vec<u8> = ground.table.leaves()[1..]
        .iter()
        .map(|leaf| leaf.shift)
        .collect();
    shifts.retain(|shift| {
        let leaf: Wide = 1 << shift;
        *shift <= 21
            && leaf <= page(ground) << ground.max_order
            && displacement % leaf == 0
            && (0..3).any(|step| {
                let block = (range.0 / leaf + step) * leaf;
                block >= range.0 && block + leaf <= range.1
            })
    });
    shifts.reverse();
    shifts
}

fn align(query: &Align) -> u8 {
    let narrow = query.ground.table.page_shift();
    let Some(range) = pages(&query.ground, query.offset, query.length) else {
        return narrow;
    };
    if !on(&query.ground) {
        return narrow;
    }
    widest_placed(query, usable(&query.ground, range, 0))
}

fn widest_placed(query: &Align, usable: Vec<u8>) -> u8 {
    usable
        .into_iter()
        .find(|shift| Wide::from(query.length) + (1 << shift) <= Wide::from(query.space))
        .unwrap_or(query.ground.table.page_shift())
}

fn align_elf(query: &Align, segments: &[Segment]) -> u8 {
    let narrow = query.ground.table.page_shift();
    if !on(&query.ground) {
        return narrow;
    }
    segments
        .iter()
        .filter(|segment| !segment.writable)
        .filter_map(|segment| {
            let range = pages(&query.ground, segment.offset, segment.filesz)?;
            let displacement = Wide::from(segment.vaddr) - Wide::from(segment.offset);
            Some(widest_placed(
                query,
                usable(&query.ground, range, displacement),
            ))
        })
        .max()
        .unwrap_or(narrow)
}

/// Whether there is no more than one whole block of `leaf` bytes in `range`.
fn single(range: (Wide, Wide), leaf: Wide) -> bool {
    let first = (range.0 + leaf - 1) / leaf * leaf;
    first + 2 * leaf > range.1
}

/// The leaf for a fault, or none where the policy stays out.
fn leaf(query: &Read) -> Option<u8> {
    let end = if query.end == 0 {
        1 << 64
    } else {
        Wide::from(query.end)
    };
    let (start, fault) = (Wide::from(query.start), Wide::from(query.fault));
    if !on(&query.ground) || query.window == 0 || fault < start || fault >= end {
        return None;
    }
    let length = u64::try_from(end - start).ok()?;
    let range = pages(&query.ground, query.offset, length)?;
    let page = page(&query.ground);
    let pos = (Wide::from(query.offset) + fault - start) / page * page;
    if pos >= range.1 {
        return None;
    }
    let displacement = start - Wide::from(query.offset);
    let usable = usable(&query.ground, range, displacement);
    if usable.is_empty() {
        return None;
    }

    let smallest = query.ground.table.leaves()[1].shift;
    let smallest: Wide = if smallest <= 16 { 1 << smallest } else { page };
    let window = (Wide::from(query.window) + 0xffff) / 0x10000 * 0x10000;
    let (hole, run) = (Wide::from(query.hole), Wide::from(query.run));
    let stream = if hole <= 16384 { run.min(2 << 20) } else { 0 };
    let smallest = if query.evicted { 0x10000 } else { smallest };
    let demand = match query.account.lonely {
        _ if !query.evicted && query.advice == Advice::Random => window.min(smallest),
        0..16 if !query.evicted => window,
        _ if stream > 0 => window.min(smallest.max(stream)),
        _ if query.evicted => window.min(smallest),
        _ if hole < window.min(2 << 20) => window,
        _ => smallest,
    };
    let repaid = {
        let last = Wide::from(query.last_size);
        let proven = if stream > 0 && last > window {
            last - window
        } else {
            0
        };
        (demand / 4 + proven + proven / 4) / 4096
    };
    let debt = (Wide::from(query.account.debt) - repaid).max(0) * 4096;
    let trust = ((2 << 20) - debt).max(0);

    let narrow = query.ground.table.page_shift();
    let stream = match query.advice {
        Advice::None => stream,
        Advice::Random => 0,
        Advice::Sequential => 2 << 20,
    };
    usable
        .into_iter()
        .find(|shift| {
            let leaf: Wide = 1 << shift;
            let block = pos / leaf * leaf;
            // Every page of the leaf is in the mapping and still missing.
            let missing = (block..block + leaf).step_by(page as usize).all(|at| {
                at >= range.0
                    && at + page <= range.1
                    && if at < pos {
                        pos - at <= hole
                    } else {
                        at + page - pos <= Wide::from(query.gap)
                    }
            });
            missing
                && leaf <= Wide::from(query.window) * 16
                && (leaf <= 1 << 16 || leaf <= Wide::from(query.spare))
                && (leaf <= demand
                    || ((leaf <= stream * 2 || demand == window && single(range, leaf))
                        && leaf - demand <= trust))
        })
        .or(Some(narrow))
}

proptest! {
    #![proptest_config(common::config())]

    #[test]
    fn alignment(query in aligns()) {
        let answer = wideleaf_policy::align(&query);
        prop_assert_eq!(answer.shift, align(&query), "{:?}", answer);
    }

    #[test]
    fn elf_alignment((query, segments) in images()) {
        let answer = wideleaf_policy::align_elf(&query, &segments);
        prop_assert_eq!(answer.shift, align_elf(&query, &segments), "{:?} {:?}", answer, segments);
    }

    #[test]
    fn leaf_of_a_read(query in reads()) {
        let answer = wideleaf_policy::read(&query);
        let answered = (answer.size != 0).then_some(answer.leaf);
        prop_assert_eq!(answered, leaf(&query), "{:?}", answer);
    }
}
