// SPDX-License-Identifier: GPL-2.0-only
//! What can be run in a guest, and with which options.

use crate::image::{Filesystem, Image};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use wideleaf_guest::protocol::{self, Disk, ExecOptions, Fault, Stride, Task};
use wideleaf_kernel::{Arch, PageSize, Variant};

/// Where the guest mounts its disk.
const MOUNT_POINT: &str = "/mnt";

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// The exec benchmark.
    Exec,
    /// The kernel's KUnit suites.
    Kunit,
    /// Boot and power off.
    Boot,
    /// A fault on purpose.
    Fault(Fault),
}

impl Job {
    /// The jobs that users are told of.
    pub const ALL: [Self; 3] = [Self::Exec, Self::Kunit, Self::Boot];

    /// What it measures, in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Exec => {
                "a large executable file of return stubs, called cold and at random: \
                 faults, instructions, bytes read, TLB misses, page walks, leaves"
            }
            Self::Kunit => "the patched kernel's own KUnit suites: which tests pass",
            Self::Boot => "nothing: whether the kernels boot to user space and power off",
            Self::Fault(_) => "a fault on purpose, which the lab must notice",
        }
    }

    /// The variants that it makes sense for.
    pub const fn variants(self) -> &'static [Variant] {
        match self {
            // A pristine kernel has no tests of ours.
            Self::Kunit => &[Variant::Patched],
            Self::Fault(_) => &[Variant::Pristine],
            _ => Variant::ALL,
        }
    }

    /// Whether it runs from a disk.
    pub const fn has_disk(self) -> bool {
        matches!(self, Self::Exec)
    }

    /// Whether the plugin counts.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Exec)
    }

    /// Seconds it may take unless told: many times what it takes on a slow
    /// machine.
    pub const fn time_limit_s(self) -> u32 {
        match self {
            Self::Exec => 600,
            Self::Kunit => 300,
            Self::Boot | Self::Fault(_) => 60,
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec => f.pad("exec"),
            Self::Kunit => f.pad("kunit"),
            Self::Boot => f.pad("boot"),
            Self::Fault(fault) => f.pad(&format!("selftest-{}", fault_name(*fault))),
        }
    }
}

/// The name that the protocol has for it.
fn fault_name(fault: Fault) -> String {
    serde_json::to_value(fault)
        .ok()
        .and_then(|name| name.as_str().map(str::to_string))
        .unwrap_or_default()
}

impl std::str::FromStr for Job {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let faults = Fault::ALL.into_iter().map(Self::Fault);
        Self::ALL
            .into_iter()
            .chain(faults)
            .find(|job| job.to_string() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(|job| job.to_string()).join(", ");
                format!("unknown job '{text}': known are {known}")
            })
    }
}

/// What the guest is asked to do, the same for both variants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The file system of the stub file.
    pub filesystem: Filesystem,
    /// Bytes of the stub file.
    pub size: u64,
    /// Distance between two called stubs.
    pub stride: Stride,
    /// Random calls; `None`: eight per stub.
    pub calls: Option<u64>,
    /// Seed of the random sequence.
    pub seed: u64,
    /// Readahead window of the guest's disk in KiB.
    pub read_ahead_kb: u32,
    /// Name of the CPU profile.
    pub profile: String,
    /// More kernel parameters for the guest.
    pub parameters: String,
    /// Seconds that one guest may take.
    pub time_limit_s: u32,
}

impl Options {
    /// The defaults of the issue: 512 MiB on XFS, a readahead window as NVMe
    /// disks have it.
    pub fn new(job: Job, arch: Arch) -> Self {
        Self {
            filesystem: Filesystem::Xfs,
            size: wideleaf_bench::options::DEFAULT_SIZE,
            stride: Stride::Page,
            calls: None,
            seed: 1,
            read_ahead_kb: 128,
            profile: default_profile(arch).into(),
            parameters: String::new(),
            time_limit_s: job.time_limit_s(),
        }
    }

