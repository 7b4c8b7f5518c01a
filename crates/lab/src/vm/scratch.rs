// SPDX-License-Identifier: GPL-2.0-only
//! Temporary folders and child processes that never outlive a run.
//!
//! Guest memory is a file of gigabytes, mostly in `/dev/shm`: left behind, it
//! eats the machine's memory. Dropping a [`Scratch`] removes it; a signal or a
//! panic (which aborts in release builds, so nothing is dropped) goes through
//! [`install`]; what `kill -9` left is swept by the next run.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

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

/// How the names of the folders begin.
const KIND: &str = "wideleaf-lab";

/// A private folder, removed when dropped and on every way out.
#[derive(Debug)]
pub struct Scratch(wideleaf_kit::scratch::Scratch);

impl Scratch {
    /// Creates a folder below `parent`, after removing what killed runs of
    /// this user left there.
    pub fn new(parent: &Path) -> Result<Self> {
        wideleaf_kit::scratch::sweep(parent, KIND);
        // Listed before it is filled, so that no signal falls in between.
        let mut live = live();
        let folder = wideleaf_kit::scratch::Scratch::new(parent, KIND)
            .with_context(|| format!("cannot create a temporary folder in {}", parent.display()))?;
        live.dirs.insert(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path());
        live().dirs.remove(self.path());
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

    /// Asks it to end, and kills it if it has not within `patience`.
    pub fn end(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut asked = false;
        while matches!(self.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                return self.kill();
            }
            if !std::mem::replace(&mut asked, true) {
                let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
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
    fn a_dropped_child_is_dead() {
        let child = Tethered::spawn(Command::new("sleep").arg("100")).unwrap();
        let pid = Pid::from_raw(child.child.id() as i32);
        assert!(kill(pid, None).is_ok());
        drop(child);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn a_child_may_write_what_it_has_to_before_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let script =
            "trap 'echo done > last; exit' TERM; echo > ready; while :; do sleep 0.01; done";
        for (script, writes) in [
            (script, true),
            ("trap '' TERM; echo > ready; exec sleep 100", false),
        ] {
            let mut command = Command::new("sh");
            let mut child =
                Tethered::spawn(command.args(["-c", script]).current_dir(&dir)).unwrap();
            let (ready, last) = (dir.path().join("ready"), dir.path().join("last"));
            while !ready.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            child.end(Duration::from_secs(if writes { 60 } else { 0 }));
            assert_eq!(last.exists(), writes);
            assert!(kill(Pid::from_raw(child.id() as i32), None).is_err());
            fs::remove_file(ready).unwrap();
            let _ = fs::remove_file(last);
        }
    }

    #[test]
    fn an_unreachable_parent_is_named() {
        let error = Scratch::new(Path::new("/dev/null/x")).unwrap_err();
        assert!(error.to_string().contains("/dev/null/x"), "{error}");
    }
}
