// SPDX-License-Identifier: GPL-2.0-only
//! The CPU, the sizes and the reader of /proc, and one pass over processes.

use crate::{Error, Pressure, Seen, cpu};
use std::path::Path;
use wideleaf_cpu::Cpu;
use wideleaf_kit::size::short;
use wideleaf_procmap::{self as procmap, Coverage, Extent, Process, Reader, Scope, Select};

/// The CPU, the sizes and the reader.
pub struct Machinery {
    /// Counted for this CPU.
    pub cpu: Cpu,
    /// Base page size in bytes.
    pub page: u64,
    /// Bytes that a PMD maps.
    pub pmd: u64,
    /// Reads processes.
    pub reader: Reader,
}

impl Machinery {
    /// Detects or looks up the CPU and opens /proc.
    ///
    /// `proc` is where the proc file system is mounted, `cpu` the name of another CPU to count for, or
    /// the sizes that it coalesces.
    ///
    /// # Errors
    ///
    /// If there is no such CPU.
    pub fn new(proc: &Path, cpu: Option<&str>) -> Result<Self, Error> {
        let (page, pmd) = procmap::sizes(Path::new("/sys"));
        let cpu = cpu::choose(cpu, page)?;
        let reader = Reader::new(proc, page, pmd, &cpu.coalesce.sizes);
        Ok(Self {
            cpu,
            page,
            pmd,
            reader,
        })
    }

    /// The leaf sizes that always have a column, widest first.
    pub fn leaves(&self) -> Vec<u64> {
        let between = self
            .cpu
            .coalesce
            .sizes
            .iter()
            .copied()
            .filter(|s| *s > self.page && *s < self.pmd);
        std::iter::once(self.pmd)
            .chain(between)
            .chain([self.page])
            .collect()
    }

    /// TLB entries that `coverage` needs and what the CPU has.
    pub fn pressure(&self, coverage: &Coverage) -> Pressure {
        Pressure::of(coverage, self.page, self.cpu.tlb.as_ref())
    }

    /// One pass over `pids`, or over all processes. `take` gets each one that
    /// matches; mappings without resident text stay in.
    ///
    /// # Errors
    ///
    /// If the list of processes cannot be read; what is wrong with one of them is in the answer.
    pub fn pass(
        &mut self,
        pids: Option<&[u32]>,
        scope: Scope,
        select: &Select,
        mut take: impl FnMut(Process),
    ) -> Result<Seen, procmap::Error> {
        self.each(pids, scope, select, false, |process, _| take(process))
    }

    /// The same with the leaves of each process, in order of address.
    ///
    /// # Errors
    ///
    /// As [`Machinery::pass`].
    pub fn pass_with_leaves(
        &mut self,
        pids: Option<&[u32]>,
        scope: Scope,
        select: &Select,
        take: impl FnMut(Process, Vec<Extent>),
    ) -> Result<Seen, procmap::Error> {
        self.each(pids, scope, select, true, take)
    }

    fn each(
        &mut self,
        pids: Option<&[u32]>,
        scope: Scope,
        select: &Select,
        leaves: bool,
        mut take: impl FnMut(Process, Vec<Extent>),
    ) -> Result<Seen, procmap::Error> {
        let all;
        let list = match pids {
            Some(pids) => pids,
            None => {
                all = self.reader.pids()?;
                &all
            }
        };
        self.reader.refresh();
        let mut seen = Seen::default();
        for &pid in list {
            let mut found = Vec::new();
            let mut sink = |extent: Extent| {
                if leaves {
                    found.push(extent);
                }
            };
            match self.reader.read(pid, scope, select, &mut sink) {
                Ok(None) => {}
                Ok(Some(process)) => {
                    seen.note(&process);
                    take(process, found);
                }
                Err(procmap::Error::Gone { .. }) => seen.vanished.push(pid),
                Err(error @ procmap::Error::Denied { .. }) => {
                    seen.denied.push(pid);
                    if pids.is_some() {
                        seen.refusals
                            .push(format!("{pid}: may not be read: {error}"));
                    }
                }
                Err(error) => seen.failed.push(error.to_string()),
            }
        }
        Ok(seen)
    }

    /// What could not be seen in a pass and what would help, for a human.
    pub fn losses(&self, seen: &Seen) -> Vec<String> {
        let mut notes = Vec::new();
        if seen.partly > 0 {
            let why = self
                .reader
                .loss()
                .unwrap_or("page frame numbers are hidden (CAP_SYS_ADMIN)");
            notes.push(format!(
                "leaves below {} are unknown (?) for {} of {} processes read: {why}; run as root",
                short(self.pmd),
                seen.partly,
                seen.processes
            ));
        }
        if seen.blind > 0 {
            notes.push(format!(
                "of {} processes only the size of their text is known: pagemap is not readable",
                seen.blind
            ));
        }
        let (hint, named) = match nix::unistd::geteuid().is_root() {
            true => (
                "",
                "; a security module or a sandbox forbids it even to root",
            ),
            false => ("; run as root", "; run as root"),
        };
        notes.extend(seen.refusals.iter().map(|why| format!("{why}{named}")));
        let more = seen.denied.len() - seen.refusals.len();
        if more > 0 {
            notes.push(format!("{more} more may not be read at all{hint}"));
        }
        notes.extend(seen.failed.iter().cloned());
        notes
    }
}
