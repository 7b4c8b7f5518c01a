// SPDX-License-Identifier: GPL-2.0-only
//! fsx or fsstress on files of its own for each CPU, one run after the other until the time is over.
//! A process beside them maps the files as text and faults pages of them in, wherever they are.

use super::stage::{self, LOOK, Stage, end_of};
use super::{Again, End, Stressed};
use anyhow::{Context, Result};
use fastrand::Rng;
use nix::errno::Errno;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::mapping::Mapping;

/// stress-ng's status of a stressor that failed, so that the host reads both alike.
const FAILED: End = End::Exit(2);

/// Faults of the reader before it maps another file.
const FAULTS: u32 = 32;

/// Bytes of a file that it maps at most. fsstress makes sparse ones.
const MAPPED: u64 = 64 << 20;

/// Bits within a page, whatever the kernel's page size.
const WIDEST_PAGE: u64 = 0xffff;

/// Advice that libc's musl does not have yet (include/uapi/asm-generic/mman-common.h): a fault whose
/// page is behind the end of the file is an error, and no signal.
const MADV_POPULATE_READ: i32 = 22;

/// Runs on the files of one CPU.
struct Instance {
    number: u32,
    run: u64,
    child: Child,
}

/// The stressor `name`, whose files are in `folder`, a path below the root.
pub fn run(stage: &mut Stage<'_>, name: &str, folder: &str, program: &Again) -> Result<Stressed> {
    let (root, seed) = (&stage.task.root, stage.task.seed);
    let place = format!("{root}{folder}");
    let reader = stage.crew.start("reader", || {
        read_as_text(Path::new(&place), &mut Rng::with_seed(seed))
    })?;
    let stressed = runs(stage, name, folder, program);
    let patience = Duration::from_secs(stage.task.hung_s.into());
    stage.crew.kill(reader, patience)?;
    stressed
}

fn runs(stage: &mut Stage<'_>, name: &str, folder: &str, program: &Again) -> Result<Stressed> {
    let numbers = 0..stage.task.instances;
    let start = |number| Instance::start(stage, folder, program, number, 0);
    let mut instances = numbers.map(start).collect::<Result<Vec<_>>>()?;
    let end = Instant::now() + Duration::from_secs(stage.task.seconds.into());
    let mut operations = 0;
    while !instances.is_empty() {
        let mut going_on = Vec::new();
        for mut instance in instances {
            match instance.child.try_wait().context("waitpid")? {
                None => going_on.push(instance),
                Some(status) if !status.success() => {
                    let said = fs::read(output(instance.number)).context("its output")?;
                    let end = match end_of(status) {
                        End::Exit(_) => FAILED,
                        signal => signal,
                    };
                    return Ok(stage::stressed(name, end, operations, &said));
                }
                Some(_) => {
                    operations += program.operations();
                    if Instant::now() < end {
                        let Instance { number, run, .. } = instance;
                        let again = Instance::start(stage, folder, program, number, run + 1);
                        going_on.push(again?);
                    }
                }
            }
        }
        instances = going_on;
        if Instant::now() > end + Duration::from_secs(stage.task.grace_s.into()) {
            return Ok(stage.killed(name, operations, b""));
        }
        stage.crew.look()?;
        std::thread::sleep(LOOK);
    }
    Ok(stage::stressed(name, End::Exit(0), operations, b""))
}

impl Again {
    /// Of one run, which begins without files: a second or two. fsstress syncs, so it takes longer
    /// for each.
    const fn operations(&self) -> u64 {
        match self {
            Self::Fsx(_) => 500,
            Self::Fsstress => 200,
        }
    }

    /// Puts there what a run on the file or the folder `files` wants, a path as the stage sees it.
    fn prepare(&self, files: &str) -> Result<()> {
        match self {
            Self::Fsx(configuration) => {
                let path = configuration_of(files);
                fs::write(&path, configuration).context(path)
            }
            // It would remove its files by a shell, which is not there.
            Self::Fsstress => empty(Path::new(files)),
        }
    }

