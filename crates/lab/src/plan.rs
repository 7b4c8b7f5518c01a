// SPDX-License-Identifier: GPL-2.0-only
//! What a job asks of the lab, once its options are known: guest memory, a disk, the task.

use crate::common::Common;
use crate::disk::Contents;
use crate::disk::filesystem::Filesystem;
use serde::Serialize;
use serde_json::Value;
use wideleaf_guest::protocol::{self, MemoryPressure};
use wideleaf_kbuild::{Arch, PageSize};

/// Guest memory of a job that needs little.
pub const MEMORY: u64 = 1 << 30;

/// Guest memory of a job whose disk is persistent memory.
pub const DAX_MEMORY: u64 = 2 << 30;

/// The parameter by which the kernel takes a part of that for the disk: as much as any image of a
/// few files has, from 1G on.
const DAX_PARAMETER: &str = "memmap=768M!1G";

/// Where the guest mounts its disk.
pub const MOUNT_POINT: &str = "/mnt";

/// What a job is asked for.
#[derive(Debug)]
pub struct Asked<'a, Own> {
    /// The guest's architecture.
    pub arch: Arch,
    /// Its base page size.
    pub page_size: PageSize,
    /// What every job takes.
    pub common: &'a Common,
    /// What this one takes.
    pub own: &'a Own,
}

/// What a job asks of the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the guest is asked to do.
    pub task: Value,
    /// Seconds it may take unless told: many times what it takes on a slow machine.
    pub time_limit_s: u32,
    /// Guest memory in bytes.
    pub memory: u64,
    /// How much of it the job uses; the rest takes nothing from the host.
    pub memory_used: u64,
    /// Bytes of memory that the guest may ask for while it runs; `None`: it does not.
    pub pluggable: Option<u64>,
    /// How scarce memory is made.
    pub pressure: MemoryPressure,
    /// The disk that the guest mounts; `None`: it has none.
    pub disk: Option<Disk>,
    /// Fragments of `kernel/config` that its kernels need besides those of the job.
    pub fragments: Vec<String>,
    /// Fragments whose options the lab's own configuration always has: a distribution's must have
    /// them, too.
    pub always: Vec<String>,
    /// Kernel parameters of the guest.
    pub parameters: Vec<String>,
}

/// A disk for the guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// What it holds.
    pub contents: Contents,
    /// The file system, where the contents leave a choice.
    pub filesystem: Filesystem,
    /// Whether programs and libraries on it go through `wideleaf align` first.
    pub aligned: bool,
    /// Readahead window in bytes.
    pub read_ahead: u64,
    /// Requests a second that it answers; `None`: as many as it can.
    pub rate: Option<u32>,
    /// Whether it is persistent memory, of which files are mapped where they are.
    pub dax: bool,
}

impl Disk {
    /// XFS, and a readahead window as NVMe disks have it.
    pub fn new(contents: Contents) -> Self {
        Self {
            contents,
            filesystem: Filesystem::Xfs,
            aligned: false,
            read_ahead: 128 << 10,
            rate: None,
            dax: false,
        }
    }
}

impl Plan {
    /// A job without a disk that needs little memory.
    pub fn new(task: &impl Serialize, time_limit_s: u32) -> Self {
        Self {
            // Tasks are plain data.
            task: serde_json::to_value(task).expect("a task is JSON"),
            time_limit_s,
            memory: MEMORY,
            memory_used: MEMORY,
            pluggable: None,
            pressure: MemoryPressure::default(),
            disk: None,
            fragments: Vec::new(),
            always: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// The same with a disk, and what the kernel and the guest need for it.
    pub fn with_disk(mut self, disk: Disk) -> Self {
        if disk.dax {
            self.fragments.push("dax".into());
            self.parameters.push(DAX_PARAMETER.into());
            self = self.with_memory(DAX_MEMORY);
        }
        self.disk = Some(disk);
        self
    }

    /// Whether its disk is persistent memory.
    pub fn has_dax(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.dax)
    }

    /// The same in a guest of so many bytes of memory, rounded up to MiB, which QEMU is given.
    pub fn with_memory(self, memory: u64) -> Self {
        let memory = memory.next_multiple_of(1 << 20);
        Self {
            memory,
            memory_used: memory,
            ..self
        }
    }

    /// The job `name` as the guest reads it.
    pub fn for_guest(&self, name: &str, time_limit_s: u32) -> protocol::Job {
        let mut file = protocol::Job::new(name, self.task.clone(), time_limit_s);
        file.memory = self.pressure;
        file.disk = self.disk.as_ref().map(|disk| {
            let window = (disk.read_ahead >> 10) as u32;
            let file = protocol::Disk {
                mount_point: MOUNT_POINT.into(),
                writable: disk.contents.is_written(),
                ..protocol::Disk::new(disk.filesystem.name(), Some(window))
            };
            match disk.dax {
                true => file.in_memory(),
                false => file,
            }
        });
        file
    }
}
