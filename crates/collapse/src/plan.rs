// SPDX-License-Identifier: GPL-2.0-only
//! Which blocks of a process's text could become one leaf, and why not others.

use crate::Refusal;
use std::collections::HashSet;
use wideleaf_jit::is_made;
use wideleaf_procmap::{Extent, Leaf, Process, Vma};

/// What tells whether two processes would share a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Device, inode and offset.
    File(String, u64, u64),
    /// Process and address.
    Anonymous(u32, u64),
}

/// A block that is not mapped by one leaf yet.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its first address.
    pub address: u64,
    /// What tells whether another process shares it.
    pub key: Key,
    /// Bytes of it that the process has mapped.
    pub resident: u64,
    /// The file, or what else it is.
    pub name: String,
}

/// Why a block stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel said so.
    Refused(Refusal),
    /// Address and offset do not allow it.
    NotCongruent,
    /// It is reserved for text that is made at run time, and holds none yet.
    Unpopulated,
    /// It would go beyond `--limit`.
    Limit,
    /// The machine has no free memory for it without reclaim.
    NoMemory,
    /// The process's control group has none.
    NoHeadroom,
}

impl Why {
    /// A short name that does not change, for scripts.
    pub fn name(&self) -> String {
        match self {
            Why::Refused(refusal) => refusal.name(),
            Why::NotCongruent => "not-congruent".into(),
            Why::Unpopulated => "unpopulated".into(),
            Why::Limit => "limit".into(),
            Why::NoMemory => "no-memory".into(),
            Why::NoHeadroom => "cgroup-limit".into(),
        }
    }

    /// Whether nothing is lost by it: there is no text that could be wide.
    pub fn is_harmless(&self) -> bool {
        matches!(self, Why::Unpopulated)
    }

    /// The same in words.
    pub fn meaning(&self) -> &'static str {
        match self {
            Why::Refused(refusal) => refusal.meaning(),
            Why::NotCongruent => {
                "address and offset are not congruent, no folio can be mapped by one leaf there; \
                 `wideleaf inspect` tells how the file would have to be linked"
            }
            Why::Unpopulated => {
                "left out: reserved for text that the program has not made yet; a folio would only \
                 take memory"
            }
            Why::Limit => {
                "left out: it would take more memory than the limit; --limit and --reclaim raise it"
            }
            Why::NoMemory => {
                "left out: not enough free memory in whole blocks, others would have to wait for it; --reclaim allows that"
            }
            Why::NoHeadroom => "left out: the memory control group of the process is full",
        }
    }
}

/// A stretch of blocks that stay as they are, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The reason.
    pub why: Why,
    /// The file, or what else it is.
    pub name: String,
}

/// A process and what is to be done with it.
pub struct Target {
    /// The process as it was found, without its mappings.
    pub before: Process,
    /// What the kernel is to be asked for.
    pub blocks: Vec<Block>,
    /// What stays as it is.
    pub left: Vec<Left>,
}

impl Target {
    /// Blocks of `pmd` bytes in the text of `process`, which `runs` map now.
    pub fn new(process: Process, runs: &[Extent], pmd: u64) -> Self {
        let mut target = Self {
            before: process,
            blocks: Vec::new(),
            left: Vec::new(),
        };
        let mappings = std::mem::take(&mut target.before.mappings);
        for vma in mappings.iter().map(|m| &m.vma) {
            target.mapping(vma, runs, pmd);
        }
        target
    }

    fn mapping(&mut self, vma: &Vma, runs: &[Extent], pmd: u64) {
        let (Some(first), last) = (vma.start.checked_next_multiple_of(pmd), vma.end / pmd * pmd)
        else {
            return;
        };
        if first >= last {
            return;
        }
        let name = match vma.name.as_str() {
            "" => "[anon]",
            name => name,
        };
        let file = vma.inode != 0;
        if file && !vma.start.wrapping_sub(vma.offset).is_multiple_of(pmd) {
            return self.leave(first, last, Why::NotCongruent, name);
        }
        for address in (first..last).step_by(pmd as usize) {
            let (resident, wide) = mapped(runs, address, pmd);
            if wide == pmd {
                continue;
            }
            if resident == 0 && (!file || is_made(vma)) {
                self.leave(address, address + pmd, Why::Unpopulated, name);
                continue;
            }
            let key = match file {
                true => {
                    let offset = vma.offset + (address - vma.start);
                    Key::File(vma.device.clone(), vma.inode, offset)
                }
                false => Key::Anonymous(self.before.pid, address),
            };
            self.blocks.push(Block {
                address,
                key,
                resident,
                name: name.to_owned(),
            });
        }
    }

    /// Notes that a stretch stays as it is; neighbours become one.
    pub fn leave(&mut self, start: u64, end: u64, why: Why, name: &str) {
        match self.left.last_mut() {
            Some(last) if last.end == start && last.why == why && last.name == name => {
                last.end = end
            }
            _ => self.left.push(Left {
                start,
                end,
                why,
                name: name.to_owned(),
            }),
        }
    }
}

/// Bytes of a block that are mapped at all, and by leaves of its size or more.
fn mapped(runs: &[Extent], address: u64, size: u64) -> (u64, u64) {
    let end = address + size;
    let first = runs.partition_point(|r| r.start + r.len <= address);
    let (mut resident, mut wide) = (0, 0);
    for run in runs[first..].iter().take_while(|r| r.start < end) {
        let bytes = end.min(run.start + run.len) - address.max(run.start);
        resident += bytes;
        if matches!(run.leaf, Leaf::Size(leaf) if leaf >= size) {
            wide += bytes;
        }
    }
    (resident, wide)
}

