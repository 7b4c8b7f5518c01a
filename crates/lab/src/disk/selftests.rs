// SPDX-License-Identifier: GPL-2.0-only
//! A disk with the base's own selftests/mm and the series': always XFS, with room for what the
//! tests write.

use crate::disk::filesystem::Filesystem;
use crate::disk::image;
use crate::vm::scratch::Scratch;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::{Arch, Base, KernelDir, Stack, Variant, selftests};
use wideleaf_kit::events::{Event, Observer};

/// The cache's kind of entry that holds the disk.
const KIND: &str = "selftests-disk";

/// Part of its key: to be raised when the same inputs give another image.
const LAYOUT: &str = "1";

/// The tests' folder on the disk.
pub const TESTS: &str = "mm";

/// The folder on the disk for what they write.
pub const XFS: &str = "xfs";

/// Room on the disk for that.
const ROOM: u64 = 2 << 30;

/// Looks whether what makes it is there.
///
/// # Errors
///
/// The first program that is missing, with its package.
pub fn require_tools() -> Result<()> {
    Filesystem::Xfs.mkfs().map(drop)
}

/// Finds the image in the cache or makes it, with the tests of the base and those that the text
/// series of `kernel_dir` adds; the observer hears when work begins that takes a while.
///
/// # Errors
///
/// If the series does not apply, the tests do not build, or mkfs fails.
pub fn ensure(
    base: Base,
    arch: Arch,
    kernel_dir: Option<&KernelDir>,
    cache: &Cache,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let stack = match kernel_dir {
        Some(files) => Stack::of(base, Variant::Patched, None, files)?,
        None => Stack::default(),
    };
    let tests = selftests::ensure(base, None, arch, &stack, cache, observer)?;
    disk_with(tests.dir(), cache, observer)
}

fn disk_with(tests: &Path, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
    let mkfs = Filesystem::Xfs.mkfs()?;
    let key = Key::new()
        .field("layout", LAYOUT)
        .field("image", image::LAYOUT)
        .field("mkfs", Filesystem::Xfs.version(&mkfs)?)
        // An entry's folder has the name of its content.
        .field("tests", tests.to_string_lossy());
    let entry = cache.get_or_build(
        KIND,
        &key,
        || (),
        |dir| {
            // The room is a hole in the file.
            cache.require_space(1 << 30, "a disk image")?;
            observer.event(Event::Step("making a disk: the base's selftests on XFS"));
            let scratch = Scratch::new(cache.root())?;
            let root = scratch.join("root");
            fs::create_dir_all(root.join(XFS))?;
            fs::create_dir(root.join(TESTS))?;
            for file in fs::read_dir(tests)? {
                let file = file?;
                fs::hard_link(file.path(), root.join(TESTS).join(file.file_name()))?;
            }
            let out = dir.join("disk.img");
            image::of_folder(
                Filesystem::Xfs,
                &mkfs,
                &root,
                image::Room::bytes(ROOM),
                &scratch,
                &out,
            )
        },
    )?;
    Ok(entry.path("disk.img"))
}
