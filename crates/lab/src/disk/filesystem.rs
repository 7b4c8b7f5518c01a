// SPDX-License-Identifier: GPL-2.0-only
//! The file systems that a disk can have, and what makes them.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wideleaf_cache::Key;
use wideleaf_kbuild::Base;

/// A file system that the stub file can lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// Large folios on both bases.
    Xfs,
    /// Large folios on 7.3.
    Ext4,
    /// Large folios on both bases. It is only read; container images may be of it.
    Erofs,
}

impl Filesystem {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Xfs, Self::Ext4, Self::Erofs];

    /// As mount(2) and the command line name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
            Self::Erofs => "erofs",
        }
    }

    /// As prose names it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Xfs => "XFS",
            Self::Ext4 => "ext4",
            Self::Erofs => "EROFS",
        }
    }

    /// Whether its page cache has large folios in this base; without them no
    /// leaf wider than a page can map a file.
    pub const fn has_large_folios(self, base: Base) -> bool {
        !matches!((self, base), (Self::Ext4, Base::V6_12))
    }

    /// Whether nothing can be written to it.
    pub const fn is_only_read(self) -> bool {
        matches!(self, Self::Erofs)
    }

    /// The program that makes it.
    ///
    /// # Errors
    ///
    /// If it is missing; the text says which package has it.
    pub fn mkfs(self) -> Result<PathBuf> {
        let (program, package) = match self {
            Self::Xfs => ("mkfs.xfs", "xfsprogs"),
            Self::Ext4 => ("mke2fs", "e2fsprogs"),
            Self::Erofs => ("mkfs.erofs", "erofs-utils"),
        };
        wideleaf_kit::tool::find(program).with_context(|| {
            format!("{program} is missing: install it with 'apt install {package}'")
        })
    }

    /// A word for the version of this file system's mkfs program, which is at `mkfs`.
    ///
    /// # Errors
    ///
    /// If it cannot be run or read.
    pub fn version(self, mkfs: &Path) -> Result<String> {
        match self {
            Self::Xfs | Self::Ext4 => {
                let said = wideleaf_kit::tool::said(mkfs, &["-V"])?;
                Ok(said.lines().next().unwrap_or_default().into())
            }
            // That of 1.5, Debian 12's, says its version nowhere.
            Self::Erofs => Ok(Key::new().file("mkfs", mkfs)?.id()),
        }
    }
}

impl std::fmt::Display for Filesystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Filesystem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == text)
            .ok_or_else(|| format!("unknown file system '{text}': known are xfs, ext4, erofs"))
    }
}
