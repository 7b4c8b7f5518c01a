// SPDX-License-Identifier: GPL-2.0-only
//! What must hold of writes through shared mappings, however many entries a fault sets: no write
//! is lost, no folio is called dirty that nobody wrote to, memory is counted as it is mapped, and
//! who asked for each fault gets each.

use super::Report;
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use std::fs;
use std::path::Path;
use wideleaf_bench::page_size;
use wideleaf_guest::kit::mapping::Mapping;
use wideleaf_guest::kit::page_flags::{Seen, pages};
use wideleaf_guest::kit::shared_file::{SharedFile, folio, value, word};

/// Folios of the files.
const FOLIOS: u64 = 8;

/// Pages by which resident memory may be told wrong on few CPUs (lib/percpu_counter.c).
const BATCHES: u64 = 64;

/// Looks at all of it, on the disk's file system and on a tmpfs with large folios.
pub fn all(disk: &Path, tmpfs: &Path, report: &mut Report) -> Result<()> {
    report.dirty = dirty(&disk.join("dirty")).context("what is dirty")?;
    for folder in [disk, tmpfs] {
        counted(&folder.join("counted")).context("what is counted as resident")?;
    }
    report.watched_entries = watched(&tmpfs.join("watched")).context("userfaultfd")?;
    Ok(())
}

/// A file of large folios, and a mapping of it.
struct Mapped {
    file: SharedFile,
    mapping: Mapping,
}

impl Mapped {
    /// Address and offset differ by `skew` bytes, modulo 2M.
    fn new(path: &Path, skew: u64) -> Result<Self> {
        let len = FOLIOS * folio();
        let file = SharedFile::make(path, len, folio())?;
        let mapping = file.map(0, len, skew)?;
        Ok(Self { file, mapping })
    }

    fn read_all(&self) {
        for page in 0..self.mapping.len / page_size() {
            // SAFETY: inside of the mapping.
            unsafe { word(self.mapping.start, page, 0).read_volatile() };
        }
    }

    fn write(&self, page: u64, round: u64) {
        // SAFETY: inside of the mapping.
        unsafe { word(self.mapping.start, page, round).write_volatile(value(0, round, page)) };
    }

    fn seen(&self) -> Result<Vec<Option<Seen>>> {
        pages(self.mapping)
    }

    /// How many pages are dirty. Everything is mapped.
    fn count_dirty(&self) -> Result<u64> {
        let seen = self.seen()?;
        ensure!(seen.iter().all(Option::is_some), "a page is not mapped");
        let dirty = seen.iter().flatten().filter(|page| page.is_dirty);
        Ok(dirty.count() as u64)
    }

    fn end(self) -> Result<()> {
        self.mapping.unmap()?;
        self.file.remove()
    }
}

/// The pages of the folios that some page of `written` is in: a folio is dirty as a whole.
fn dirtied(seen: &[Option<Seen>], written: &[u64]) -> Vec<bool> {
    let mut dirty = vec![false; seen.len()];
    for page in written {
        let page = *page as usize;
        let is_tail = |n: &usize| seen[*n].is_some_and(|page| page.is_tail);
        let mut first = page;
        while first > 0 && is_tail(&first) {
            first -= 1;
        }
        let tails = (first + 1..seen.len()).take_while(is_tail).count();
        dirty[first..=first + tails].fill(true);
    }
    dirty
}

/// Pages are written in every other folio. Gives how many pages are dirty by that.
fn dirty(path: &Path) -> Result<u64> {
    let mapped = Mapped::new(path, 0)?;
    let per_folio = folio() / page_size();
    mapped.read_all();
    let by_reading = mapped.count_dirty()?;
    ensure!(
        by_reading == 0,
        "{by_reading} pages are dirty by being read"
    );

    // Afresh, so that the write is what maps them.
    mapped.mapping.unmap()?;
    mapped
        .file
        .map_at(mapped.mapping.start, 0, mapped.mapping.len)?;
    let middle = |folio: u64| folio * per_folio + per_folio / 2;
    let written: Vec<u64> = (0..FOLIOS).step_by(2).map(middle).collect();
    written.iter().for_each(|page| mapped.write(*page, 0));
    mapped.read_all();
    let dirty = expect_dirty(&mapped, &written).context("after the first writes")?;

    // Pages that the first writes' faults may have mapped, too; none may be lost.
    let beside: Vec<u64> = written.iter().map(|page| page + 1).collect();
    beside.iter().for_each(|page| mapped.write(*page, 0));
    expect_dirty(&mapped, &written).context("after writes beside them")?;
    mapped.file.file().sync_all()?;
    expect_dirty(&mapped, &[]).context("after writeback")?;

    // Writeback must have taken the right to write from all of them.
    let last = *beside.last().context("no folio")?;
    mapped.write(last, 1);
    expect_dirty(&mapped, &[last]).context("after a write behind writeback")?;
    mapped.file.file().sync_all()?;
    let on_disk = |page: u64, round: u64| -> Result<()> {
        let found = mapped.file.on_disk(page, round)?;
        let expected = value(0, round, page);
        ensure!(
            found == expected,
            "page {page}: {expected:#x} was written, {found:#x} is on the disk"
        );
        Ok(())
    };
    written
        .iter()
        .chain(&beside)
        .try_for_each(|page| on_disk(*page, 0))?;
    on_disk(last, 1)?;
    mapped.end()?;
    Ok(dirty)
}

