// SPDX-License-Identifier: GPL-2.0-only
//! Programs that no package of Debian has, built for the guest.

use crate::disk::crates_io::CrateProgram;
use crate::disk::debian_source::SourceProgram;
use anyhow::Result;
use std::path::PathBuf;
use wideleaf_cache::Cache;
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::Observer;

/// Such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// Of crates.io.
    Crate(CrateProgram),
    /// Of a source package of Debian.
    Source(SourceProgram),
}

impl Built {
    /// Its file's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crate(program) => program.name,
            Self::Source(program) => program.name,
        }
    }

    /// A static binary, built if it is not in the cache.
    ///
    /// # Errors
    ///
    /// If its source or what builds it cannot be had, or it does not build.
    pub fn ensure(self, arch: Arch, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        match self {
            Self::Crate(program) => program.ensure(arch, cache, observer),
            Self::Source(program) => program.ensure(arch, cache, observer),
        }
    }
}
