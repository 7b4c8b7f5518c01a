// SPDX-License-Identifier: GPL-2.0-only
//! What can be run in a guest, and with which options.
//!
//! A job is one file, `job_<name>.rs`: what the guest is asked to do, which
//! figures its answer has, how the table shows them. To add one, write that
//! file, name it in [`JOBS`], and give the guest its task (`protocol::Task`
//! and `Outcome`, dispatched in the guest's `task.rs`).

use crate::disk::Contents;
use crate::expect::Verdict;
use crate::figures::Figures;
use crate::image::Filesystem;
use crate::results::{Comparison, Run};
use crate::table::Row;
use crate::{
    job_boot, job_entropy, job_exec, job_fault, job_kunit, job_mm_selftests, job_program,
    job_sizes, job_sparse,
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use wideleaf_guest::protocol::{self, Disk, MemoryPressure, Outcome, Stride, Task};
use wideleaf_kernel::{Arch, PageSize, Variant};

/// Where the guest mounts its disk.
pub const MOUNT_POINT: &str = "/mnt";

/// The jobs that users are told of.
pub const JOBS: [&dyn Job; 8] = [
    &job_exec::Exec,
    &job_sizes::ExecSizes,
    &job_sparse::Sparse,
    &job_program::Programs,
    &job_entropy::Entropy,
    &job_mm_selftests::MmSelftests,
    &job_kunit::Kunit,
    &job_boot::Boot,
];

/// Guest memory of a job that needs little.
pub const MEMORY: u64 = 1 << 30;

/// A job.
pub trait Job: fmt::Debug + Sync {
    /// As `--job` takes it.
    fn name(&self) -> String;

    /// What it measures, in one line.
    fn about(&self) -> &'static str;

    /// The kernels that it runs with unless others are asked for.
    fn variants(&self) -> &'static [Variant] {
        &[Variant::Pristine, Variant::Patched]
    }

    /// Whether the plugin counts.
    fn counts(&self) -> bool {
        false
    }

    /// Fragments of `kernel/config` that its kernels need besides the usual.
    fn fragments(&self) -> &'static [&'static str] {
        &[]
    }

    /// Seconds it may take unless told: many times what it takes on a slow
    /// machine.
    fn time_limit_s(&self) -> u32;

    /// Bytes of its stub file unless told.
    fn default_size(&self) -> u64 {
        wideleaf_bench::options::DEFAULT_SIZE
    }

    /// Guest memory in bytes.
    fn memory(&self, _options: &Options) -> u64 {
        MEMORY
    }

    /// Checks what the guest would refuse, before anything is built.
    ///
    /// # Errors
    ///
    /// A sentence that names the value and what would be right.
    fn check(&self, _options: &Options, _page_size: PageSize) -> Result<(), String> {
        Ok(())
    }

    /// What the disk holds that the guest mounts; `None`: it has none.
    fn contents(&self, _options: &Options) -> Option<Contents> {
        None
    }

    /// What the guest is asked to do.
    fn task(&self, options: &Options) -> Task;

    /// Whether what it found is a success; what is not ends the run.
    ///
    /// # Errors
    ///
    /// What failed.
    fn judge(&self, _outcome: &Outcome) -> Result<()> {
        Ok(())
    }

    /// Whether what all runs found fits together; what does not ends the run.
    ///
    /// # Errors
    ///
    /// What differs that must not.
    fn agree(&self, _comparison: &Comparison) -> Result<()> {
        Ok(())
    }

    /// What is expected of every comparison, without being asked for.
    fn verdicts(&self, _comparison: &Comparison) -> Vec<Verdict> {
        Vec::new()
    }

    /// What a reader of the figures must know.
    fn warnings(&self, _outcome: &Outcome) -> Vec<String> {
        Vec::new()
    }

    /// The comparable numbers of a run, besides those of its phases.
    fn figures(&self, _run: &Run, _figures: &mut Figures) {}

    /// The figures of the table, by which `spread` is judged. Others can be
    /// next to nothing: one timer interrupt more is all there is of the
    /// kernel's instructions during the random calls.
    fn is_headline(&self, _figure: &str) -> bool {
        false
    }

    /// The table's title, up to where it names the machine.
    fn title(&self, _comparison: &Comparison) -> String {
        format!("{}:", self.name())
    }

    /// The table's rows.
    fn rows(&self, comparison: &Comparison) -> Vec<Row>;

    /// Lines below the table.
    fn notes(&self, _comparison: &Comparison) -> Vec<String> {
        Vec::new()
    }
}

impl fmt::Display for dyn Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

