// SPDX-License-Identifier: GPL-2.0-only
//! A disk with programs of Debian as they come, with all that they depend on.

use crate::disk::filesystem::Filesystem;
use crate::disk::image;
use crate::vm::scratch::Scratch;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_debian::Packages;
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::{Event, Observer};

/// Part of every key: to be raised when the same inputs give another image.
const LAYOUT: &str = "1";

/// The cache's kind of entry that holds an image.
const KIND: &str = "debian";

/// Folders of packages that no program of ours reads.
const UNUSED: &[&str] = &["usr/share", "usr/include", "etc"];

/// Folders for the kernel's own file systems: the disk is mounted for reading.
const MOUNT_POINTS: &[&str] = &["dev", "proc", "sys"];

/// The disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debian {
    /// The disk's file system.
    pub filesystem: Filesystem,
    /// Whose programs.
    pub arch: Arch,
    /// What is wanted; apt adds what these depend on.
    pub packages: &'static [&'static str],
}

impl Debian {
    /// Finds the image in the cache or makes it; the observer hears when work
    /// begins that takes a while.
    ///
    /// # Errors
    ///
    /// If packages cannot be had, or mkfs is missing or fails.
    pub fn ensure(&self, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let mkfs = self.filesystem.mkfs()?;
        let packages = Packages::ensure(self.arch, self.packages, cache, observer)?;
        let key = Key::new()
            .field("layout", LAYOUT)
            .field("filesystem", self.filesystem.name())
            .field("arch", self.arch.name())
            .field("packages", packages.names().join(" "))
            .field("maker", wideleaf_kit::tool::said(&mkfs, &["-V"])?);
        let entry = cache.get_or_build(
            KIND,
            &key,
            || (),
            |dir| {
                cache.require_space(1 << 30, "a disk of Debian's programs")?;
                observer.event(Event::Step(&format!(
                    "making a disk: {} and what it depends on, {} packages of Debian for {} on {}",
                    self.packages.join(", "),
                    packages.names().len(),
                    self.arch,
                    self.filesystem.title(),
                )));
                self.make(&packages, &mkfs, cache.root(), &dir.join("disk.img"))
            },
        )?;
        Ok(entry.path("disk.img"))
    }

    fn make(&self, packages: &Packages, mkfs: &Path, near: &Path, out: &Path) -> Result<()> {
        let scratch = Scratch::new(near)?;
        let root = scratch.join("root");
        fs::create_dir(&root)?;
        packages.unpack(&root)?;
        remove_unused(&root)?;
        for folder in MOUNT_POINTS {
            fs::create_dir_all(root.join(folder)).with_context(|| format!("/{folder}"))?;
        }
        image::of_folder(self.filesystem, mkfs, &root, 0, &scratch, out)
    }
}

/// Removes what packages bring along for people and compilers.
pub fn remove_unused(root: &Path) -> Result<()> {
    for folder in UNUSED.iter().map(|folder| root.join(folder)) {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
    }
    Ok(())
}
