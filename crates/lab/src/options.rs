// SPDX-License-Identifier: GPL-2.0-only
//! Groups of options that several jobs take; those of every job are [`crate::common::Common`].

use crate::choices;
use crate::disk::Contents;
use crate::disk::filesystem::Filesystem;
use crate::plan::{Disk, MEMORY};
use serde::{Deserialize, Serialize};
use wideleaf_guest::protocol::MemoryPressure;
use wideleaf_kbuild::PageSize;
use wideleaf_kit::size::{parse, short};

/// For jobs whose disk has a choice of file systems.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fs {
    /// File system of the guest's disk
    #[arg(long, value_name = "FS", default_value = "xfs", value_parser = choices!(Filesystem))]
    pub fs: Filesystem,
}

impl Fs {
    /// A disk of this file system.
    pub fn disk(&self, contents: Contents) -> Disk {
        Disk {
            filesystem: self.fs,
            ..Disk::new(contents)
        }
    }
}

/// For jobs whose disk can be persistent memory.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dax {
    /// Have the disk be persistent memory, and its files mapped where they are (DAX, x86-64)
    #[arg(id = "dax", long)]
    #[serde(default, rename = "dax")]
    pub is_used: bool,
}

/// For jobs whose files can be seen through an overlay, as those of containers are.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Have an overlay over the disk's file system, and all files on it
    #[arg(id = "overlay", long)]
    #[serde(default, rename = "overlay")]
    pub is_mounted: bool,
}

impl Overlay {
    /// The fragments whose kernels have overlays, if there is one.
    pub fn fragments(&self) -> impl Iterator<Item = String> {
        self.is_mounted.then(|| "overlay".to_string()).into_iter()
    }

    /// As prose names what files are on.
    pub fn title(&self) -> &'static str {
        match self.is_mounted {
            true => "an overlay over ",
            false => "",
        }
    }
}

/// For jobs that read files.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAhead {
    /// Readahead window of the guest's disk; NVMe disks have 128K
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = window)]
    pub read_ahead: u64,
}

/// In whole KiB, as sysfs has it.
fn window(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    match bytes.is_multiple_of(1024) && bytes >> 10 <= u64::from(u32::MAX) {
        true => Ok(bytes),
        false => Err(format!("{text}: not a multiple of 1K below 4096G")),
    }
}

impl ReadAhead {
    /// The disk with this window. A kernel would round it to whole pages without a word.
    ///
    /// # Errors
    ///
    /// If it is less than a page.
    pub fn of(&self, disk: Disk, page_size: PageSize) -> anyhow::Result<Disk> {
        let window = self.read_ahead;
        if window < page_size.bytes() {
            anyhow::bail!(
                "--read-ahead {}: below the page size {page_size}; 128K is what NVMe disks have",
                short(window)
            );
        }
        Ok(Disk {
            read_ahead: window,
            ..disk
        })
    }
}

/// For jobs whose memory can be made scarce.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scarce {
    /// Memory that the job's cgroup may use (memory.max)
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    pub memory_limit: Option<u64>,
    /// Memory that is free above the high watermarks when the job begins; the
    /// rest of the guest's is taken
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    pub free_memory: Option<u64>,
    /// That memory is free page by page only, so that no wide folio can be had
    #[arg(long, requires = "free_memory")]
    pub fragmented: bool,
}

impl Scarce {
    /// Whether reclaim is part of what is measured.
    pub fn is_scarce(&self) -> bool {
        self.memory_limit.is_some() || self.free_memory.is_some()
    }

    /// As the guest is told.
    pub fn pressure(&self) -> MemoryPressure {
        MemoryPressure {
            limit: self.memory_limit,
            free: self.free_memory,
            fragmented: self.fragmented,
        }
    }

    /// Guest memory for a page cache of `cached` bytes: twice as much, so that
    /// reclaim stays away, and room for the kernel. Where memory is to be nearly
    /// full there is no more of it than must be, because filling it takes time.
    pub fn memory(&self, cached: u64) -> u64 {
        let bytes = match self.free_memory {
            // Every second page is taken.
            Some(free) if self.fragmented => 2 * free + MEMORY / 2,
            Some(free) => free + MEMORY / 2,
            None => 2 * cached + MEMORY,
        };
        bytes.next_multiple_of(1 << 20)
    }
}

/// For jobs whose guest can have any amount of memory.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMemory {
    /// Memory of the guest, such as 64G [default: what the job needs]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
}

/// At least what a kernel boots with.
fn memory(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    match bytes >= 512 << 20 && bytes.is_multiple_of(1 << 20) {
        true => Ok(bytes),
        false => Err(format!(
            "{text}: write a multiple of 1M from 512M on, such as 64G"
        )),
    }
}

/// For jobs that do something at random.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}
