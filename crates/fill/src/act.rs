// SPDX-License-Identifier: GPL-2.0-only
//! Block by block, with an eye on the limits.

use crate::block::{look as look_at, make};
use crate::{Budget, Found, Geometry, Text, Why};
use std::time::Instant;
use wideleaf_kit::events::{Event, Observer};

/// A file, and what the page cache holds of its blocks.
pub struct Plan {
    /// The file.
    pub text: Text,
    /// Its blocks: offsets, and what was found.
    pub blocks: Vec<(u64, Found)>,
    /// Blocks at which the kernel refused to look.
    pub left: Vec<Left>,
}

/// A stretch of blocks that stay as they are, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// First offset in the file.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The reason.
    pub why: Why,
    /// Bytes that stand in the way: mapped, dirty, cached.
    pub bytes: u64,
}

/// The outcome for a file, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// In folios of a block's size, after.
    pub wide: u64,
    /// In blocks that were read.
    pub read: u64,
    /// Of the page cache that was dropped.
    pub dropped: u64,
    /// Of these, what was not read again.
    pub lost: u64,
    /// Blocks that stay as they are.
    pub left: Vec<Left>,
}

/// Looks at all blocks of a file, and reads nothing.
pub fn look(text: Text, sizes: &Geometry) -> Plan {
    let (mut blocks, mut left) = (Vec::new(), Vec::new());
    for &offset in &text.odd {
        leave(&mut left, offset, sizes.pmd, Why::NotCongruent, 0);
    }
    let in_memory = matches!(text.file_system, "tmpfs" | "ramfs");
    for &offset in &text.blocks {
        match look_at(&text, offset, sizes) {
            Ok(found) if in_memory && found != Found::Wide => {
                leave(&mut left, offset, sizes.pmd, Why::InMemory, 0);
            }
            Ok(found) => blocks.push((offset, found)),
            Err(errno) => leave(&mut left, offset, sizes.pmd, Why::Call(errno), 0),
        }
    }
    Plan { text, blocks, left }
}

impl Plan {
    /// Bytes in folios of a block's size.
    pub fn wide(&self, pmd: u64) -> u64 {
        let wide = self.blocks.iter().filter(|b| b.1 == Found::Wide);
        wide.count() as u64 * pmd
    }

    /// Bytes in blocks to read, and of these bytes to drop first.
    pub fn need(&self, pmd: u64, evict: bool) -> (u64, u64) {
        let need = |found: &Found| match *found {
            Found::Wide => (0, 0),
            Found::Narrow { used: 1.., .. } => (0, 0),
            Found::Narrow { cached, .. } if evict => (pmd, cached),
            Found::Narrow { .. } => (0, 0),
            Found::Absent | Found::Unknown => (pmd, 0),
        };
        let needs = self.blocks.iter().map(|(_, found)| need(found));
        needs.fold((0, 0), |sum, need| (sum.0 + need.0, sum.1 + need.1))
    }

    /// Blocks that would stay as they are, as far as that is known without trying.
    pub fn would_stay(&self, pmd: u64, evict: bool) -> Vec<Left> {
        let mut left = self.left.clone();
        for &(offset, found) in &self.blocks {
            match found {
                Found::Narrow { used, .. } if used > 0 => {
                    leave(&mut left, offset, pmd, Why::InUse, used);
                }
                Found::Narrow { cached, .. } if !evict => {
                    leave(&mut left, offset, pmd, Why::Cached, cached);
                }
                _ => {}
            }
        }
        left
    }
}

/// Works through all files; `observer` hears of each block. Killed at any point it leaves each
/// block as it was, as one folio, or, one at most, out of the page cache.
pub fn act(
    plans: &[Plan],
    budget: &mut Budget,
    sizes: &Geometry,
    observer: &dyn Observer,
) -> Vec<Filled> {
    let total = Some(plans.iter().map(|plan| plan.blocks.len() as u64).sum());
    let mut done = 0;
    let mut filled = Vec::new();
    for plan in plans {
        filled.push(file(plan, budget, sizes, &mut || {
            done += 1;
            observer.event(Event::Progress { done, total });
        }));
    }
    filled
}

fn file(plan: &Plan, budget: &mut Budget, sizes: &Geometry, step: &mut dyn FnMut()) -> Filled {
    let mut filled = Filled {
        left: plan.left.clone(),
        ..Filled::default()
    };
    // Its file system has shown that it has no such folios, or all were wanted or none: nothing
    // more is dropped for that.
    let mut over = None;
    for &(offset, found) in &plan.blocks {
        step();
        let why = match found {
            Found::Wide => None,
            _ if over.is_some() => over,
            _ => one(plan, offset, found, budget, sizes, &mut filled),
        };
        match why {
            None => filled.wide += sizes.pmd,
            Some((why, bytes)) => {
                if matches!(why, Why::NoFolio | Why::Untold) || budget.limits.all_or_none {
                    over = Some((why, 0));
                }
                leave(&mut filled.left, offset, sizes.pmd, why, bytes);
            }
        }
    }
    filled
}

/// Makes one block one folio; tells why not.
fn one(
    plan: &Plan,
    offset: u64,
    found: Found,
    budget: &mut Budget,
    sizes: &Geometry,
    filled: &mut Filled,
) -> Option<(Why, u64)> {
    let reads = match found {
        Found::Wide | Found::Narrow { used: 1.., .. } => false,
        Found::Narrow { .. } => budget.limits.evict,
        Found::Absent | Found::Unknown => true,
    };
    if reads && let Some(why) = budget.forbids(sizes) {
        return Some((why, 0));
    }
    let start = Instant::now();
    if reads {
        budget.before(sizes);
    }
    let made = make(&plan.text, offset, found, budget.limits.evict, sizes);
    if reads {
        budget.after(sizes.pmd, made.left.is_none(), start.elapsed());
        filled.read += sizes.pmd;
    }
    filled.dropped += made.dropped;
    filled.lost += made.lost;
    made.left
}

/// Notes that a block stays as it is; neighbours become one stretch.
fn leave(left: &mut Vec<Left>, start: u64, length: u64, why: Why, bytes: u64) {
    match left.last_mut() {
        Some(last) if last.end == start && last.why == why => {
            last.end += length;
            last.bytes += bytes;
        }
        _ => left.push(Left {
            start,
            end: start + length,
            why,
            bytes,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_one_reason_are_one_stretch() {
        let mut left = Vec::new();
        leave(&mut left, 0, 2, Why::InUse, 1);
        leave(&mut left, 2, 2, Why::InUse, 1);
        leave(&mut left, 6, 2, Why::InUse, 1);
        leave(&mut left, 8, 2, Why::Dirty, 1);
        let ends: Vec<_> = left.iter().map(|l| (l.end, l.bytes)).collect();
        assert_eq!(ends, [(4, 2), (8, 1), (10, 1)]);
    }
}
