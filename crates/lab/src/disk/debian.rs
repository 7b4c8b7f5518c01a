// SPDX-License-Identifier: GPL-2.0-only
//! A disk with programs of Debian as they come, with all that they depend on.

use crate::disk::filesystem::Filesystem;
use crate::disk::image::Room;
use crate::disk::packaged::Packaged;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::Observer;

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
    /// The image, made if it is not in the cache.
    ///
    /// # Errors
    ///
    /// If packages cannot be had, or mkfs is missing or fails.
    pub fn ensure(&self, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let disk = Packaged {
            kind: KIND,
            filesystem: self.filesystem,
            arch: self.arch,
            aligned: false,
            packages: self.packages.to_vec(),
            room: Room::NONE,
            key: Key::new().field("layout", LAYOUT),
        };
        disk.ensure(furnish, cache, observer)
    }
}

fn furnish(root: &Path) -> Result<()> {
    remove_unused(root)?;
    for folder in MOUNT_POINTS {
        fs::create_dir_all(root.join(folder)).with_context(|| format!("/{folder}"))?;
    }
    Ok(())
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
