// SPDX-License-Identifier: GPL-2.0-only
//! Makes allocations fail, of wide folios or of what a task asks for, by the kernel's fault injection
//! (Documentation/fault-injection/fault-injection.rst).

use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How many may fail; what is left of it tells how many did.
const TIMES: u64 = 1_000_000_000;

const FOLDER: &str = "/sys/kernel/debug/fail_page_alloc";

/// Whether allocations of this process may fail from now on, where others' must not.
pub fn make_it_fail(yes: bool) -> Result<()> {
    let path = "/proc/self/make-it-fail";
    fs::write(path, if yes { "1" } else { "0" }).with_context(|| path.to_string())
}

/// Has allocations of the kernel's workers, as they are now, fail too.
pub fn make_workers_fail() -> Result<()> {
    for entry in fs::read_dir("/proc").context("/proc")?.flatten() {
        let process = entry.path();
        // A process that has ended meanwhile.
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        if name.starts_with("kworker/") {
            let _ = fs::write(process.join("make-it-fail"), "1");
        }
    }
    Ok(())
}

/// Whether the kernel can make allocations of chosen tasks fail.
pub fn possible() -> bool {
    Path::new(FOLDER).exists() && Path::new("/proc/self/make-it-fail").exists()
}

/// Makes one chosen allocation of this thread fail, whatever the probability is.
#[derive(Debug)]
pub struct Nth(File);

impl Nth {
    /// # Errors
    ///
    /// If the kernel has no such faults.
    pub fn new() -> Result<Self> {
        Self::at("/proc/thread-self/fail-nth".as_ref())
    }

    fn at(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Self(file.with_context(|| path.display().to_string())?))
    }

    /// Does `work` while its allocation of this number fails, from 1. Says whether there was one.
    ///
    /// # Errors
    ///
    /// If the kernel cannot be asked.
    pub fn fails<T>(&self, number: u32, work: impl FnOnce() -> T) -> Result<(T, bool)> {
        self.set(number)?;
        let result = work();
        let mut left = [0; 16];
        let len = self.0.read_at(&mut left, 0).context("fail-nth")?;
        self.set(0)?;
        Ok((result, left[..len].trim_ascii() == b"0"))
    }

    fn set(&self, number: u32) -> Result<()> {
        self.0
            .write_all_at(number.to_string().as_bytes(), 0)
            .context("fail-nth")
    }
}

/// Allocations that fail, one in ten of those of 16 pages and more.
#[derive(Debug)]
pub struct Injection {
    folder: PathBuf,
}

impl Injection {
    /// Switches it on. What is larger than 8 pages is a wide folio by then: the stacks of
    /// processes and threads are smaller.
    ///
    /// # Errors
    ///
    /// If the kernel has no such faults (CONFIG_FAIL_PAGE_ALLOC, CONFIG_FAULT_INJECTION_DEBUG_FS).
    pub fn begin() -> Result<Self> {
        Self::at(FOLDER.into(), 4, false)
    }

    /// Switches it on for single pages too, of tasks that ask for it ([`make_it_fail`]).
    ///
    /// # Errors
    ///
    /// As above.
    pub fn of_tasks() -> Result<Self> {
        Self::at(FOLDER.into(), 0, true)
    }

    fn at(folder: PathBuf, min_order: u64, of_tasks: bool) -> Result<Self> {
        for (name, value) in [
            ("min-order", min_order),
            ("task-filter", u64::from(of_tasks)),
            // Page-cache folios may wait, and may be in high memory, on machines without any too.
            ("ignore-gfp-wait", 0),
            ("ignore-gfp-highmem", 0),
            ("verbose", 0),
            ("times", TIMES),
            ("probability", 10),
        ] {
            let path = folder.join(name);
            fs::write(&path, value.to_string()).with_context(|| {
                format!("{}: no allocation can be made to fail", path.display())
            })?;
        }
        Ok(Self { folder })
    }

    /// Switches it off. Returns how many failed.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn end(self) -> Result<u64> {
        fs::write(self.folder.join("probability"), "0").context("fail_page_alloc")?;
        let path = self.folder.join("times");
        let left = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let left: u64 = left
            .trim()
            .parse()
            .with_context(|| path.display().to_string())?;
        Ok(TIMES.saturating_sub(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_that_is_left_did_not_fail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fail-nth");
        assert!(Nth::at(&path).is_err());
        fs::write(&path, "").unwrap();
        let nth = Nth::at(&path).unwrap();
        assert_eq!(nth.fails(7, || 1).unwrap(), (1, false));
        // As the kernel counts down.
        assert!(nth.fails(7, || fs::write(&path, "0\n").unwrap()).unwrap().1);
    }

    #[test]
    fn it_says_how_many_failed() {
        let error = Injection::at("/nowhere".into(), 4, false);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("/nowhere/min-order"), "{error}");
        let folder = std::env::temp_dir().join(format!("inject-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let begin = || Injection::at(folder.clone(), 4, false).unwrap();
        assert_eq!(begin().end().unwrap(), 0);
        let injection = begin();
        fs::write(folder.join("times"), (TIMES - 7).to_string()).unwrap();
        assert_eq!(injection.end().unwrap(), 7);
        fs::remove_dir_all(folder).unwrap();
    }
}
