// SPDX-License-Identifier: GPL-2.0-only
//! A content-keyed cache folder.
//!
//! What is expensive to make (a kernel, a disk image) is an *entry*: a folder
//! named by a [`Key`], the hash of everything that went into it. Three rules
//! keep it sound:
//!
//! - an entry is built in a temporary folder and appears by one `rename(2)`,
//!   so an interrupted build leaves nothing that looks finished;
//! - whoever builds an entry holds its [`Lock`], so that two runs at once build
//!   it once and the second one takes the result;
//! - a manifest holds the hash of every file, and is checked each time the
//!   entry is used, so a damaged entry is built anew instead of believed.

mod entry;
mod key;
mod lock;
mod space;

pub use entry::{Entry, Listed};
pub use key::Key;
pub use lock::Lock;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The cache folder.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens the user's cache: `$XDG_CACHE_HOME/wideleaf`, else
    /// `$HOME/.cache/wideleaf` (XDG Base Directory Specification: a relative
    /// `XDG_CACHE_HOME` is ignored). Creates it where it does not exist.
    pub fn open() -> Result<Self> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .context("no cache folder: neither XDG_CACHE_HOME nor HOME holds an absolute path")?;
        Self::at(base.join("wideleaf"))
    }

    /// Opens a cache at `root`, creating the folder where it does not exist.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root)
            .with_context(|| format!("cannot create the cache folder {}", root.display()))?;
        Ok(Self { root })
    }

    /// The cache folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the exclusive lock `name`, waiting for whoever holds it;
    /// `waiting` is called once if it has to wait. The kernel drops the lock
    /// when its holder dies, however it dies.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<Lock> {
        Lock::take(&self.root.join("locks"), name, waiting)
    }

    /// Takes the lock `name` unless another run holds it.
    ///
    /// # Errors
    ///
    /// If the lock's file cannot be opened.
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        Lock::try_take(&self.root.join("locks"), name)
    }

    /// The entry of this kind and key, or `None` if there is none or it is
    /// damaged.
    pub fn get(&self, kind: &str, key: &Key) -> Option<Entry> {
        Entry::open(&self.entry_path(kind, key))
    }

    /// The entry of this kind and key; `build` fills the given empty folder if
    /// there is none yet. `waiting` is called if another run is building it.
    pub fn get_or_build(
        &self,
        kind: &str,
        key: &Key,
        waiting: impl FnOnce(),
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Entry> {
        let path = self.entry_path(kind, key);
        if let Some(entry) = Entry::open(&path) {
            return Ok(entry);
        }
        let _lock = self.lock(&format!("{kind}-{}", key.id()), waiting)?;
        // Whoever held the lock may have built it meanwhile.
        if let Some(entry) = Entry::open(&path) {
            return Ok(entry);
        }
        Entry::build(&path, key, build)
    }

    /// Fails unless the file system of the cache has `bytes` free for `what`.
    pub fn require_space(&self, bytes: u64, what: &str) -> Result<()> {
        let free = space::free(&self.root)?;
        if free < bytes {
            bail!(
                "{}: {} MiB free, but {what} needs {} MiB: free some space, \
                 or set XDG_CACHE_HOME to a folder on a larger disk",
                self.root.display(),
                free >> 20,
                bytes.div_ceil(1 << 20),
            );
        }
        Ok(())
    }

    /// Every finished entry, in no particular order.
    pub fn list(&self) -> Result<Vec<Listed>> {
        entry::list(&self.root)
    }

    fn entry_path(&self, kind: &str, key: &Key) -> PathBuf {
        self.root.join("entries").join(kind).join(key.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        (dir, cache)
    }

    fn key(n: u32) -> Key {
        Key::new().field("n", n.to_string())
    }

    fn put(text: &str) -> impl FnOnce(&Path) -> Result<()> {
        move |dir| Ok(fs::write(dir.join("f"), text)?)
    }

    #[test]
    fn built_once_then_found() {
        let (_dir, cache) = cache();
        cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        let again = cache
            .get_or_build("k", &key(1), || (), |_| bail!("built again"))
            .unwrap();
        assert_eq!(fs::read_to_string(again.path("f")).unwrap(), "one");
    }

    #[test]
    fn other_inputs_are_another_entry() {
        let (_dir, cache) = cache();
        cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        assert!(cache.get("k", &key(2)).is_none());
        assert!(cache.get("other", &key(1)).is_none());
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let (dir, cache) = cache();
        let failed = cache.get_or_build(
            "k",
            &key(1),
            || (),
            |tmp| {
                fs::write(tmp.join("f"), "half")?;
                bail!("interrupted")
            },
        );
        assert!(failed.is_err());
        assert!(cache.get("k", &key(1)).is_none());
        let left = fs::read_dir(dir.path().join("entries/k")).unwrap().count();
        assert_eq!(left, 0, "temporary folder left behind");
    }

    #[test]
    fn what_a_killed_build_left_is_removed() {
        let (dir, cache) = cache();
        // kill -9 leaves the temporary folder, as nobody is there to remove it.
        let stale = dir
            .path()
            .join("entries/k")
            .join(format!(".{}.1a2b", key(1).id()));
        fs::create_dir_all(&stale).unwrap();
        cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        assert!(!stale.exists());
    }

    #[test]
    fn a_flipped_byte_is_detected_and_rebuilt() {
        let (_dir, cache) = cache();
        let entry = cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        fs::write(entry.path("f"), "0ne").unwrap();
        let entry = cache.get_or_build("k", &key(1), || (), put("new")).unwrap();
        assert_eq!(fs::read_to_string(entry.path("f")).unwrap(), "new");
    }

    #[test]
    fn a_missing_file_and_a_damaged_manifest_are_detected() {
        let (_dir, cache) = cache();
        let entry = cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        fs::remove_file(entry.path("f")).unwrap();
        assert!(cache.get("k", &key(1)).is_none());

        let entry = cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        fs::write(entry.path("manifest.json"), "{").unwrap();
        assert!(cache.get("k", &key(1)).is_none());
    }

    #[test]
    fn two_runs_at_once_build_once() {
        let (_dir, cache) = cache();
        let built = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    cache
                        .get_or_build(
                            "k",
                            &key(1),
                            || (),
                            |tmp| {
                                built.fetch_add(1, Ordering::SeqCst);
                                std::thread::sleep(std::time::Duration::from_millis(50));
                                put("one")(tmp)
                            },
                        )
                        .unwrap();
                });
            }
        });
        assert_eq!(built.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn too_little_space_says_how_much() {
        let (_dir, cache) = cache();
        let error = cache.require_space(u64::MAX, "an image").unwrap_err();
        assert!(error.to_string().contains("MiB free"), "{error}");
        cache.require_space(1, "an image").unwrap();
    }

    #[test]
    fn listed_with_size() {
        let (_dir, cache) = cache();
        cache.get_or_build("k", &key(1), || (), put("one")).unwrap();
        let listed = cache.list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].kind, "k");
        assert!(listed[0].bytes >= 3);
    }
}
