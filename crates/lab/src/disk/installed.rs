// SPDX-License-Identifier: GPL-2.0-only
//! A disk with packages of Debian as a program needs them at run time, and files of the program's
//! own. Nothing is configured: no maintainer script runs. The users, groups and folders that scripts
//! would make, and that programs miss, are made here.

use crate::disk::built::Built;
use crate::disk::filesystem::Filesystem;
use crate::disk::image::Room;
use crate::disk::packaged::Packaged;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::Observer;

/// Part of every key: to be raised when the same inputs give another image.
const LAYOUT: &str = "1";

/// The cache's kind of entry that holds an image.
const KIND: &str = "installed";

/// Our folder on the disk.
const OURS: &str = "wideleaf";

/// Folders of packages that are for people.
const FOR_PEOPLE: &[&str] = &[
    "usr/share/doc",
    "usr/share/doc-base",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
];

/// Folders for the kernel's own file systems, and for what programs write: the disk is mounted for
/// reading.
const MOUNT_POINTS: &[&str] = &["dev", "proc", "run", "sys", "tmp"];

/// The users that scripts of the package base-passwd would make.
const USERS: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/tmp:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n",
    ),
    ("etc/group", "root:x:0:\nuser:x:1000:\n"),
];

/// The contents of such a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// Packages of Debian; apt adds what these depend on.
    pub packages: Vec<String>,
    /// Programs that Debian's packages lack, which get into `/usr/bin`.
    pub programs: Vec<Built>,
    /// Files of `/wideleaf` by name, with their texts.
    pub files: BTreeMap<String, String>,
    /// Files and folders of the packages that are left out, as paths without the first slash.
    pub without: Vec<String>,
    /// Room that the guest may fill.
    pub room: Room,
}

/// The disk.
#[derive(Clone, Copy, Debug)]
pub struct Installed<'a> {
    /// The disk's file system.
    pub filesystem: Filesystem,
    /// The programs' architecture.
    pub arch: Arch,
    /// Whether programs and libraries were given to `wideleaf align`.
    pub aligned: bool,
    /// Its contents.
    pub install: &'a Install,
}

impl Installed<'_> {
    /// The image, made if it is not in the cache.
    ///
    /// # Errors
    ///
    /// If packages or programs cannot be had, a path to be left out is in none of them, or mkfs is missing or
    /// fails.
    pub fn ensure(&self, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let Install {
            packages,
            programs,
            room,
            ..
        } = self.install;
        let mut key = self.install.key().field("layout", LAYOUT);
        let built = programs.iter().map(|program| {
            let path = program.ensure(self.arch, cache, observer)?;
            Ok((program.name(), path))
        });
        let built = built.collect::<Result<Vec<_>>>()?;
        for (name, path) in &built {
            key = key.file(format!("program {name}"), path)?;
        }
        let disk = Packaged {
            kind: KIND,
            filesystem: self.filesystem,
            arch: self.arch,
            aligned: self.aligned,
            packages: packages.iter().map(String::as_str).collect(),
            room: *room,
            key,
        };
        let furnish = |root: &Path| {
            self.install.furnish(root)?;
            for (name, path) in &built {
                let place = root.join("usr/bin").join(name);
                fs::copy(path, &place).with_context(|| place.display().to_string())?;
            }
            Ok(())
        };
        disk.ensure(furnish, cache, observer)
    }
}

impl Install {
    /// All of it that decides how a root is furnished.
    pub(super) fn key(&self) -> Key {
        let files = self.files.iter();
        let files = files.fold(Key::new(), |key, (name, text)| key.field(name, text));
        Key::new()
            .field("files", files.id())
            .field("without", self.without.join(" "))
    }

    /// Takes away what is not needed of the packages in `root`, and adds what is ours.
    pub(super) fn furnish(&self, root: &Path) -> Result<()> {
        for folder in FOR_PEOPLE {
            remove(&root.join(folder))?;
        }
        for path in &self.without {
            let removed = remove(&root.join(path))?;
            ensure!(
                removed,
                "{path}: to be left out, and in none of the packages"
            );
        }
        for folder in MOUNT_POINTS.iter().chain(&["etc", OURS]) {
            fs::create_dir_all(root.join(folder)).with_context(|| format!("/{folder}"))?;
        }
        for (path, text) in USERS {
            fs::write(root.join(path), text).with_context(|| format!("/{path}"))?;
        }
        for (name, text) in &self.files {
            let path = root.join(OURS).join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// Whether something was there.
fn remove(path: &Path) -> Result<bool> {
    let Ok(meta) = path.symlink_metadata() else {
        return Ok(false);
    };
    let removed = match meta.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.with_context(|| path.display().to_string())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_has_our_files_and_users_and_nothing_that_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for folder in ["usr/share/doc/x", "usr/share/x", "usr/lib/y"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let install = Install {
            packages: Vec::new(),
            programs: Vec::new(),
            files: BTreeMap::from([("work.py".into(), "print(1)".into())]),
            without: vec!["usr/lib/y".into()],
            room: Room::NONE,
        };
        install.furnish(root).unwrap();
        for gone in ["usr/share/doc", "usr/lib/y"] {
            assert!(!root.join(gone).exists(), "{gone}");
        }
        for there in ["usr/share/x", "tmp", "proc", "etc/passwd"] {
            assert!(root.join(there).exists(), "{there}");
        }
        let ours = fs::read_to_string(root.join("wideleaf/work.py")).unwrap();
        assert_eq!(ours, "print(1)");
        // It is gone now.
        let error = install.furnish(root).unwrap_err().to_string();
        assert!(error.starts_with("usr/lib/y: "), "{error}");
    }
}
