// SPDX-License-Identifier: GPL-2.0-only
//! What the user can ask of a job: the options, their names and their words.

use crate::disk::filesystem::Filesystem;
use crate::profiles::default_profile;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use wideleaf_guest::protocol::{Advice, Scenario, Stride};
use wideleaf_kbuild::{Arch, PageSize};
use wideleaf_kit::named;

/// Guest memory of a job that needs little.
pub const MEMORY: u64 = 1 << 30;

/// An option of `lab run`. A job names those that it takes; some are taken by
/// every job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setting {
    /// [`Options::filesystem`].
    Filesystem,
    /// [`Options::size`].
    Size,
    /// [`Options::sizes`].
    Sizes,
    /// [`Options::patterns`].
    Touch,
    /// [`Options::advice`].
    Advice,
    /// [`Options::is_data`].
    Data,
    /// [`Options::fault_around`].
    FaultAround,
    /// [`Options::memory`].
    Memory,
    /// [`Options::memory_limit`].
    MemoryLimit,
    /// [`Options::free_memory`].
    FreeMemory,
    /// [`Options::referee`].
    Referee,
    /// [`Options::fragmented`].
    Fragmented,
    /// [`Options::stride`].
    Stride,
    /// [`Options::calls`].
    Calls,
    /// [`Options::seed`].
    Seed,
    /// [`Options::loads`].
    Loads,
    /// [`Options::programs`].
    Programs,
    /// [`Options::aligned`].
    Align,
    /// [`Options::read_ahead_kb`].
    ReadAhead,
    /// [`Options::profile`].
    Profile,
    /// [`Options::tests`].
    Tests,
    /// [`Options::without`].
    Without,
    /// [`Options::parameters`].
    Append,
    /// [`Options::cpus`].
    Cpus,
    /// [`Options::cpu_model`].
    CpuModel,
    /// [`Options::seconds`].
    Seconds,
    /// [`Options::scenario`].
    Scenario,
    /// [`Options::extras`].
    Extra,
    /// [`Options::plant`].
    Plant,
    /// [`Options::time_limit_s`].
    Timeout,
}

impl Setting {
    /// As the command line has it: `--touch`.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Filesystem => "--fs",
            Self::Size => "--size",
            Self::Sizes => "--sizes",
            Self::Touch => "--touch",
            Self::Advice => "--advice",
            Self::Data => "--data",
            Self::FaultAround => "--fault-around",
            Self::Memory => "--memory",
            Self::MemoryLimit => "--memory-limit",
            Self::FreeMemory => "--free-memory",
            Self::Referee => "--referee",
            Self::Fragmented => "--fragmented",
            Self::Stride => "--stride",
            Self::Calls => "--calls",
            Self::Seed => "--seed",
            Self::Loads => "--loads",
            Self::Programs => "--programs",
            Self::Align => "--align",
            Self::ReadAhead => "--read-ahead",
            Self::Profile => "--profile",
            Self::Tests => "--tests",
            Self::Without => "--without",
            Self::Append => "--append",
            Self::Cpus => "--cpus",
            Self::CpuModel => "--cpu-model",
            Self::Seconds => "--seconds",
            Self::Scenario => "--scenario",
            Self::Extra => "--extra",
            Self::Plant => "--plant",
            Self::Timeout => "--timeout",
        }
    }

    /// Whether every job takes it: it is about the kernels, the guest or who
    /// looks on, not about the work.
    pub const fn is_common(self) -> bool {
        matches!(
            self,
            Self::Referee
                | Self::Cpus
                | Self::CpuModel
                | Self::Profile
                | Self::Append
                | Self::Extra
                | Self::Plant
                | Self::Timeout
        )
    }
}

named!(
    /// What an arm64 guest's CPUs say that they are; others have one model.
    CpuModel, "CPU model", {
        /// All that QEMU can emulate.
        Max = "max",
        /// The same, and of a make that kernels know to change the size of leaves live.
        Bbm = "bbm",
        /// Such, but with addresses of 48 bits where pages have less than 64K: no FEAT_LPA2.
        BbmNoLpa2 = "bbm-no-lpa2",
        /// Such, on a machine whose memory has tags (FEAT_MTE2).
        BbmMte = "bbm-mte",
        /// The first, of which the referee takes no FEAT_ETS2 for granted.
        NoEts2 = "no-ets2",
    }
);

#[allow(clippy::derivable_impls, reason = "the enum is made by a macro")]
impl Default for CpuModel {
    fn default() -> Self {
        Self::Max
    }
}

/// The CPUs of every guest before there was an option for them.
const fn one() -> u32 {
    1
}

