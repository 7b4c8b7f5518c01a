// SPDX-License-Identifier: GPL-2.0-only
//! A disk of packages of Debian and all that they depend on, as its maker furnishes them.

use crate::disk::aligned::{self, align_all};
use crate::disk::filesystem::Filesystem;
use crate::disk::image::{self, Room};
use crate::vm::scratch::Scratch;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_debian::Packages;
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::{Event, Observer};

/// The disk.
#[derive(Debug)]
pub struct Packaged<'a> {
    /// The cache's kind of entry that holds the image.
    pub kind: &'static str,
    /// The disk's file system.
    pub filesystem: Filesystem,
    /// The programs' architecture.
    pub arch: Arch,
    /// Whether programs and libraries are given to `wideleaf align`.
    pub aligned: bool,
    /// The packages; apt adds those that they depend on.
    pub packages: Vec<&'a str>,
    /// Room that the guest may fill.
    pub room: Room,
    /// All else that decides how the disk is furnished.
    pub key: Key,
}

impl Packaged<'_> {
    /// Finds the image in the cache or makes it; the observer hears when work
    /// begins that takes a while. `furnish` gets the folder that the packages
    /// were unpacked into.
    ///
    /// # Errors
    ///
    /// If packages cannot be had, `furnish` fails, or mkfs is missing or fails.
    pub fn ensure(
        &self,
        furnish: impl Fn(&Path) -> Result<()>,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<PathBuf> {
        let mkfs = self.filesystem.mkfs()?;
        let packages = Packages::ensure(self.arch, &self.packages, cache, observer)?;
        let key = self
            .room_key()
            .field("furnished", self.key.id())
            .field("filesystem", self.filesystem.name())
            .field("arch", self.arch.name())
            .field("aligned", aligned::key(self.aligned)?.id())
            .field("image", image::LAYOUT)
            .field("packages", packages.names().join(" "))
            .field("maker", self.filesystem.version(&mkfs)?);
        let make = |dir: &Path| {
            // The packages unpacked, and the image of them.
            cache.require_space(16 * packages.size()? + (1 << 30), "a disk of programs")?;
            observer.event(Event::Step(&format!(
                "making a disk: {} and what it depends on, {} packages of Debian for {} on {}{}",
                self.packages.join(", "),
                packages.names().len(),
                self.arch,
                self.filesystem.title(),
                if self.aligned { ", aligned" } else { "" }
            )));
            let scratch = Scratch::new(cache.root())?;
            let root = scratch.join("root");
            fs::create_dir(&root)?;
            packages.unpack(&root)?;
            furnish(&root)?;
            if self.aligned {
                align_all(&root)?;
            }
            let out = dir.join("disk.img");
            image::of_folder(self.filesystem, &mkfs, &root, self.room, &scratch, &out)
        };
        let entry = cache.get_or_build(self.kind, &key, || (), make)?;
        Ok(entry.path("disk.img"))
    }

    fn room_key(&self) -> Key {
        let key = Key::new();
        match self.room {
            Room::NONE => key,
            room => key.field("room", format!("{room:?}")),
        }
    }
}
