// SPDX-License-Identifier: GPL-2.0-only
//! The life of contiguous groups of page-table entries: made, broken and made again by all that a
//! process can do to a part of them. What maps each group is recorded after each step.

use super::{MemoryReport, NAME, Report, Task};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use wideleaf_bench::page_size;
use wideleaf_guest::kit::huge_pages::allow_folios_of;
use wideleaf_guest::kit::mapping::{Mapping, RW};
use wideleaf_guest::kit::marker;
use wideleaf_guest::kit::process::Process;
use wideleaf_guest::kit::shared_file::SharedFile;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Contpte;

/// The registry's entry.
pub const WORK: Contpte = Contpte;

impl Work for Contpte {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(&task.folder, port)
    }
}

/// Groups of a mapping. Each has something of its own done to it, the last one nothing.
const GROUPS: u64 = 10;

/// From one memory's first record to the next one's, and from one step's to the next one's.
const PER_MEMORY: u64 = 10_000;
const PER_STEP: u64 = 100;
const _: () = assert!(GROUPS <= PER_STEP && STEPS.len() as u64 * PER_STEP <= PER_MEMORY);

/// Bytes that a contiguous group of this kernel's pages maps (arm64's CONT_PTE_SIZE).
fn group() -> u64 {
    if page_size() == 4096 {
        64 << 10
    } else {
        2 << 20
    }
}

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anonymous,
    Private,
    Shared,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Anonymous, Self::Private, Self::Shared];

    const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anon",
            Self::Private => "private-file",
            Self::Shared => "shared-file",
        }
    }
}

/// A mapping, and what each of its pages must hold.
struct Memory {
    all: Mapping,
    expected: Vec<u64>,
    child: Option<Process>,
}

