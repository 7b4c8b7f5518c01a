// SPDX-License-Identifier: GPL-2.0-only
//! What a job's disk holds, and who makes each kind.

mod aligned;
pub mod built;
pub mod crates_io;
mod debian;
pub mod debian_source;
pub mod filesystem;
pub mod image;
pub mod installed;
mod packaged;
pub mod selftests;
pub mod system;
pub mod userland;

use crate::disk::debian::Debian;
use crate::disk::filesystem::Filesystem;
use crate::disk::image::{Image, Room};
use crate::disk::installed::{Install, Installed};
use crate::disk::system::System;
use crate::disk::userland::Userland;
use anyhow::Result;
use std::path::PathBuf;
use wideleaf_cache::Cache;
use wideleaf_debian::Packages;
use wideleaf_kbuild::{Arch, Base, KernelDir};
use wideleaf_kit::events::{Event, Observer};

/// Whom a disk is for.
#[derive(Clone, Debug)]
pub struct DiskFor {
    /// The base of its kernels.
    pub base: Base,
    /// Its architecture.
    pub arch: Arch,
    /// The file system, where the contents leave a choice.
    pub filesystem: Filesystem,
    /// Whether programs and libraries go through `wideleaf align` first.
    pub aligned: bool,
    /// The series whose selftests are run besides the base's.
    pub kernel_dir: Option<KernelDir>,
}

/// What a disk holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A stub file of each of these sizes in bytes.
    Stubs(Vec<u64>),
    /// Nothing, and room for this many bytes.
    Room(u64),
    /// Programs and libraries, Debian's and ours.
    Userland,
    /// These packages of Debian as they come, and what they depend on.
    Debian(&'static [&'static str]),
    /// Packages of Debian that a program needs, and files of its own.
    Installed(Install),
    /// A Debian that boots, with these packages, and with the root of a container that has them.
    System(Install),
    /// The base's own selftests/mm, and the series'.
    Selftests,
}

impl Contents {
    /// Whether the guest writes to the disk; what it wrote is thrown away.
    pub fn is_written(&self) -> bool {
        match self {
            Self::Selftests | Self::Room(_) | Self::System(_) => true,
            Self::Installed(install) => install.room != Room::NONE,
            Self::Stubs(_) | Self::Userland | Self::Debian(_) => false,
        }
    }

    /// Looks whether the programs are there that the disk is made with.
    ///
    /// # Errors
    ///
    /// The first that is missing, with its package.
    pub fn require_tools(&self, whom: &DiskFor) -> Result<()> {
        match self {
            Self::Stubs(_) | Self::Room(_) | Self::Debian(_) | Self::Installed(_) => {
                whom.filesystem.mkfs().map(drop)
            }
            Self::System(_) => System::require_tools(whom.filesystem),
            Self::Userland => userland(whom).require_tools(),
            Self::Selftests => selftests::require_tools(),
        }
    }

    /// The file names, which have the versions, of Debian's packages on the disk.
    ///
    /// # Errors
    ///
    /// If packages cannot be had.
    pub fn packages(
        &self,
        whom: &DiskFor,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<Vec<String>> {
        let wanted = match self {
            Self::Installed(install) => install.packages.iter().map(String::as_str).collect(),
            Self::System(install) => System::packages(install),
            Self::Debian(packages) => packages.to_vec(),
            Self::Userland => userland::PACKAGES.to_vec(),
            Self::Stubs(_) | Self::Room(_) | Self::Selftests => return Ok(Vec::new()),
        };
        let packages = Packages::ensure(whom.arch, &wanted, cache, observer)?;
        Ok(packages.names().to_vec())
    }

    /// The disk's image, made if it is not in the cache; the observer hears when
    /// work begins that takes a while.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn ensure(
        &self,
        whom: &DiskFor,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<PathBuf> {
        match self {
            Self::Stubs(sizes) => stubs(whom, sizes.clone(), 0, cache, observer),
            Self::Room(bytes) => stubs(whom, Vec::new(), *bytes, cache, observer),
            Self::Userland => userland(whom).ensure(cache, observer),
            Self::Debian(packages) => debian(whom, packages).ensure(cache, observer),
            Self::Installed(install) => installed(whom, install).ensure(cache, observer),
            Self::System(install) => system(whom, install).ensure(cache, observer),
            Self::Selftests => {
                let files = whom.kernel_dir.as_ref();
                selftests::ensure(whom.base, whom.arch, files, cache, observer)
            }
        }
    }
}

fn stubs(
    whom: &DiskFor,
    sizes: Vec<u64>,
    room: u64,
    cache: &Cache,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let image = Image {
        filesystem: whom.filesystem,
        arch: whom.arch,
        sizes,
        room,
    };
    image.ensure(cache, &mut |text| observer.event(Event::Step(text)))
}

fn userland(whom: &DiskFor) -> Userland {
    Userland {
        filesystem: whom.filesystem,
        arch: whom.arch,
        aligned: whom.aligned,
    }
}

fn debian(whom: &DiskFor, packages: &'static [&'static str]) -> Debian {
    Debian {
        filesystem: whom.filesystem,
        arch: whom.arch,
        packages,
    }
}

fn installed<'a>(whom: &DiskFor, install: &'a Install) -> Installed<'a> {
    Installed {
        filesystem: whom.filesystem,
        arch: whom.arch,
        aligned: whom.aligned,
        install,
    }
}

fn system<'a>(whom: &DiskFor, install: &'a Install) -> System<'a> {
    System {
        filesystem: whom.filesystem,
        arch: whom.arch,
        install,
    }
}
