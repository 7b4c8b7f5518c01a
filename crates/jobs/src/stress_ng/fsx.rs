// SPDX-License-Identifier: GPL-2.0-only
//! fsx on a file for each CPU, one run after the other until the time is over. A process beside
//! them maps the files as text and faults pages of them in, wherever they are.

use super::stage::{self, GRACE, LOOK, Stage, end_of};
use super::{End, Stressed};
use anyhow::{Context, Result};
use fastrand::Rng;
use nix::errno::Errno;
use std::fs::{self, File};
use std::process::Child;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::mapping::Mapping;

/// Operations of one run: a second or two. Each begins with an empty file.
const OPERATIONS: u64 = 500;

/// Its configuration, and its files by number.
const CONFIGURATION: &str = "fsx.toml";

/// stress-ng's status of a stressor that failed, so that the host reads both alike.
const FAILED: End = End::Exit(2);

/// Faults of the reader before it maps another file.
const FAULTS: u32 = 32;

/// Bits within a page, whatever the kernel's page size.
const WIDEST_PAGE: u64 = 0xffff;

/// Advice that libc's musl does not have yet (include/uapi/asm-generic/mman-common.h): a fault whose
/// page is behind the end of the file is an error, and no signal.
const MADV_POPULATE_READ: i32 = 22;

/// Runs of fsx on one file.
struct Instance {
    number: u32,
    run: u64,
    child: Child,
}

/// The stressor `name`, whose files are in `folder`, a path below the root.
pub fn run(
    stage: &mut Stage<'_>,
    name: &str,
    folder: &str,
    configuration: &str,
) -> Result<Stressed> {
    let (root, seed) = (&stage.task.root, stage.task.seed);
    let place = format!("{root}{folder}");
    let path = format!("{place}/{CONFIGURATION}");
    fs::write(&path, configuration).context(path)?;
    let files = (0..stage.task.instances).map(|number| format!("{place}/{number}"));
    let files: Vec<_> = files.collect();
    let reader = stage
        .crew
        .start("reader", || read_as_text(&files, &mut Rng::with_seed(seed)))?;
    let stressed = runs(stage, name, folder);
    let patience = Duration::from_secs(stage.task.hung_s.into());
    stage.crew.kill(reader, patience)?;
    stressed
}

fn runs(stage: &mut Stage<'_>, name: &str, folder: &str) -> Result<Stressed> {
    let numbers = 0..stage.task.instances;
    let start = |number| Instance::start(stage, folder, number, 0);
    let mut instances = numbers.map(start).collect::<Result<Vec<_>>>()?;
    let end = Instant::now() + Duration::from_secs(stage.task.seconds.into());
    let mut operations = 0;
    while !instances.is_empty() {
        let mut going_on = Vec::new();
        for mut instance in instances {
            match instance.child.try_wait().context("waitpid")? {
                None => going_on.push(instance),
                Some(status) if !status.success() => {
                    let said = fs::read(output(instance.number)).context("fsx's output")?;
                    let end = match end_of(status) {
                        End::Exit(_) => FAILED,
                        signal => signal,
                    };
                    return Ok(stage::stressed(name, end, operations, &said));
                }
                Some(_) => {
                    operations += OPERATIONS;
                    if Instant::now() < end {
                        let Instance { number, run, .. } = instance;
                        going_on.push(Instance::start(stage, folder, number, run + 1)?);
                    }
                }
            }
        }
        instances = going_on;
        if Instant::now() > end + GRACE {
            return Ok(stage.killed(name, operations, b""));
        }
        stage.crew.look()?;
        std::thread::sleep(LOOK);
    }
    Ok(stage::stressed(name, End::Exit(0), operations, b""))
}

impl Instance {
    /// The run of this number, from 0, on the file of that.
    fn start(stage: &Stage<'_>, folder: &str, number: u32, run: u64) -> Result<Self> {
        let child = start(stage, folder, number, run)?;
        Ok(Self { number, run, child })
    }
}

/// Each run has a seed of its own.
fn start(stage: &Stage<'_>, folder: &str, number: u32, run: u64) -> Result<Child> {
    let seed = stage.task.seed + run * u64::from(stage.task.instances) + u64::from(number);
    let line = format!(
        "/usr/bin/fsx -N {OPERATIONS} -S {seed} -P {folder} -f {folder}/{CONFIGURATION} \
         {folder}/{number}"
    );
    let mut command = stage.command(&line, &output(number))?;
    command.spawn().context("fsx")
}

/// In memory.
fn output(number: u32) -> String {
    format!("/tmp/fsx.{number}")
}

/// Until it is killed.
fn read_as_text(files: &[String], rng: &mut Rng) -> Result<()> {
    loop {
        let Ok(file) = File::open(rng.choice(files).context("no file")?) else {
            std::thread::sleep(LOOK);
            continue;
        };
        let len = file.metadata()?.len();
        if len == 0 {
            std::thread::yield_now();
            continue;
        }
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let text = Mapping::new(None, len, prot, libc::MAP_PRIVATE, Some((&file, 0)))?;
        for _ in 0..FAULTS {
            fault(text, rng.u64(..len))?;
        }
        text.unmap()?;
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
