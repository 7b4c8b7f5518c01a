// SPDX-License-Identifier: GPL-2.0-only
//! Temporary folders and child processes that never outlive a run.
//!
//! Guest memory is a file of gigabytes, mostly in `/dev/shm`: left behind, it
//! eats the machine's memory. Dropping a [`Scratch`] removes it; a signal or a
//! panic (which aborts in release builds, so nothing is dropped) goes through
//! [`install`]; what `kill -9` left is swept by the next run, which recognises
//! it by a lock that nobody holds.

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, Once};

/// What has to go when this process ends early.
#[derive(Default)]
struct Live {
    dirs: BTreeSet<PathBuf>,
    children: BTreeSet<i32>,
}

static LIVE: Mutex<Live> = Mutex::new(Live {
    dirs: BTreeSet::new(),
    children: BTreeSet::new(),
});

fn live() -> MutexGuard<'static, Live> {
    // A panic while it was held leaves the sets whole: they are only inserted
    // to and removed from.
    LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Makes SIGINT, SIGTERM, SIGHUP and panics clean up before they end the
/// process the way they would have. To be called once by a program's `main`
/// or command; later calls do nothing.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            previous(info);
            clean();
        }));
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) else {
            return;
        };
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                clean();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    });
}

/// Kills the children and removes the folders.
fn clean() {
    let mut live = live();
    for &pid in &live.children {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    for dir in std::mem::take(&mut live.dirs) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// A private folder, removed when dropped and on every way out.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Scratch {
    /// Creates a folder below `parent`, after removing what killed runs of
    /// this user left there.
    pub fn new(parent: &Path) -> Result<Self> {
        let prefix = format!("wideleaf-lab-{}-", Uid::current());
        sweep(parent, &prefix);
        let what = || format!("cannot create a temporary folder in {}", parent.display());
        // Listed before it is filled, so that no signal falls in between.
        let mut live = live();
        let path = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(parent)
            .with_context(what)?
            .keep();
        live.dirs.insert(path.clone());
        drop(live);
        // Locked before it has its name: sweep(), in another thread or run, takes a lock file that
        // nobody holds for that of a dead owner.
        let unnamed = path.join("lock.new");
        let lock = File::create(&unnamed).with_context(what)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| errno)
            .with_context(what)?;
        fs::rename(&unnamed, path.join("lock")).with_context(what)?;
        Ok(Self { path, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        live().dirs.remove(&self.path);
    }
}

/// Removes folders of that prefix whose owner is gone.
fn sweep(parent: &Path, prefix: &str) {
    for item in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !item.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        // No lock file: another run is between mkdir and lock, or it was
        // killed there, having put nothing into it.
        let Ok(lock) = File::open(item.path().join("lock")) else {
            continue;
        };
        if Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok() {
            let _ = fs::remove_dir_all(item.path());
        }
    }
}

/// A child process that is killed when dropped and on every way out.
#[derive(Debug)]
pub struct Tethered {
    child: Child,
}

impl Tethered {
    /// Starts `command`. The kernel kills the child should this process be
    /// killed: to be called from a thread that outlives the child, because
    /// `PR_SET_PDEATHSIG` watches the thread.
    pub fn spawn(command: &mut std::process::Command) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let parent = nix::unistd::getpid();
        // SAFETY: prctl, getppid and _exit are async-signal-safe, and nothing
        // else runs between fork and exec.
        unsafe {
            command.pre_exec(move || {
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
                // The parent may have died before the call above.
                if nix::unistd::getppid() != parent {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        let mut live = live();
        let child = command.spawn()?;
        live.children.insert(child.id() as i32);
        Ok(Self { child })
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has ended.
    pub fn try_wait(&mut self) -> std::io::Result<Option<std::process::ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            // Waited for: from here on the number may be somebody else's.
            live().children.remove(&(self.child.id() as i32));
        }
        Ok(status)
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        live().children.remove(&(self.child.id() as i32));
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        fs::write(scratch.join("ram"), "x").unwrap();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn sweeps_what_a_killed_run_left_and_nothing_in_use() {
        let parent = tempfile::tempdir().unwrap();
        let prefix = format!("wideleaf-lab-{}-", Uid::current());
        let stale = parent.path().join(format!("{prefix}stale"));
        let other = parent.path().join("not-ours");
        for dir in [&stale, &other] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("lock"), "").unwrap();
        }
        let used = Scratch::new(parent.path()).unwrap();
        assert!(!stale.exists());
        let _second = Scratch::new(parent.path()).unwrap();
        assert!(used.path().exists() && other.exists());
    }

    #[test]
    fn a_dropped_child_is_dead() {
        let child = Tethered::spawn(Command::new("sleep").arg("100")).unwrap();
        let pid = Pid::from_raw(child.child.id() as i32);
        assert!(kill(pid, None).is_ok());
        drop(child);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn folders_made_at_the_same_time_leave_each_other_alone() {
        let parent = tempfile::tempdir().unwrap();
        let make = || {
            for _ in 0..200 {
                let scratch = Scratch::new(parent.path()).unwrap();
                fs::write(scratch.join("file"), "x").unwrap();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(make);
            }
        });
    }

    #[test]
    fn an_unreachable_parent_is_named() {
        let error = Scratch::new(Path::new("/dev/null/x")).unwrap_err();
        assert!(error.to_string().contains("/dev/null/x"), "{error}");
    }
}