    /// The command of a run in the folder `folder`, on the file or the folder `files` in it.
    fn line(&self, folder: &str, files: &str, seed: u64) -> String {
        let operations = self.operations();
        match self {
            Self::Fsx(_) => format!(
                "/usr/bin/fsx -N {operations} -S {seed} -P {folder} -f {} {files}",
                configuration_of(files)
            ),
            // To it, seed 0 is the time.
            Self::Fsstress => format!(
                "/usr/bin/fsstress -c -d {files} -n {operations} -s {}",
                seed + 1
            ),
        }
    }
}

impl Instance {
    /// The run of this number, from 0, on the files of that. Each has a seed of its own.
    fn start(
        stage: &Stage<'_>,
        folder: &str,
        program: &Again,
        number: u32,
        run: u64,
    ) -> Result<Self> {
        let seed = stage.task.seed + run * u64::from(stage.task.instances) + u64::from(number);
        let files = format!("{folder}/{number}");
        program.prepare(&format!("{}{files}", stage.task.root))?;
        let line = program.line(folder, &files, seed);
        let mut command = stage.command(&line, &output(number))?;
        let child = command.spawn().context(line)?;
        Ok(Self { number, run, child })
    }
}

/// Of fsx on the file `files`.
fn configuration_of(files: &str) -> String {
    format!("{files}.toml")
}

/// An empty folder, whatever was there.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir(folder).with_context(|| folder.display().to_string())
}

/// In memory.
fn output(number: u32) -> String {
    format!("/tmp/again.{number}")
}

/// Until it is killed.
fn read_as_text(folder: &Path, rng: &mut Rng) -> Result<()> {
    loop {
        let path = any_file(folder, rng);
        let file = path.and_then(|path| File::open(path).ok());
        let len = match &file {
            Some(file) => file.metadata()?.len().min(MAPPED),
            None => 0,
        };
        let Some(file) = file.filter(|_| len > 0) else {
            std::thread::yield_now();
            continue;
        };
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let text = Mapping::new(None, len, prot, libc::MAP_PRIVATE, Some((&file, 0)))?;
        for _ in 0..FAULTS {
            fault(text, rng.u64(..len))?;
        }
        text.unmap()?;
    }
}

/// A file of the folder or of those in it, if the way there does not end at something else.
fn any_file(folder: &Path, rng: &mut Rng) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    loop {
        let meta = path.symlink_metadata().ok()?;
        if !meta.is_dir() {
            return meta.is_file().then_some(path);
        }
        let names = fs::read_dir(&path).ok()?.flatten().map(|one| one.path());
        path = rng.choice(names.collect::<Vec<_>>())?;
    }
}

/// The file may have become shorter, and memory may be scarce.
fn fault(text: Mapping, at: u64) -> Result<()> {
    let page = Mapping {
        start: text.start + (at & !WIDEST_PAGE),
        len: 1,
    };
    let result = page.advise(MADV_POPULATE_READ);
    let errno = result.as_ref().err().and_then(|error| error.downcast_ref());
    match errno {
        Some(Errno::EFAULT | Errno::ENOMEM | Errno::EAGAIN | Errno::EINTR) => Ok(()),
        _ => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_folders_and_nothing_else_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, rng) = (dir.path(), &mut Rng::with_seed(1));
        assert_eq!(any_file(folder, rng), None);
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        assert_eq!(any_file(folder, rng), None);
        let inner = folder.join("0");
        empty(&inner).unwrap();
        fs::write(inner.join("f1"), "").unwrap();
        let mut found = (0..100).filter_map(|_| any_file(folder, rng));
        assert_eq!(found.next(), Some(inner.join("f1")));
        empty(&inner).unwrap();
        assert_eq!((0..100).find_map(|_| any_file(folder, rng)), None);
    }
}
