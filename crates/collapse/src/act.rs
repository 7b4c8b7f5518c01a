// SPDX-License-Identifier: GPL-2.0-only
//! Collapses block by block, with an eye on memory and on whoever else wants
//! the CPU.

use crate::plan::{Block, Key, Target, Why};
use crate::{Other, Refusal, Source};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use wideleaf_kit::events::{Event, Observer};

/// A block is asked for again this often if its pages are busy.
const TRIES: u32 = 4;
/// Time for whoever keeps them busy.
const BUSY: Duration = Duration::from_millis(10);

/// What may be taken.
pub struct Budget {
    /// Bytes in all.
    pub limit: u64,
    /// Bytes taken.
    pub taken: u64,
    /// Where it comes from.
    pub source: Source,
    /// Blocks that became folios: to map them once more takes nothing.
    made: HashSet<Key>,
}

impl Budget {
    /// Nothing is taken yet of `limit` bytes.
    pub fn new(limit: u64, source: Source) -> Self {
        Self {
            limit,
            taken: 0,
            source,
            made: HashSet::new(),
        }
    }

    /// Why a block must not be asked for, if so. Asking would make the kernel
    /// reclaim, here and now, though nobody allowed it.
    fn forbids(&self, pid: u32, key: &Key) -> Option<Why> {
        if self.made.contains(key) {
            return None;
        }
        if self.taken + self.source.pmd > self.limit {
            return Some(Why::Limit);
        }
        if !self.source.has_block() {
            return Some(Why::NoMemory);
        }
        (!self.source.fits(pid)).then_some(Why::NoHeadroom)
    }

    fn took(&mut self, key: Key) {
        if self.made.insert(key) {
            self.taken += self.source.pmd;
        }
    }
}

/// Works through all targets; `observer` hears of each block. Killed at any point it leaves
/// nothing undone: a block is collapsed or not.
pub fn act(targets: &mut [Target], budget: &mut Budget, observer: &dyn Observer) {
    let total = targets.iter().map(|target| target.blocks.len() as u64);
    let (total, mut done) = (Some(total.sum()), 0);
    for target in targets {
        let blocks = std::mem::take(&mut target.blocks);
        let pid = target.before.pid;
        let other = Other::open(pid);
        let mut over = None;
        for block in blocks {
            let why = match (&other, &over) {
                (_, Some(why)) => Some(Clone::clone(why)),
                (Err(refusal), _) => Some(Why::Refused(*refusal)),
                (Ok(other), None) => one(other, pid, &block, budget),
            };
            if let Some(why) = why {
                if is_of_all(&why) {
                    over = Some(why.clone());
                }
                target.leave(
                    block.address,
                    block.address + budget.source.pmd,
                    why,
                    &block.name,
                );
            }
            done += 1;
            observer.event(Event::Progress { done, total });
        }
    }
}

/// Whether the next block of the process would be refused for the same reason.
fn is_of_all(why: &Why) -> bool {
    use nix::errno::Errno::{EACCES, ENOSYS, EPERM, ESRCH};
    matches!(why, Why::Refused(Refusal(EPERM | EACCES | ESRCH | ENOSYS)))
}

/// Collapses one block; tells why not.
fn one(other: &Other, pid: u32, block: &Block, budget: &mut Budget) -> Option<Why> {
    if let Some(why) = budget.forbids(pid, &block.key) {
        return Some(why);
    }
    match gently(|| other.collapse(block.address, budget.source.pmd)) {
        Ok(()) => {
            budget.took(block.key.clone());
            None
        }
        Err(refusal) => Some(Why::Refused(refusal)),
    }
}

/// Asks for a block, a few times if its pages are busy. As much time as the
/// answer took is left to others before the next question.
pub(crate) fn gently(mut ask: impl FnMut() -> Result<(), Refusal>) -> Result<(), Refusal> {
    let mut tries = 0;
    loop {
        let start = Instant::now();
        let result = ask();
        let took = start.elapsed();
        tries += 1;
        match result {
            Ok(()) => {
                std::thread::sleep(took);
                return result;
            }
            Err(refusal) if refusal.passes() && tries < TRIES => std::thread::sleep(BUSY.max(took)),
            Err(_) => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const PAGE: u64 = 4096;
    const PMD: u64 = 2 << 20;

    fn source(proc: &Path) -> Source {
        Source {
            proc: proc.to_owned(),
            page: PAGE,
            pmd: PMD,
            reclaim: false,
        }
    }

    /// What a machine with this many free pieces of 2M and this many free pages
    /// above the high watermark says of a block.
    fn forbidden(pieces: u64, pages: u64, limit: u64) -> Option<Why> {
        let proc = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| std::fs::write(proc.path().join(name), text).unwrap();
        file(
            "buddyinfo",
            format!("Node 0, zone Normal 9 9 9 9 9 9 9 9 9 {pieces} 0\n"),
        );
        file(
            "zoneinfo",
            format!(
                "Node 0, zone   Normal\n  pages free {}\n        high     100\n",
                pages + 100
            ),
        );
        let budget = Budget::new(limit, source(proc.path()));
        budget.forbids(1, &Key::Anonymous(1, 0))
    }

    #[test]
    fn the_kernel_is_not_asked_for_what_it_would_have_to_reclaim() {
        let block = PMD / PAGE;
        // One block, and two that stay.
        assert_eq!(forbidden(3, 3 * block, PMD), None);
        assert_eq!(forbidden(2, 100 * block, PMD), Some(Why::NoMemory));
        assert_eq!(forbidden(100, 3 * block - 1, PMD), Some(Why::NoMemory));
        assert_eq!(forbidden(100, 100 * block, PMD - 1), Some(Why::Limit));
    }

    #[test]
    fn a_block_that_another_process_made_is_mapped_whatever_is_left() {
        let mut budget = Budget::new(PMD, source("/nowhere".as_ref()));
        let key = Key::File("8:1".into(), 7, 0);
        assert_eq!(budget.forbids(1, &key), Some(Why::NoMemory));
        budget.took(key.clone());
        budget.took(key.clone());
        assert_eq!((budget.taken, budget.forbids(1, &key)), (PMD, None));
        let other = Key::File("8:1".into(), 7, PMD);
        assert_eq!(budget.forbids(1, &other), Some(Why::Limit));
    }

    #[test]
    fn others_get_as_much_time_as_a_block_takes() {
        let work = Duration::from_millis(20);
        let start = Instant::now();
        let result = gently(|| {
            std::thread::sleep(work);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        assert!(start.elapsed() >= 2 * work, "{:?}", start.elapsed());
    }

    #[test]
    fn busy_pages_are_asked_for_again_and_refusals_are_not() {
        let asked = |refusal| {
            let mut times = 0;
            let result = gently(|| {
                times += 1;
                Err(refusal)
            });
            assert_eq!(result, Err(refusal));
            times
        };
        assert_eq!(asked(Refusal(nix::errno::Errno::EAGAIN)), TRIES);
        assert_eq!(asked(Refusal(nix::errno::Errno::EINVAL)), 1);
    }
}