/// What all of it would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Blocks, each counted once for each process.
    pub blocks: u64,
    /// Bytes of new folios: blocks that processes share count once.
    pub take: u64,
    /// Of these, bytes that no page holds now, and so are not given back. At
    /// most: pages that are cached and not mapped are not seen.
    pub more: u64,
}

/// Sums up; `pmd` in bytes.
pub fn need(targets: &[Target], pmd: u64) -> Need {
    let mut need = Need::default();
    let mut seen = HashSet::new();
    for block in targets.iter().flat_map(|t| &t.blocks) {
        need.blocks += 1;
        if seen.insert(&block.key) {
            need.take += pmd;
            need.more += pmd - block.resident.min(pmd);
        }
    }
    need
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_procmap::{Coverage, Folios, Mapping, Sight};

    const M2: u64 = 2 << 20;

    fn process(pid: u32, vmas: &[(u64, u64, u64, u64)]) -> Process {
        let mapping = |&(start, end, offset, inode): &(u64, u64, u64, u64)| Mapping {
            vma: Vma {
                start,
                end,
                perms: "r-xp".into(),
                offset,
                device: "8:1".into(),
                inode,
                name: "/x".into(),
                name_bytes: None,
                deleted: false,
            },
            coverage: Coverage::default(),
            folios: Folios::default(),
        };
        Process {
            pid,
            name: "x".into(),
            name_bytes: None,
            cgroup: "/".into(),
            cgroup_bytes: None,
            sight: Sight::Full,
            total: Coverage::default(),
            folios: Folios::default(),
            mappings: vmas.iter().map(mapping).collect(),
        }
    }

    fn run(start: u64, len: u64, leaf: u64) -> Extent {
        let leaf = Leaf::Size(leaf);
        Extent { start, len, leaf }
    }

    #[test]
    fn whole_blocks_that_are_no_leaf_yet_are_planned() {
        let vma = (M2 - 4096, 4 * M2 + 4096, 5 * M2 - 4096, 7);
        let runs = [run(M2, M2, M2), run(2 * M2, 8192, 4096)];
        let target = Target::new(process(1, &[vma]), &runs, M2);
        let planned: Vec<(u64, u64)> = target
            .blocks
            .iter()
            .map(|b| (b.address, b.resident))
            .collect();
        assert_eq!(planned, [(2 * M2, 8192), (3 * M2, 0)]);
        assert_eq!(target.blocks[0].key, Key::File("8:1".into(), 7, 6 * M2));
        assert!(target.left.is_empty());
    }

    #[test]
    fn what_is_not_congruent_is_left_with_the_reason() {
        let target = Target::new(process(1, &[(M2, 3 * M2, 4096, 7)]), &[], M2);
        assert!(target.blocks.is_empty());
        assert_eq!(target.left[0].why, Why::NotCongruent);
        assert_eq!((target.left[0].start, target.left[0].end), (M2, 3 * M2));
        // Without a file there is no offset to be congruent with.
        let runs = [run(M2, 2 * M2, 4096)];
        let target = Target::new(process(1, &[(M2, 3 * M2, 4096, 0)]), &runs, M2);
        assert_eq!(target.blocks.len(), 2);
        // No whole block, nothing to say.
        let target = Target::new(process(1, &[(4096, M2 + 4096, 0, 7)]), &[], M2);
        assert!(target.blocks.is_empty() && target.left.is_empty());
    }

    #[test]
    fn what_is_reserved_for_text_to_come_is_not_populated() {
        let runs = [run(2 * M2, 4096, 4096)];
        let target = Target::new(process(1, &[(M2, 4 * M2, 0, 0)]), &runs, M2);
        let planned: Vec<u64> = target.blocks.iter().map(|b| b.address).collect();
        assert_eq!(planned, [2 * M2]);
        let left: Vec<_> = target.left.iter().map(|l| (l.start, l.end)).collect();
        assert_eq!(left, [(M2, 2 * M2), (3 * M2, 4 * M2)]);
        assert!(target.left.iter().all(|l| l.why == Why::Unpopulated));
        // A file's text is in the file, touched or not.
        let target = Target::new(process(1, &[(M2, 4 * M2, M2, 7)]), &[], M2);
        assert_eq!(target.blocks.len(), 3);
    }

    #[test]
    fn blocks_that_processes_share_take_memory_once() {
        let vma = [(M2, 3 * M2, M2, 7)];
        let runs = [run(M2, 4096, 4096)];
        let targets = [
            Target::new(process(1, &vma), &runs, M2),
            Target::new(process(2, &vma), &runs, M2),
        ];
        let expected = Need {
            blocks: 4,
            take: 2 * M2,
            more: 2 * M2 - 4096,
        };
        assert_eq!(need(&targets, M2), expected);
    }

    #[test]
    fn neighbours_with_one_reason_are_one_stretch() {
        let mut target = Target::new(process(1, &[]), &[], M2);
        target.leave(0, M2, Why::Limit, "/x");
        target.leave(M2, 2 * M2, Why::Limit, "/x");
        target.leave(2 * M2, 3 * M2, Why::NoMemory, "/x");
        target.leave(3 * M2, 4 * M2, Why::NoMemory, "/y");
        let ends: Vec<u64> = target.left.iter().map(|l| l.end).collect();
        assert_eq!(ends, [2 * M2, 3 * M2, 4 * M2]);
    }
}
