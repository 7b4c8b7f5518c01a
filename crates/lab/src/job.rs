// SPDX-License-Identifier: GPL-2.0-only
//! What all jobs have in common.
//!
//! A job says what the guest is asked to do, which figures its answer has, and
//! how the table shows them. The jobs themselves are in `jobs/`.

use crate::disk::Contents;
use crate::options::{MEMORY, Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use anyhow::Result;
use std::fmt;
use wideleaf_guest::protocol::{self, Disk, MemoryPressure, Outcome, Task};
use wideleaf_kbuild::{Arch, PageSize, Variant};

/// Where the guest mounts its disk.
pub const MOUNT_POINT: &str = "/mnt";

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

    /// The kernels that it makes sense with: a job that compares takes any.
    fn possible_variants(&self) -> &'static [Variant] {
        match self.variants() {
            [_] => self.variants(),
            _ => Variant::ALL,
        }
    }

    /// The options that it takes besides those that every job takes
    /// ([`Setting::is_common`]); others are refused.
    fn settings(&self) -> &'static [Setting] {
        &[]
    }

    /// Sets what its options are unless told.
    fn defaults(&self, _options: &mut Options) {}

    /// Requests a second that the guest's disk answers; `None`: as many as it can.
    fn disk_rate(&self, _options: &Options) -> Option<u32> {
        None
    }

    /// Whether the plugin counts.
    fn counts(&self) -> bool {
        false
    }

    /// Fragments of `kernel/config` that its kernels need besides the usual.
    fn fragments(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether its programs are made from the base's source.
    fn builds_from_base(&self) -> bool {
        false
    }

    /// Seconds it may take unless told: many times what it takes on a slow
    /// machine.
    fn time_limit_s(&self) -> u32;

    /// Guest memory in bytes.
    fn memory(&self, _options: &Options) -> u64 {
        MEMORY
    }

    /// How much of it the job uses; the rest takes nothing from the host.
    fn memory_used(&self, options: &Options) -> u64 {
        self.memory(options)
    }

    /// Bytes of memory that the guest may ask for while it runs; `None`: it does not.
    fn pluggable(&self, _options: &Options) -> Option<u64> {
        None
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
    fn figures(&self, _run: &BootResult, _figures: &mut Figures) {}

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

/// Whether a job takes an option.
pub fn takes(job: &dyn Job, setting: Setting) -> bool {
    setting.is_common() || job.settings().contains(&setting)
}

/// The options of a job unless told.
pub fn usual(job: &dyn Job, arch: Arch) -> Options {
    let mut options = Options {
        time_limit_s: job.time_limit_s(),
        ..Options::of(arch)
    };
    job.defaults(&mut options);
    options
}

/// The job as the guest reads it.
pub fn for_guest(job: &dyn Job, options: &Options) -> protocol::Job {
    let mut file = protocol::Job::new(job.task(options), options.time_limit_s);
    file.memory = MemoryPressure {
        limit: options.memory_limit,
        free: options.free_memory,
        fragmented: options.fragmented,
    };
    file.disk = job.contents(options).map(|contents| Disk {
        mount_point: MOUNT_POINT.into(),
        writable: contents.is_written(),
        ..Disk::new(options.filesystem.name(), Some(options.read_ahead_kb))
    });
    file
}
