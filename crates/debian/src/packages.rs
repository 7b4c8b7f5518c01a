// SPDX-License-Identifier: GPL-2.0-only
//! Debian's binary packages of a guest's architecture.
//!
//! Always of one suite, whatever the host runs. apt checks signatures and
//! resolves dependencies, with lists and a package state of our own; nothing
//! is installed, and root is not needed.

use crate::apt::{self, Lists};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_kit::arch::Arch;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::tool;

/// The cache's kind of entry that holds packages.
const KIND: &str = "packages";

/// Room for a download, in bytes.
const ROOM: u64 = 500 << 20;

/// Packages with all that they depend on, downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packages {
    dir: PathBuf,
    names: Vec<String>,
}

impl Packages {
    /// Finds `wanted` and what it depends on in the cache, or downloads it.
    /// apt is asked for newer versions at most once a day; without network
    /// those resolved last will do.
    ///
    /// # Errors
    ///
    /// If apt cannot resolve or get them; its own errors are in the text.
    pub fn ensure(
        arch: Arch,
        wanted: &[&str],
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let what = format!("{} packages of Debian {}", arch, apt::USERLAND);
        let lock = format!("packages-{arch}");
        let _lock = cache.lock(&lock, || observer.event(Event::Waiting(&what)))?;
        let lists = Lists::userland(cache.root(), arch);
        lists.refresh(&what, observer);
        let names = lists
            .resolve(wanted)
            .with_context(|| format!("{what}: {}", wanted.join(", ")))?;
        let key = Key::new()
            .field("suite", apt::USERLAND)
            .field("packages", names.join(" "));
        let entry = cache.get_or_build(
            KIND,
            &key,
            || (),
            |dir| {
                cache.require_space(ROOM, &what)?;
                observer.event(Event::Step(&format!("downloading {} {what}", names.len())));
                lists.download_all(wanted, dir)
            },
        )?;
        let dir = entry.dir().to_owned();
        Ok(Self { dir, names })
    }

    /// The packages' file names, which hold their versions, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Bytes of all of them, as they were downloaded.
    ///
    /// # Errors
    ///
    /// If one cannot be found.
    pub fn size(&self) -> Result<u64> {
        let size = |name: &String| {
            let path = self.dir.join(name);
            let meta = fs::metadata(&path).with_context(|| path.display().to_string())?;
            Ok(meta.len())
        };
        self.names.iter().map(size).sum()
    }

    /// Unpacks them into the folder `root`, as files of whoever calls.
    ///
    /// # Errors
    ///
    /// If a package cannot be unpacked.
    pub fn unpack(&self, root: &Path) -> Result<()> {
        merge_usr(root)?;
        for name in &self.names {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("-x").arg(self.dir.join(name)).arg(root);
            tool::output(&mut unpack).with_context(|| format!("cannot unpack {name}"))?;
        }
        Ok(())
    }
}

/// The folder below `root` in which Debian has the libraries for `arch`.
pub fn libraries(root: &Path, arch: Arch) -> PathBuf {
    root.join("usr/lib").join(match arch {
        Arch::Arm64 => "aarch64-linux-gnu",
        Arch::X86_64 => "x86_64-linux-gnu",
    })
}

/// The links from / into /usr that the package base-files would bring.
fn merge_usr(root: &Path) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(name))
            .and_then(|()| std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)))
            .with_context(|| format!("cannot make {}", root.join(name).display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_at_the_root_lead_into_usr() {
        let root = tempfile::tempdir().unwrap();
        merge_usr(root.path()).unwrap();
        fs::write(root.path().join("lib/ld.so"), "x").unwrap();
        assert!(root.path().join("usr/lib/ld.so").exists());
    }
}
