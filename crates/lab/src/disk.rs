// SPDX-License-Identifier: GPL-2.0-only
//! What a job's disk holds, and who makes each kind.

use crate::image::Image;
use crate::run::Target;
use crate::selftests_disk;
use crate::userland::Userland;
use anyhow::Result;
use std::path::PathBuf;
use wideleaf_cache::Cache;
use wideleaf_kernel::{Event, Events};

/// What a disk holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A stub file of each of these sizes in bytes.
    Stubs(Vec<u64>),
    /// Programs and libraries, Debian's and ours.
    Userland,
    /// The base's own selftests/mm.
    Selftests,
}

impl Contents {
    /// Whether the guest writes to the disk; what it wrote is thrown away.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Selftests)
    }

    /// Looks whether the programs are there that the disk is made with.
    ///
    /// # Errors
    ///
    /// The first that is missing, with its package.
    pub fn require_tools(&self, target: &Target) -> Result<()> {
        match self {
            Self::Stubs(_) => target.options.filesystem.mkfs().map(drop),
            Self::Userland => userland(target).require_tools(),
            Self::Selftests => selftests_disk::require_tools(),
        }
    }

    /// The disk's image, made if it is not in the cache; `events` are told when
    /// work begins that takes a while.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn ensure(
        &self,
        target: &Target,
        cache: &Cache,
        events: &mut dyn Events,
    ) -> Result<PathBuf> {
        match self {
            Self::Stubs(sizes) => {
                let image = Image {
                    filesystem: target.options.filesystem,
                    arch: target.arch,
                    sizes: sizes.clone(),
                };
                image.ensure(cache, &mut |text| events.event(Event::Step(text)))
            }
            Self::Userland => userland(target).ensure(cache, events),
            Self::Selftests => selftests_disk::ensure(target.base, target.arch, cache, events),
        }
    }
}

fn userland(target: &Target) -> Userland {
    Userland {
        filesystem: target.options.filesystem,
        arch: target.arch,
    }
}