/// Whether exactly the folios with pages of `written` are dirty; gives how many pages that is.
fn expect_dirty(mapped: &Mapped, written: &[u64]) -> Result<u64> {
    let seen = mapped.seen()?;
    let expected = dirtied(&seen, written);
    for (n, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        let found = seen
            .with_context(|| format!("page {n} is not mapped"))?
            .is_dirty;
        ensure!(
            found == *expected,
            "page {n} is {}dirty, but its folio was {}written to",
            if found { "" } else { "not " },
            if *expected { "" } else { "not " }
        );
    }
    Ok(expected.iter().filter(|dirty| **dirty).count() as u64)
}

/// Resident memory grows by what is mapped, and shrinks by what is unmapped. The kernel tells it
/// to within a batch a CPU; an account that does not add up at a process' end it complains of.
fn counted(path: &Path) -> Result<()> {
    let mapped = Mapped::new(path, 0)?;
    let before = resident()?;
    let half = mapped.mapping.len / page_size() / 2;
    (0..2 * half).for_each(|page| mapped.write(page, 0));
    let full = resident()?;
    mapped.mapping.part(0, mapped.mapping.len / 2).unmap()?;
    // Of a file that a PMD mapped nothing is left mapped when a part goes.
    (half..2 * half).for_each(|page| mapped.write(page, 0));
    let rest = resident()?;
    let about = |found: u64, expected: u64| found.abs_diff(expected) <= BATCHES;
    ensure!(
        about(full, before + 2 * half) && about(rest, before + half),
        "{before} pages before, {full} with {} more, {rest} without {half} of these",
        2 * half
    );
    mapped.end()
}

/// Pages of files and of shared memory that this process has mapped.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let of = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("/proc/self/status: no {name}"))?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok((kib << 10) / page_size())
    };
    Ok(of("RssFile:")? + of("RssShmem:")?)
}

/// A write where a userfaultfd watches maps one page. Gives how many are mapped. The mapping is
/// askew: where a PMD can map a folio of tmpfs, every kernel does so, userfaultfd or not.
fn watched(path: &Path) -> Result<u64> {
    let mapped = Mapped::new(path, page_size())?;
    let watch = watch(mapped.mapping)?;
    mapped.write(1, 0);
    let seen = mapped.seen()?;
    let entries = seen.iter().flatten().count() as u64;
    ensure!(entries == 1, "one write mapped {entries} pages");
    drop(watch);
    mapped.end()?;
    Ok(entries)
}

/// Registers memory with a userfaultfd, for faults where the file has no page (userfaultfd(2)).
fn watch(Mapping { start, len }: Mapping) -> Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    /// `_IOWR(0xAA, 0x3F, struct uffdio_api)` and `_IOWR(0xAA, 0x00, struct uffdio_register)`.
    const API: u64 = 0xc018_aa3f;
    const REGISTER: u64 = 0xc020_aa00;
    /// `UFFD_API`, `UFFDIO_REGISTER_MODE_MISSING`.
    const VERSION: u64 = 0xaa;
    const MISSING: u64 = 1;
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    let fd = Errno::result(fd).context("userfaultfd")? as i32;
    // SAFETY: the kernel just gave it to us.
    let watch = unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) };
    let mut api = [VERSION, 0, 0];
    let mut register = [start, len, MISSING, 0];
    // SAFETY: arrays as large as the structures, for the duration of the calls.
    unsafe {
        Errno::result(libc::ioctl(fd, API as _, api.as_mut_ptr())).context("UFFDIO_API")?;
        Errno::result(libc::ioctl(fd, REGISTER as _, register.as_mut_ptr()))
            .context("UFFDIO_REGISTER")?;
    }
    Ok(watch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::alone::alone;

    fn page(is_tail: bool) -> Option<Seen> {
        Some(Seen {
            is_tail,
            is_dirty: false,
        })
    }

    #[test]
    fn a_folio_is_dirty_as_a_whole_and_its_neighbours_are_not() {
        // One page, four pages, two pages.
        let seen = [false, false, true, true, true, false, true].map(page);
        let one = |n| {
            let dirty = dirtied(&seen, &[n]);
            let places = (0..seen.len()).filter(|n| dirty[*n]);
            places.collect::<Vec<_>>()
        };
        assert_eq!(one(0), [0]);
        assert_eq!(one(1), [1, 2, 3, 4]);
        assert_eq!(one(3), [1, 2, 3, 4]);
        assert_eq!(one(6), [5, 6]);
        assert!(dirtied(&seen, &[]).iter().all(|dirty| !dirty));
    }

    #[test]
    fn what_is_mapped_is_counted_here_too() {
        alone(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            // Maps text of this program, which counts as well.
            let _ = counted(&path);
            counted(&path).unwrap();
        });
    }
}