/// What the guest is asked to do, the same for all variants. Options that were
/// added later have a default, so that older results can be read.
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
    /// What the kernel is told of the sparse job's mapping.
    #[serde(default)]
    pub advice: Option<Advice>,
    /// Whether the sparse job reads its file instead of executing it.
    #[serde(default)]
    pub is_data: bool,
    /// What is written to `fault_around_bytes` before the sparse job begins; `None`: nothing.
    #[serde(default)]
    pub fault_around: Option<u64>,
    /// Guest memory in bytes; `None`: what the job needs.
    #[serde(default)]
    pub memory: Option<u64>,
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
    /// Whether the programs and libraries on the disk were given to `wideleaf align`.
    #[serde(default)]
    pub aligned: bool,
    /// CPUs of the guest.
    #[serde(default = "one")]
    pub cpus: u32,
    /// What the guest's CPUs say that they are.
    #[serde(default)]
    pub cpu_model: CpuModel,
    /// Seconds that the storm job lasts.
    #[serde(default)]
    pub seconds: u32,
    /// What is played in the storm job.
    #[serde(default)]
    pub scenario: Scenario,
    /// Further fragments of `kernel/config` for the kernels.
    #[serde(default)]
    pub extras: Vec<String>,
    /// The fault of `kernel/planted` that the patched kernel has.
    #[serde(default)]
    pub plant: Option<String>,
    /// Readahead window of the guest's disk in KiB.
    pub read_ahead_kb: u32,
    /// Name of the CPU profile.
    pub profile: String,
    /// Categories of the base's selftests, separated by blanks; empty for all.
    pub tests: String,
    /// Programs of the base's selftests that are not run, separated by blanks.
    pub without: String,
    /// Whether the referee looks on.
    #[serde(default)]
    pub referee: bool,
    /// More kernel parameters for the guest.
    pub parameters: String,
    /// Seconds that one guest may take.
    pub time_limit_s: u32,
}

impl Options {
    /// Those of a job that sets none by itself: XFS, and a readahead window as
    /// NVMe disks have it.
    pub fn of(arch: Arch) -> Self {
        Self {
            filesystem: Filesystem::Xfs,
            size: wideleaf_bench::options::DEFAULT_SIZE,
            sizes: Vec::new(),
            patterns: Vec::new(),
            advice: None,
            is_data: false,
            fault_around: None,
            memory: None,
            memory_limit: None,
            free_memory: None,
            fragmented: false,
            stride: Stride::Page,
            calls: None,
            seed: 1,
            loads: 0,
            programs: Vec::new(),
            aligned: false,
            cpus: 1,
            cpu_model: CpuModel::Max,
            seconds: 0,
            scenario: Scenario::All,
            extras: Vec::new(),
            plant: None,
            read_ahead_kb: 128,
            profile: default_profile(arch).into(),
            tests: String::new(),
            without: String::new(),
            referee: false,
            parameters: String::new(),
            time_limit_s: 60,
        }
    }

    /// Each option as words of a command line; no words where it is not set.
    pub fn words(&self) -> Vec<(Setting, Vec<String>)> {
        // By name, so that no option is forgotten here.
        let Self {
            filesystem,
            size,
            sizes,
            patterns,
            advice,
            is_data,
            fault_around,
            memory,
            memory_limit,
            free_memory,
            fragmented,
            stride,
            calls,
            seed,
            loads,
            programs,
            aligned,
            cpus,
            cpu_model,
            seconds,
            scenario,
            extras,
            plant,
            read_ahead_kb,
            profile,
            tests,
            without,
            referee,
            parameters,
            time_limit_s,
        } = self;
        let extras = extras.iter().map(String::as_str);
        [
            value(Setting::Filesystem, filesystem),
            value(Setting::Size, size),
            value(Setting::Sizes, joined(sizes)),
            value(Setting::Touch, joined(patterns)),
            value(Setting::Advice, optional(advice)),
            switch(Setting::Data, *is_data),
            value(Setting::FaultAround, optional(fault_around)),
            value(Setting::Memory, optional(memory)),
            value(Setting::MemoryLimit, optional(memory_limit)),
            value(Setting::FreeMemory, optional(free_memory)),
            switch(Setting::Referee, *referee),
            switch(Setting::Fragmented, *fragmented),
            value(Setting::Stride, stride),
            value(Setting::Calls, optional(calls)),
            value(Setting::Seed, seed),
            value(Setting::Loads, loads),
            value(Setting::Programs, joined(programs)),
            switch(Setting::Align, *aligned),
            value(Setting::ReadAhead, format!("{read_ahead_kb}K")),
            value(Setting::Profile, profile),
            value(Setting::Tests, tests),
            value(Setting::Without, without),
            value(Setting::Append, parameters),
            value(Setting::Cpus, cpus),
            value(Setting::CpuModel, cpu_model),
            value(Setting::Seconds, seconds),
            value(Setting::Scenario, scenario.name()),
            (
                Setting::Extra,
                extras
                    .flat_map(|extra| ["--extra", extra])
                    .map(String::from)
                    .collect(),
            ),
            value(Setting::Plant, optional(plant)),
            value(Setting::Timeout, time_limit_s),
        ]
        .into()
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
                wideleaf_kit::size::short(window)
            ));
        }
        Ok(())
    }
}

fn value(setting: Setting, value: impl Display) -> (Setting, Vec<String>) {
    let value = value.to_string();
    let words = match value.as_str() {
        "" => Vec::new(),
        _ => vec![setting.flag().to_string(), value],
    };
    (setting, words)
}

fn switch(setting: Setting, on: bool) -> (Setting, Vec<String>) {
    let words = on.then(|| setting.flag().to_string());
    (setting, words.into_iter().collect())
}

fn optional(value: &Option<impl Display>) -> String {
    value.as_ref().map_or_else(String::new, ToString::to_string)
}

/// A list as the command line takes it.
pub fn joined(list: &[impl Display]) -> String {
    let texts: Vec<_> = list.iter().map(ToString::to_string).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_there_once_under_its_own_name() {
        let words = Options::of(Arch::Arm64).words();
        let flags: std::collections::BTreeSet<_> =
            words.iter().map(|(setting, _)| setting.flag()).collect();
        assert_eq!(flags.len(), words.len());
        for (setting, words) in words {
            assert!(
                words.first().is_none_or(|word| word == setting.flag()),
                "{words:?}"
            );
        }
    }
}
