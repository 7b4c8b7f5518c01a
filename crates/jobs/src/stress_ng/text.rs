// SPDX-License-Identifier: GPL-2.0-only
//! A program on the disk that is executed again and again while others replace it, truncate what
//! it was, and drop it from the page cache. No process asks for its collapse: a kernel without the
//! step "read what is missing before folios are locked" of the series fixes hangs when a collapse
//! meets a truncation, and pristine kernels are such.

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wideleaf_guest::kit::counts::Counts;
use wideleaf_guest::kit::crew::Crew;
use wideleaf_guest::kit::{cgroup, page_cache, spawn};

/// The counts, in the order of [`NAMES`].
enum What {
    Executed,
    Replaced,
    Truncated,
    Dropped,
}

impl From<What> for usize {
    fn from(what: What) -> Self {
        what as Self
    }
}

/// The counts' names.
const NAMES: [&str; 4] = ["executed", "replaced", "truncated", "dropped"];

/// The program of the user land that is copied. Of a few megabytes, all of which are its own.
const ORIGINAL: &str = "/usr/bin/stress-ng";

/// Its argument: words from all over its data, by not much work.
const ARGUMENT: &str = "--stressors";

/// How long one waits who changes the program.
const PAUSE: Duration = Duration::from_millis(100);

/// The program, and who uses it.
pub struct Text {
    root: String,
    folder: String,
    expected: Vec<u8>,
    counts: Counts,
}

impl Text {
    /// A copy of the program in `folder`, a path below `root`.
    pub fn new(root: &str, folder: &str) -> Result<Self> {
        let mut text = Self {
            root: root.into(),
            folder: folder.into(),
            expected: Vec::new(),
            counts: Counts::new(NAMES.len())?,
        };
        fs::create_dir_all(text.path("")).context("a folder for the program")?;
        fs::copy(format!("{root}{ORIGINAL}"), text.path("program")).context(ORIGINAL)?;
        text.expected = text.execute()?;
        ensure!(
            text.expected.len() > 100,
            "{ORIGINAL} {ARGUMENT} says only {} bytes",
            text.expected.len()
        );
        Ok(text)
    }

    /// Processes in `group` that execute it, replace it and drop it until they are killed.
    pub fn start(&self, crew: &mut Crew, group: &Path) -> Result<()> {
        let mut start = |name, pause, act| {
            let work = || cgroup::enter(group).and_then(|()| self.repeat(pause, act));
            crew.start(name, work).map(drop)
        };
        start("executor", Duration::ZERO, Self::use_it)?;
        start("replacer", PAUSE, Self::replace)?;
        start("dropper", PAUSE, Self::drop_it)
    }

    /// How often each thing happened.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let all = NAMES.iter().enumerate();
        all.map(|(place, name)| ((*name).to_owned(), self.counts.get(place)))
            .collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}{}/{name}", self.root, self.folder))
    }

    /// The stressors may leave nothing of what the file system or memory has, for a time; and who
    /// comes to execute what is truncated right now is refused.
    fn repeat(&self, pause: Duration, act: fn(&Self) -> Result<()>) -> Result<()> {
        loop {
            match act(self) {
                Err(error) if will_pass(&error) => std::thread::sleep(PAUSE),
                result => result?,
            }
            std::thread::sleep(pause);
        }
    }

    fn use_it(&self) -> Result<()> {
        let said = self.execute()?;
        ensure!(
            said == self.expected,
            "the program said something else after {} runs, {} bytes and not {}: {}",
            self.counts.get(What::Executed),
            said.len(),
            self.expected.len(),
            String::from_utf8_lossy(&said[..said.len().min(200)])
        );
        self.counts.add(What::Executed, 1);
        Ok(())
    }

    fn execute(&self) -> Result<Vec<u8>> {
        let line = format!("{}/program {ARGUMENT}", self.folder);
        let output = spawn::command(&self.root, &line, &BTreeMap::new())?.output()?;
        ensure!(
            output.status.success(),
            "the program ended by {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output.stdout)
    }

    /// As a package manager does it; of what it was another name is left, for `truncate`.
    fn replace(&self) -> Result<()> {
        let (program, next, old) = (self.path("program"), self.path("next"), self.path("old"));
        fs::copy(&program, &next)?;
        let _ = fs::remove_file(&old);
        fs::hard_link(&program, &old)?;
        fs::rename(&next, &program)?;
        self.counts.add(What::Replaced, 1);
        self.truncate(&old)
    }

    /// Piece by piece. The kernel refuses it while somebody executes the file.
    fn truncate(&self, old: &Path) -> Result<()> {
        let file = match File::options().write(true).open(old) {
            Err(error) if error.raw_os_error() == Some(Errno::ETXTBSY as i32) => return Ok(()),
            file => file?,
        };
        let len = file.metadata()?.len();
        for part in (0..8).rev() {
            file.set_len(len / 8 * part + 1)?;
        }
        self.counts.add(What::Truncated, 1);
        Ok(())
    }

    fn drop_it(&self) -> Result<()> {
        let file = File::open(self.path("program"))?;
        page_cache::advise(&file, 0, 0, libc::POSIX_FADV_DONTNEED);
        self.counts.add(What::Dropped, 1);
        Ok(())
    }
}

fn will_pass(error: &anyhow::Error) -> bool {
    let scarce = [
        Errno::EAGAIN,
        Errno::EDQUOT,
        Errno::EMFILE,
        Errno::ENFILE,
        Errno::ENOMEM,
        Errno::ENOSPC,
        Errno::ETXTBSY,
    ];
    let of_io = |error: &(dyn std::error::Error + 'static)| {
        let code = error.downcast_ref::<std::io::Error>()?.raw_os_error()?;
        Some(Errno::from_raw(code))
    };
    let mut causes = error.chain();
    causes.any(|cause| {
        let code = of_io(cause).or_else(|| cause.downcast_ref::<Errno>().copied());
        code.is_some_and(|code| scarce.contains(&code))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_waited_for_and_nothing_else() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(will_pass(&anyhow::Error::new(full).context("next")));
        assert!(will_pass(&Errno::ENOMEM.into()));
        let gone = std::io::Error::from_raw_os_error(libc::ENOENT);
        assert!(!will_pass(&gone.into()));
        assert!(!will_pass(&anyhow::anyhow!("said something else")));
    }
}
