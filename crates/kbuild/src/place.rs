// SPDX-License-Identifier: GPL-2.0-only
//! A source tree in the cache, where make works.

use anyhow::{Result, bail};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Lock};
use wideleaf_kit::events::Event;
use wideleaf_kit::events::Observer;

/// Bytes that an unpacked tree takes: 7.3 takes 1.8 GiB.
pub(crate) const TREE_BYTES: u64 = 2 << 30;

/// A folder `work/<name>` with the tree in `src` and object folders beside it, held exclusively.
pub(crate) struct Place {
    dir: PathBuf,
    lock: Lock,
}

impl Place {
    /// Takes the place of this name, waiting for another run that has it; `what` is in it.
    pub(crate) fn take(
        name: &str,
        what: &str,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let dir = cache.root().join("work").join(name);
        if let Some(bad) = dir.to_string_lossy().find([' ', ':']) {
            bail!(
                "{}: the kernel's build takes no path with a blank or colon (character {}): \
                 set XDG_CACHE_HOME to another folder",
                dir.display(),
                bad + 1
            );
        }
        let lock = cache.lock(&format!("work-{name}"), || {
            observer.event(Event::Waiting(&format!("another run that works on {what}")));
        })?;
        Ok(Self { dir, lock })
    }

    /// Whether no run has the place of this name.
    pub(crate) fn is_free(name: &str, cache: &Cache) -> Result<bool> {
        Ok(cache.try_lock(&format!("work-{name}"))?.is_some())
    }

    /// The folder that holds the tree and its object folders.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The source tree.
    pub(crate) fn src(&self) -> PathBuf {
        self.dir.join("src")
    }

    /// What ccache remembers, of all places.
    pub(crate) fn ccache(&self) -> PathBuf {
        self.dir.with_file_name("ccache")
    }

    /// The lock's file, for make to inherit.
    pub(crate) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// What builds, `kernel check` and `kernel export` wait for.
    #[test]
    fn who_finds_it_taken_says_so_and_waits() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let take = |observer: &dyn Observer| Place::take("tree", "Linux 6.12", &cache, observer);
        let held = take(&|event: Event<'_>| panic!("{event:?}")).unwrap();
        let (said, heard) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                take(&|event: Event<'_>| said.send(format!("{event:?}")).unwrap()).map(drop)
            });
            let words = heard.recv_timeout(Duration::from_secs(20)).unwrap();
            assert!(
                words.contains("another run that works on Linux 6.12"),
                "{words}"
            );
            assert!(!waiter.is_finished());
            assert!(!Place::is_free("tree", &cache).unwrap());
            drop(held);
            waiter.join().unwrap().unwrap();
        });
        assert!(Place::is_free("tree", &cache).unwrap());
    }
}