/// The job of this name.
///
/// # Errors
///
/// A sentence that lists the known ones.
pub fn find(name: &str) -> Result<&'static dyn Job, String> {
    let faults = job_fault::FAULTS.iter().map(|fault| fault as &dyn Job);
    JOBS.into_iter()
        .chain(faults)
        .find(|job| job.name() == name)
        .ok_or_else(|| {
            let known = JOBS.map(|job| job.name()).join(", ");
            format!("unknown job '{name}': known are {known}")
        })
}

/// What the guest is asked to do, the same for all variants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The file system of the stub file.
    pub filesystem: Filesystem,
    /// Bytes of the stub file.
    pub size: u64,
    /// Bytes of the stub files of the exec-sizes job.
    pub sizes: Vec<u64>,
    /// What the sparse job executes.
    pub patterns: Vec<String>,
    /// memory.max of the job's cgroup in bytes; `None`: it has none of its own.
    pub memory_limit: Option<u64>,
    /// Bytes free above the high watermarks when the job begins; `None`: all
    /// that there is.
    pub free_memory: Option<u64>,
    /// Whether what is free is single pages.
    pub fragmented: bool,
    /// Distance between two called stubs.
    pub stride: Stride,
    /// Random calls; `None`: eight per stub.
    pub calls: Option<u64>,
    /// Seed of the random sequence.
    pub seed: u64,
    /// How often the entropy job loads each case.
    pub loads: u32,
    /// Which programs the program job runs; none: all of them.
    pub programs: Vec<String>,
    /// Readahead window of the guest's disk in KiB.
    pub read_ahead_kb: u32,
    /// Name of the CPU profile.
    pub profile: String,
    /// Categories of the base's selftests, separated by blanks; empty for all.
    pub tests: String,
    /// Programs of the base's selftests that are not run, separated by blanks.
    pub without: String,
    /// More kernel parameters for the guest.
    pub parameters: String,
    /// Seconds that one guest may take.
    pub time_limit_s: u32,
}

impl Options {
    /// The defaults of the issue: 512 MiB on XFS, a readahead window as NVMe
    /// disks have it.
    pub fn new(job: &dyn Job, arch: Arch) -> Self {
        Self {
            filesystem: Filesystem::Xfs,
            size: job.default_size(),
            sizes: job_sizes::SIZES.to_vec(),
            patterns: job_sparse::PATTERNS.map(String::from).to_vec(),
            memory_limit: None,
            free_memory: None,
            fragmented: false,
            stride: Stride::Page,
            calls: None,
            seed: 1,
            loads: 1000,
            programs: Vec::new(),
            read_ahead_kb: 128,
            profile: default_profile(arch).into(),
            tests: String::new(),
            without: String::new(),
            parameters: String::new(),
            time_limit_s: job.time_limit_s(),
        }
    }

    /// Whether reclaim is part of what is measured.
    pub fn is_scarce(&self) -> bool {
        self.memory_limit.is_some() || self.free_memory.is_some()
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

    /// The readahead window in bytes.
    pub fn window(&self) -> u64 {
        u64::from(self.read_ahead_kb) << 10
    }

    /// Checks the readahead window, which a kernel rounds to whole pages
    /// without a word.
    ///
    /// # Errors
    ///
    /// If it is less than a page.
    pub fn check_window(&self, page_size: PageSize) -> Result<(), String> {
        let window = self.window();
        if window < page_size.bytes() {
            return Err(format!(
                "--read-ahead {}: below the page size {page_size}; 128K is what NVMe disks have",
                wideleaf_size::short(window)
            ));
        }
        Ok(())
    }

    /// The job as the guest reads it.
    pub fn protocol(&self, job: &dyn Job) -> protocol::Job {
        let mut job_file = protocol::Job::new(job.task(self), self.time_limit_s);
        job_file.memory = MemoryPressure {
            limit: self.memory_limit,
            free: self.free_memory,
            fragmented: self.fragmented,
        };
        job_file.disk = job.contents(self).map(|contents| Disk {
            mount_point: MOUNT_POINT.into(),
            writable: contents.is_written(),
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
        for job in JOBS {
            assert_eq!(find(&job.name()).unwrap().name(), job.name());
        }
        let fault = find("selftest-early-power-off").unwrap();
        assert_eq!(fault.name(), "selftest-early-power-off");
        let error = find("exce").unwrap_err();
        assert!(
            error.starts_with("unknown job 'exce': known are exec, "),
            "{error}"
        );
        assert!(!error.contains("selftest-hang"), "{error}");
    }

    #[test]
    fn a_disk_is_mounted_where_there_is_one() {
        for job in JOBS {
            let options = Options::new(job, Arch::Arm64);
            let has_disk = job.contents(&options).is_some();
            assert_eq!(options.protocol(job).disk.is_some(), has_disk);
        }
    }
}
