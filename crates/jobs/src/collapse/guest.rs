// SPDX-License-Identifier: GPL-2.0-only
//! Processes map a block of a file that is cached page by page. Then this one, which has touched
//! none of it, asks for its collapse, and that is counted. At last it does so while another CPU
//! reads the block, and counts how often it is told to try again.

use super::{BLOCK, InUse, NAME, Report, Task};
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::unistd::{close, pipe};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use wideleaf_bench::page_size;
use wideleaf_guest::kit::huge_pages::only_as_advised;
use wideleaf_guest::kit::mapping::{MADV_COLLAPSE, Mapping};
use wideleaf_guest::kit::marker;
use wideleaf_guest::kit::process::{Process, sleep};
use wideleaf_guest::kit::shared_file::{SharedFile, read_all};
use wideleaf_guest::place::{Place, pin_to};
use wideleaf_guest::port::Port;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Collapse;

/// The registry's entry.
pub const WORK: Collapse = Collapse;

impl Work for Collapse {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, port)
    }
}

fn job(task: &Task, port: &Port) -> Result<Report> {
    only_as_advised()?;
    // The kernel's first one pays for what later ones find done.
    let first = collapse(&task.folder, 1, 0, None, |_| sleep());
    first.and_then(|done| done).context("the first collapse")?;
    let mut report = Report::default();
    for (id, &mappers) in (1..).zip(&task.mappers) {
        let name = format!("mappers:{mappers}");
        port.begin(id, &name)?;
        let done = collapse(&task.folder, mappers, 0, Some(id), |_| sleep());
        done.and_then(|done| done).with_context(|| name.clone())?;
        report.cases.push(name);
    }
    if task.in_use > 0 {
        let in_use = collapse_in_use(&task.folder, task.in_use);
        report.in_use = Some(in_use.context("a block in use")?);
    }
    Ok(report)
}

/// Has so many blocks collapsed, each while a process on another CPU reads all of its pages again
/// and again.
fn collapse_in_use(folder: &Path, tried: u32) -> Result<InUse> {
    let mut failed = 0;
    for _ in 0..tried {
        let done = collapse(folder, 1, 1, None, |block| {
            loop {
                read_all(block);
            }
        })?;
        match done {
            Err(error) if error.downcast_ref() == Some(&Errno::EAGAIN) => failed += 1,
            done => done?,
        }
    }
    Ok(InUse { tried, failed })
}

/// Has a block become one folio, as the phase `id` if there is one, while so many processes map it
/// and do `work` on a CPU. The inner result is how the advice ended.
fn collapse(
    folder: &Path,
    mappers: u32,
    cpu: usize,
    id: Option<u8>,
    work: impl Fn(Mapping) -> i32,
) -> Result<Result<()>> {
    let path = folder.join("block");
    let block = map_narrow(&path)?;
    // They are forked, so they stay there.
    pin_to(cpu)?;
    let processes = Mappers::start(mappers, block, || work(block))?;
    pin_to(0)?;
    if let Some(id) = id {
        marker::enter(id);
    }
    let done = block.advise(MADV_COLLAPSE);
    marker::leave();
    processes.end()?;
    block.unmap()?;
    fs::remove_file(&path).with_context(|| path.display().to_string())?;
    Ok(done)
}

/// Maps a block as text is mapped, of a new file that is cached page by page.
fn map_narrow(path: &Path) -> Result<Mapping> {
    // A file that is open for writing is not collapsed.
    drop(SharedFile::make(path, BLOCK, page_size())?);
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let room = Mapping::room(4 * BLOCK)?;
    let at = room.start.next_multiple_of(BLOCK) + BLOCK;
    // Linux 6.12 gives EINVAL where the block has no table of PMDs yet. One of these two pages at
    // least has its entry in the same table.
    for beside in [at - page_size(), at + BLOCK] {
        Mapping::anonymous(
            Some(beside),
            page_size(),
            libc::MAP_FIXED | libc::MAP_POPULATE,
        )?;
    }
    let prot = libc::PROT_READ | libc::PROT_EXEC;
    Mapping::new(Some(at), BLOCK, prot, libc::MAP_PRIVATE, Some((&file, 0)))
}

/// Processes that have each page of the block in their page tables.
struct Mappers(Vec<Process>);

impl Mappers {
    /// Returns when all have it, and then do `work`.
    fn start(count: u32, block: Mapping, work: impl Fn() -> i32) -> Result<Self> {
        let (mut told, tell) = pipe().map(|(r, w)| (File::from(r), File::from(w)))?;
        let fork = |_| Process::fork(|| map_and_work(block, &tell, &work));
        let all = Self((0..count).map(fork).collect::<Result<_>>()?);
        drop(tell);
        let mut words = vec![0; count as usize];
        let heard = told.read_exact(&mut words);
        heard.context("a process that maps the block ended early")?;
        Ok(all)
    }

    fn end(self) -> Result<()> {
        self.0.iter().try_for_each(Process::end)
    }
}

/// The life of one of them; it returns if that fails.
fn map_and_work(block: Mapping, mut tell: &File, work: impl Fn() -> i32) -> i32 {
    read_all(block);
    // The reader waits while anyone has this end; if another process ends early, it must not.
    match tell.write_all(&[1]).map(|()| close(tell.as_raw_fd())) {
        Ok(Ok(())) => work(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::alone::alone;

    #[test]
    fn all_have_mapped_the_block_when_it_is_collapsed() {
        alone(|| {
            let dir = tempfile::tempdir().unwrap();
            let block = map_narrow(&dir.path().join("block")).unwrap();
            let mappers = Mappers::start(3, block, || sleep()).unwrap();
            for process in &mappers.0 {
                let smaps = fs::read_to_string(format!("/proc/{}/smaps", process.pid())).unwrap();
                let own = smaps.split_once(&format!("{:x}-", block.start)).unwrap().1;
                let rss = own.lines().find(|line| line.starts_with("Rss:")).unwrap();
                assert!(rss.contains(" 2048 kB"), "{rss}");
            }
            mappers.end().unwrap();
        });
    }

    #[test]
    fn one_that_cannot_map_it_is_told() {
        alone(|| {
            let nowhere = Mapping {
                start: page_size(),
                len: page_size(),
            };
            let error = Mappers::start(1, nowhere, || sleep()).err().unwrap();
            assert!(error.to_string().ends_with("ended early"), "{error}");
        });
    }
}