    /// The image that the job needs.
    pub fn image(&self, arch: Arch) -> Image {
        Image {
            filesystem: self.filesystem,
            arch,
            size: self.size,
        }
    }

    /// Guest memory in bytes: twice what the page cache must hold, so that
    /// reclaim stays away, and room for the kernel.
    pub fn memory(&self, job: Job) -> u64 {
        let file = if job.has_disk() { self.size } else { 0 };
        (2 * file + (1 << 30)).next_multiple_of(1 << 20)
    }

    /// Checks what the guest would refuse, before anything is built.
    ///
    /// # Errors
    ///
    /// A sentence that names the value and what would be right.
    pub fn check(&self, job: Job, page_size: PageSize) -> Result<(), String> {
        if job == Job::Exec {
            let page = page_size.bytes();
            let plan = self.exec().plan(self.size, page);
            plan.map_err(|error| error.to_string())?;
            let window = u64::from(self.read_ahead_kb) << 10;
            if window < page {
                return Err(format!(
                    "--read-ahead {}: below the page size {page_size}; 128K is what NVMe disks have",
                    wideleaf_bench::size::short(window)
                ));
            }
        }
        Ok(())
    }

    fn exec(&self) -> ExecOptions {
        ExecOptions {
            file: Path::new(MOUNT_POINT).join(Image::FILE),
            size: Some(self.size),
            stride: self.stride,
            calls: self.calls,
            seed: self.seed,
            ..ExecOptions::default()
        }
    }

    /// The job as the guest reads it.
    pub fn protocol(&self, job: Job) -> protocol::Job {
        let task = match job {
            Job::Exec => Task::Exec(self.exec()),
            Job::Kunit => Task::Kunit,
            Job::Boot => Task::Boot,
            Job::Fault(fault) => Task::SelftestFault { fault },
        };
        let mut job_file = protocol::Job::new(task, self.time_limit_s);
        job_file.disk = job.has_disk().then(|| Disk {
            mount_point: MOUNT_POINT.into(),
            ..Disk::new(self.filesystem.name(), Some(self.read_ahead_kb))
        });
        job_file
    }
}

/// The profile used unless another is asked for.
pub const fn default_profile(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "neoverse-v2",
        Arch::X86_64 => "zen4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_list_the_public_ones() {
        for job in Job::ALL {
            assert_eq!(job.to_string().parse(), Ok(job));
        }
        assert_eq!(
            "selftest-early-power-off".parse(),
            Ok(Job::Fault(Fault::EarlyPowerOff))
        );
        let error = "exce".parse::<Job>().unwrap_err();
        assert_eq!(error, "unknown job 'exce': known are exec, kunit, boot");
    }

    #[test]
    fn the_default_job_is_the_issues() {
        let job = Options::new(Job::Exec, Arch::Arm64).protocol(Job::Exec);
        let disk = job.disk.unwrap();
        assert_eq!(
            (disk.filesystem.as_str(), disk.read_ahead_kb),
            ("xfs", Some(128))
        );
        let Task::Exec(exec) = job.task else {
            panic!("{:?}", job.task)
        };
        assert_eq!(exec.file, Path::new("/mnt/stubs"));
        assert_eq!(exec.size, Some(512 << 20));
    }

    #[test]
    fn the_page_cache_fits_into_guest_memory() {
        let options = Options::new(Job::Exec, Arch::Arm64);
        assert_eq!(options.memory(Job::Exec), 2 << 30);
        assert_eq!(options.memory(Job::Boot), 1 << 30);
    }

    #[test]
    fn what_cannot_run_is_refused_before_a_kernel_is_built() {
        let mut options = Options::new(Job::Exec, Arch::Arm64);
        options.check(Job::Exec, PageSize::K64).unwrap();
        options.read_ahead_kb = 16;
        let error = options.check(Job::Exec, PageSize::K64).unwrap_err();
        assert!(error.contains("16K") && error.contains("64K"), "{error}");
        options.check(Job::Exec, PageSize::K4).unwrap();
        options.size = (1 << 20) + 4096;
        assert!(options.check(Job::Exec, PageSize::K64).is_err());
    }
}