/// What is done, in order, with a name.
type Step = (&'static str, fn(&mut Memory) -> Result<()>);

const STEPS: [Step; 22] = [
    ("touch", Memory::write_all),
    ("protect-page", |m| m.page(0, 1).protect(libc::PROT_READ)),
    ("unprotect-page", |m| m.page(0, 1).protect(RW)),
    ("protect-last", |m| {
        m.page(1, last()).protect(libc::PROT_READ)
    }),
    ("unprotect-last", |m| m.page(1, last()).protect(RW)),
    ("protect-all", |m| m.all.protect(libc::PROT_READ)),
    ("unprotect-all", |m| m.all.protect(RW)),
    ("fork", Memory::fork),
    ("write-shared-with-child", |m| {
        m.write(2, 1);
        Ok(())
    }),
    ("child-ends", Memory::end_child),
    // Of private memory these pages alone are then known to be the task's own, in groups that are
    // ones again once all is read-only: mprotect() sets the two parts of each one after the other.
    ("write-last", |m| {
        m.write(4, last());
        m.write(5, last());
        Ok(())
    }),
    ("protect-mixed", |m| m.all.protect(libc::PROT_READ)),
    // The entries of one folio, from the middle of its first group to the end of its second.
    ("unprotect-from-middle", |m| {
        m.all
            .part(4 * group() + group() / 2, group() * 3 / 2)
            .protect(RW)
    }),
    ("unprotect-mixed", |m| m.all.protect(RW)),
    ("write-all", Memory::write_all),
    ("unmap-page", Memory::unmap_page),
    ("move", Memory::relocate),
    ("age", |m| m.from(4, 0).advise(libc::MADV_COLD)),
    ("age-part", |m| m.from(5, 1).advise(libc::MADV_COLD)),
    ("reclaim", |m| m.reclaim(6, 0)),
    ("reclaim-part", |m| m.reclaim(7, 1)),
    ("read-again", Memory::verify),
];

/// The last page of a group.
fn last() -> u64 {
    group() / page_size() - 1
}

impl Memory {
    /// The address of a page of a group.
    fn address(&self, group_nr: u64, page: u64) -> u64 {
        self.all.start + group_nr * group() + page * page_size()
    }

    fn page(&self, group_nr: u64, page: u64) -> Mapping {
        self.all
            .part(group_nr * group() + page * page_size(), page_size())
    }

    /// A group from one of its pages on.
    fn from(&self, group_nr: u64, page: u64) -> Mapping {
        let before = page * page_size();
        self.all.part(group_nr * group() + before, group() - before)
    }

    fn write(&mut self, group_nr: u64, page: u64) {
        let nth = group_nr * (last() + 1) + page;
        self.expected[nth as usize] += 1;
        // SAFETY: inside of the mapping, which is writable.
        unsafe {
            (self.address(group_nr, page) as *mut u64).write_volatile(self.expected[nth as usize])
        };
    }

    fn write_all(&mut self) -> Result<()> {
        for group_nr in 0..GROUPS {
            (0..=last()).for_each(|page| self.write(group_nr, page));
        }
        Ok(())
    }

    fn fork(&mut self) -> Result<()> {
        self.child = Some(Process::idle()?);
        Ok(())
    }

    fn end_child(&mut self) -> Result<()> {
        self.child.take().context("no child")?.end()
    }

    fn unmap_page(&mut self) -> Result<()> {
        self.page(3, 1).unmap()
    }

    /// A group moves by a page and back, so that it cannot be one on the way.
    fn relocate(&mut self) -> Result<()> {
        let room = Mapping::room(3 * group())?;
        let aside = room.start.next_multiple_of(group()) + page_size();
        let home = self.from(8, 0);
        home.relocate(aside)?.relocate(home.start).map(drop)
    }

    /// A file's pages must be clean to go; without swap nothing else goes.
    fn reclaim(&self, group_nr: u64, page: u64) -> Result<()> {
        nix::unistd::sync();
        self.from(group_nr, page).advise(libc::MADV_PAGEOUT)
    }

    /// Asks what maps each group.
    fn look(&self, first_id: u64) {
        for nr in 0..GROUPS {
            marker::coverage(self.address(nr, 0), group(), first_id + nr);
        }
    }

    /// Whether each page still has what was written last.
    fn verify(&mut self) -> Result<()> {
        let unmapped = self.page(3, 1).start;
        for (page, expected) in (0..).zip(&self.expected) {
            let address = self.all.start + page * page_size();
            if address == unmapped {
                continue;
            }
            // SAFETY: inside of the mapping.
            let found = unsafe { (address as *const u64).read_volatile() };
            ensure!(found == *expected, "page {page}: {found}, not {expected}");
        }
        Ok(())
    }
}

/// Takes each kind of memory through all steps.
fn job(folder: &Path, port: &Port) -> Result<Report> {
    // Of two groups: so the kernel can change a part of one and all of the other in one go.
    allow_folios_of(2 * group() / 1024);
    let mut report = Report {
        group: group(),
        groups: GROUPS,
        memories: Vec::new(),
    };
    for (kind, first_id) in Kind::ALL
        .into_iter()
        .zip((PER_MEMORY..).step_by(PER_MEMORY as usize))
    {
        port.send(&Message::Progress {
            text: kind.name().into(),
        })?;
        live(kind, folder, first_id).with_context(|| kind.name())?;
        report.memories.push(MemoryReport {
            name: kind.name().into(),
            steps: STEPS.map(|(name, _)| name.into()).to_vec(),
            first_id,
            ids_per_step: PER_STEP,
        });
    }
    Ok(report)
}

/// Private memory at an address that a folio of two groups can begin at.
fn anonymous(len: u64) -> Result<Mapping> {
    let room = Mapping::room(len + 2 * group())?;
    let start = room.start.next_multiple_of(2 * group());
    Mapping::anonymous(Some(start), len, 0)
}

fn live(kind: Kind, folder: &Path, first_id: u64) -> Result<()> {
    let len = GROUPS * group();
    let (file, all) = match kind {
        Kind::Anonymous => (None, anonymous(len)?),
        Kind::Private | Kind::Shared => {
            let file = SharedFile::make(&folder.join(kind.name()), len, group())?;
            let all = file.map(0, len, 0)?;
            if kind == Kind::Private {
                let at = Some(all.start);
                Mapping::new(at, len, RW, libc::MAP_PRIVATE, Some((file.file(), 0)))?;
            }
            (Some(file), all)
        }
    };
    let pages = len / page_size();
    let mut memory = Memory {
        all,
        expected: vec![0; pages as usize],
        child: None,
    };
    for ((name, step), id) in STEPS.iter().zip((first_id..).step_by(PER_STEP as usize)) {
        step(&mut memory).with_context(|| name.to_string())?;
        memory.look(id);
    }
    all.unmap()?;
    file.map_or(Ok(()), SharedFile::remove)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::alone::alone;

    #[test]
    fn every_step_keeps_what_was_written_here_too() {
        alone(|| {
            let dir = tempfile::tempdir().unwrap();
            for kind in Kind::ALL {
                live(kind, dir.path(), 0).unwrap();
            }
        });
    }
}
