// SPDX-License-Identifier: GPL-2.0-only
//! Text that is called or read, on a disk: the jobs exec, exec-sizes, sparse and program.

use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::Path;
use wideleaf_bench::options::{ExecOptions, Stride};
use wideleaf_bench::report::{ExecReport, PhaseReport};
use wideleaf_kbuild::Base;
use wideleaf_lab::disk::filesystem::Filesystem;
use wideleaf_lab::disk::image::Image;
use wideleaf_lab::options::{Fs, ReadAhead, Scarce, Seed};
use wideleaf_lab::plan::MOUNT_POINT;
use wideleaf_lab::results::figures::{Figure, Figures, figure};

/// For jobs whose text may become wide after its first touch.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// Seconds of sleep at the end of each cold phase, in which the kernel's threads go on
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    #[serde(default)]
    pub settle: u32,
}

impl Settle {
    /// Its words in a job's title.
    pub fn title(self) -> String {
        match self.settle {
            0 => String::new(),
            seconds => format!(" {seconds} s to settle,"),
        }
    }
}

/// What a job takes that calls stubs in files.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallsStubs {
    /// Distance between two called stubs: page, or a multiple of 4K
    #[arg(long, default_value = "page")]
    #[serde(with = "stride")]
    pub stride: Stride,
    /// Random calls [default: eight per stub]
    #[arg(long, value_name = "N")]
    pub calls: Option<u64>,
    /// The random sequence.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
    /// Its time.
    #[command(flatten)]
    #[serde(flatten)]
    pub settle: Settle,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub scarce: Scarce,
}

impl CallsStubs {
    /// The benchmark on the file of this size.
    pub fn on_file(&self, size: u64) -> ExecOptions {
        ExecOptions {
            file: stub_file(size).into(),
            size: Some(size),
            stride: self.stride,
            calls: self.calls,
            seed: self.seed.seed,
            settle_s: self.settle.settle,
            ..ExecOptions::default()
        }
    }
}

/// A stride as the command line has it.
mod stride {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use wideleaf_bench::options::Stride;

    pub fn serialize<S: Serializer>(stride: &Stride, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(stride)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Stride, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Where the guest finds the stub file of this size.
pub fn stub_file(size: u64) -> String {
    let path = Path::new(MOUNT_POINT).join(Image::file(size));
    path.display().to_string()
}

/// Where the file system spoils it all.
pub fn no_large_folios(filesystem: Filesystem, base: Base) -> Option<String> {
    (!filesystem.has_large_folios(base)).then(|| {
        format!(
            "  note: {} has no large folios in Linux {base}: only khugepaged makes its text wide, with \
             CONFIG_READ_ONLY_THP_FOR_FS",
            filesystem.title(),
        )
    })
}

/// What reclaim does in a phase: [`wideleaf_bench::exec::ReclaimCounter`].
#[rustfmt::skip]
pub const RECLAIM: [Figure; 6] = [
    figure("<phase>.direct_scans", "pages", "looked at by reclaim of tasks that need memory; of the job's cgroup if it has one, else of the machine"),
    figure("<phase>.kswapd_scans", "pages", "looked at by kswapd"),
    figure("<phase>.scans", "pages", "looked at by both"),
    figure("<phase>.direct_stalls", "stalls", "allocations that had to reclaim by themselves, of the machine"),
    figure("<phase>.limit_hits", "hits", "how often the job's cgroup was at its limit (`max` of memory.events); only with a limit"),
    figure("<phase>.oom_kills", "kills", "by the kernel, of the machine"),
];

/// Says of the figure `read_requests`, which stands below `read_bytes`, how it is counted.
pub const REQUESTS: &str = "that this took, those that the kernel merged counted as one";

/// Faults and reads of a phase: names of the figures that [`guest_phase`] puts.
#[rustfmt::skip]
pub const PHASE: [Figure; 6] = [
    figure("<phase>.calls", "calls", "of stubs"),
    figure("<phase>.minor_faults", "faults", "of the job's process, without reading from the disk"),
    figure("<phase>.major_faults", "faults", "with reading"),
    figure("<phase>.faults", "faults", "both"),
    figure("<phase>.read_bytes", "bytes", "read from the guest's disk"),
    figure("<phase>.read_requests", "requests", REQUESTS),
];

/// One of [`PHASE`] under the name of a phase, to be shown.
///
/// # Panics
///
/// If there is none.
pub fn of_phase(name: &'static str) -> Figure {
    let known = PHASE.iter().find(|figure| figure.is(name));
    Figure {
        name,
        ..known.unwrap_or_else(|| panic!("{name}")).clone()
    }
}

/// All of [`PHASE`] and [`RECLAIM`], for those that no row shows.
pub fn rest() -> impl Iterator<Item = Figure> {
    PHASE.into_iter().chain(RECLAIM)
}

/// The benchmark's phases that ran, by the lab's names.
pub fn named_phases(report: &ExecReport) -> impl Iterator<Item = (&'static str, &PhaseReport)> {
    let cold = report.cold.as_ref().map(|cold| ("cold", &cold.phase));
    let random = report.random.as_ref().map(|random| ("random", random));
    cold.into_iter().chain(random)
}

/// What the guest counted, under `cold` and `random` after `prefix`.
pub fn phases(figures: &mut Figures, prefix: &str, report: &ExecReport) {
    for (name, phase) in named_phases(report) {
        guest_phase(figures, &format!("{prefix}{name}"), phase);
    }
}

/// What the guest counted in one phase.
pub fn guest_phase(figures: &mut Figures, name: &str, phase: &PhaseReport) {
    let mut put = |what: &str, value| figures.put(format!("{name}.{what}"), value);
    put("calls", phase.calls);
    put("minor_faults", phase.faults.minor);
    put("major_faults", phase.faults.major);
    put("faults", phase.faults.minor + phase.faults.major);
    if let Some(bytes) = phase.read_bytes.value() {
        put("read_bytes", bytes);
    }
    if let Some(requests) = phase.read_requests {
        put("read_requests", requests);
    }
    for (counter, count) in &phase.reclaim {
        put(counter, *count);
    }
}
