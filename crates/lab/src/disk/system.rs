// SPDX-License-Identifier: GPL-2.0-only
//! A disk with a Debian that boots: systemd, Podman, and packages of a program. The same packages
//! are on it once more, as the root of a container: a folder, and an EROFS image of that.
//!
//! As on other disks no maintainer script runs; systemd makes its users when it boots.

use crate::disk::filesystem::Filesystem;
use crate::disk::image::{self, Room};
use crate::disk::installed::Install;
use crate::disk::packaged::Packaged;
use crate::vm::scratch::Scratch;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_cache::Cache;
use wideleaf_debian::Packages;
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::Observer;

/// Where the root of a container is, as a folder.
pub const ROOT: &str = "/wideleaf/root";

/// The same as an EROFS image.
pub const IMAGE: &str = "/wideleaf/root.erofs";

/// Part of every key: to be raised when the same inputs give another image.
const LAYOUT: &str = "1";

/// The cache's kind of entry that holds an image.
const KIND: &str = "system";

/// The system itself, and what runs containers. A machine has the rest of Debian's essential packages
/// too, which no job here uses.
const PACKAGES: &[&str] = &[
    "base-files",
    "bash",
    "coreutils",
    "crun",
    "dash",
    "dbus",
    "mount",
    "podman",
    "systemd-sysv",
    "util-linux",
];

/// Files that a machine has before it boots for the first time. With a name of its own systemd asks nobody
/// for one.
const IDENTITY: [(&str, &str); 2] = [
    ("etc/machine-id", "57494445c45414680000000000000001\n"),
    ("etc/hostname", "wideleaf\n"),
];

/// Room for what the guest writes: containers' upper layers, logs.
const GROWS: Room = Room {
    bytes: 256 << 20,
    files: 10_000,
};

/// The disk.
#[derive(Clone, Copy, Debug)]
pub struct System<'a> {
    /// The disk's file system.
    pub filesystem: Filesystem,
    /// The programs' architecture.
    pub arch: Arch,
    /// The program's packages and files.
    pub install: &'a Install,
}

impl System<'_> {
    /// Names of all packages on the disk.
    pub fn packages(install: &Install) -> Vec<&str> {
        let own = install.packages.iter().map(String::as_str);
        let mut all: Vec<_> = PACKAGES.iter().copied().chain(own).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Looks whether the programs are there that the disk is made with.
    ///
    /// # Errors
    ///
    /// The first that is missing, with its package.
    pub fn require_tools(filesystem: Filesystem) -> Result<()> {
        filesystem.mkfs()?;
        Filesystem::Erofs.mkfs().map(drop)
    }

    /// The image, made if it is not in the cache.
    ///
    /// # Errors
    ///
    /// If packages cannot be had, or a mkfs is missing or fails.
    pub fn ensure(&self, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let mkfs = Filesystem::Erofs.mkfs()?;
        let own: Vec<_> = self.install.packages.iter().map(String::as_str).collect();
        let own = Packages::ensure(self.arch, &own, cache, observer)?;
        let disk = Packaged {
            kind: KIND,
            filesystem: self.filesystem,
            arch: self.arch,
            aligned: false,
            packages: Self::packages(self.install),
            room: GROWS.or_more(self.install.room),
            key: (self.install.key())
                .field("layout", LAYOUT)
                .field("own", own.names().join(" "))
                .field("erofs", Filesystem::Erofs.version(&mkfs)?),
        };
        let furnish = |root: &Path| {
            self.install.furnish(root)?;
            for (path, text) in IDENTITY {
                fs::write(root.join(path), text).with_context(|| format!("/{path}"))?;
            }
            let (folder, out) = (inside(root, ROOT), inside(root, IMAGE));
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            own.unpack(&folder)?;
            self.install.furnish(&folder)?;
            let scratch = Scratch::new(cache.root())?;
            image::of_folder(
                Filesystem::Erofs,
                &mkfs,
                &folder,
                Room::NONE,
                &scratch,
                &out,
            )
        };
        disk.ensure(furnish, cache, observer)
    }
}

fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
