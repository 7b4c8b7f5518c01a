// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark: a large file of return stubs, called cold and at random.

use crate::disk::Contents;
use crate::disk::image::Image;
use crate::job::{Job, MOUNT_POINT};
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison};
use std::path::Path;
use wideleaf_bench::report::{ExecReport, PhaseReport};
use wideleaf_bench::system::reclaim_unit;
use wideleaf_guest::protocol::{COVERAGE_TEXT, ExecOptions, Outcome, Task};
use wideleaf_kbuild::PageSize;
use wideleaf_kit::size::{long, short};

/// The table's rows: section, label, figures. Several figures stand in one
/// cell, with a slash between.
const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "cold",
        "faults (minor/major)",
        &["cold.minor_faults", "cold.major_faults"],
    ),
    ("cold", "guest instructions", &["cold.instructions"]),
    ("cold", "bytes read from disk", &["cold.read_bytes"]),
    ("cold", "time under emulation (not speed)", &[]),
    ("random", "L1 iTLB misses", &["random.itlb_l1_misses"]),
    ("random", "page walks", &["random.walks"]),
];

/// Rows of each phase where memory is scarce.
const SCARCE_ROWS: &[(&str, &[&str])] = &[
    ("faults (minor/major)", &["minor_faults", "major_faults"]),
    ("bytes read from disk", &["read_bytes"]),
    ("pages scanned directly", &["direct_scans"]),
    ("pages scanned by kswapd", &["kswapd_scans"]),
    ("stalls in direct reclaim", &["direct_stalls"]),
    ("limit hits", &["limit_hits"]),
    ("OOM kills", &["oom_kills"]),
];

/// What a job takes that calls stubs in files, whose size or sizes `size` is.
pub(super) const fn settings(size: Setting) -> [Setting; 9] {
    [
        Setting::Filesystem,
        size,
        Setting::MemoryLimit,
        Setting::FreeMemory,
        Setting::Fragmented,
        Setting::Stride,
        Setting::Calls,
        Setting::Seed,
        Setting::ReadAhead,
    ]
}

/// The job.
#[derive(Debug)]
pub struct Exec;

impl Job for Exec {
    fn name(&self) -> String {
        "exec".into()
    }

    fn about(&self) -> &'static str {
        "a large executable file of return stubs, called cold and at random: \
         faults, instructions, bytes read, TLB misses, page walks, leaves"
    }

    fn counts(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static [Setting] {
        &const { settings(Setting::Size) }
    }

    fn time_limit_s(&self) -> u32 {
        600
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory(options.size)
    }

    fn check(&self, options: &Options, page_size: PageSize) -> Result<(), String> {
        let plan = exec_options(options, options.size).plan(options.size, page_size.bytes());
        plan.map_err(|error| error.to_string())?;
        options.check_window(page_size)
    }

    fn contents(&self, options: &Options) -> Option<Contents> {
        Some(Contents::Stubs(vec![options.size]))
    }

    fn task(&self, options: &Options) -> Task {
        Task::Exec(exec_options(options, options.size))
    }

    fn warnings(&self, outcome: &Outcome) -> Vec<String> {
        report(outcome).map_or_else(Vec::new, |report| report.warnings.clone())
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        if let Some(report) = report(&run.outcome) {
            phases(figures, "", report);
        }
        figures.put_text("", run, COVERAGE_TEXT);
    }

    fn is_headline(&self, figure: &str) -> bool {
        ROWS.iter().any(|(.., names)| names.contains(&figure))
    }

    fn title(&self, comparison: &Comparison) -> String {
        let options = &comparison.options;
        let filesystem = options.filesystem.title();
        let mut title = format!(
            "exec text: {} of return stubs, {filesystem},",
            long(options.size)
        );
        if let Some(limit) = options.memory_limit {
            title += &format!(" memory.max {},", short(limit));
        }
        if let Some(free) = options.free_memory {
            let pages = if options.fragmented {
                " in single pages"
            } else {
                ""
            };
            title += &format!(" {} free{pages},", short(free));
        }
        title
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let mut rows: Vec<Row> = ROWS
            .iter()
            .map(|(section, label, figures)| match figures {
                [] => time_row(comparison, section, label),
                figures => Row::figures(comparison, section, label, figures),
            })
            .collect();
        if comparison.options.is_scarce() {
            rows.extend(scarce_rows(comparison));
        }
        rows.push(Row::leaves(
            comparison,
            "text mapped by leaf",
            "",
            COVERAGE_TEXT,
        ));
        rows
    }

    fn notes(&self, comparison: &Comparison) -> Vec<String> {
        let Some(report) = comparison.runs.first().and_then(|run| report(&run.outcome)) else {
            return Vec::new();
        };
        let options = &comparison.options;
        let calls = report.random.as_ref().map_or(0, |random| random.calls);
        let mut notes = vec![format!(
            "  stride {}, {calls} random calls, seed {}, readahead window {}",
            short(report.stride),
            report.seed,
            short(options.window()),
        )];
        notes.extend(no_large_folios(comparison));
        notes
    }
}

/// What scarce memory made of both phases.
fn scarce_rows(comparison: &Comparison) -> Vec<Row> {
    let mut rows = Vec::new();
    for phase in ["cold", "random"] {
        for (label, figures) in SCARCE_ROWS {
            // The cold phase's are shown anyway.
            if phase == "cold" && ["minor_faults", "read_bytes"].contains(&figures[0]) {
                continue;
            }
            let names: Vec<_> = figures
                .iter()
                .map(|name| format!("{phase}.{name}"))
                // A limit's hits are there only with a limit.
                .filter(|name| comparison.figures.contains_key(name))
                .collect();
            if !names.is_empty() {
                let section = format!("{phase}, reclaim");
                rows.push(Row::figures(comparison, &section, label, &names));
            }
        }
    }
    rows
}

/// Where the file system spoils it all.
pub fn no_large_folios(comparison: &Comparison) -> Option<String> {
    let (filesystem, base) = (comparison.options.filesystem, comparison.base);
    (!filesystem.has_large_folios(base)).then(|| {
        format!(
            "  note: {} has no large folios in Linux {base}, so no kernel can map its files by wide leaves",
            filesystem.title(),
        )
    })
}

/// The benchmark on the file of this size.
pub fn exec_options(options: &Options, size: u64) -> ExecOptions {
    ExecOptions {
        file: Path::new(MOUNT_POINT).join(Image::file(size)),
        size: Some(size),
        stride: options.stride,
        calls: options.calls,
        seed: options.seed,
        ..ExecOptions::default()
    }
}

fn report(outcome: &Outcome) -> Option<&ExecReport> {
    match outcome {
        Outcome::Exec { report, .. } => Some(report),
        _ => None,
    }
}

/// What the guest counted, under `cold` and `random` after `prefix`.
pub fn phases(figures: &mut Figures, prefix: &str, report: &ExecReport) {
    let phases = [
        ("cold", report.cold.as_ref().map(|cold| &cold.phase)),
        ("random", report.random.as_ref()),
    ];
    for (name, phase) in phases {
        if let Some(phase) = phase {
            guest_phase(figures, &format!("{prefix}{name}"), phase);
        }
    }
}

/// What the guest counted in one phase.
pub fn guest_phase(figures: &mut Figures, name: &str, phase: &PhaseReport) {
    let mut put = |what: &str, unit, value| figures.put(format!("{name}.{what}"), unit, value);
    put("calls", "calls", phase.calls);
    put("minor_faults", "faults", phase.faults.minor);
    put("major_faults", "faults", phase.faults.major);
    put("faults", "faults", phase.faults.minor + phase.faults.major);
    if let Some(bytes) = phase.read_bytes.value() {
        put("read_bytes", "bytes", bytes);
    }
    for (counter, count) in &phase.reclaim {
        put(counter, reclaim_unit(counter), *count);
    }
}

fn time_row(comparison: &Comparison, section: &str, label: &str) -> Row {
    Row::text(comparison, section, label, |run| {
        let phase = run.phases.iter().find(|phase| phase.name == section);
        let wall = phase.and_then(|phase| phase.wall_s);
        wall.map_or("-".into(), |wall| format!("{wall:.2} s"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{for_guest, usual};
    use wideleaf_kbuild::Arch;

    #[test]
    fn the_default_job_is_the_issues() {
        let job = for_guest(&Exec, &usual(&Exec, Arch::Arm64));
        let disk = job.disk.unwrap();
        assert_eq!(
            (disk.filesystem.as_str(), disk.read_ahead_kb),
            ("xfs", Some(128))
        );
        let Task::Exec(exec) = job.task else {
            panic!("{:?}", job.task)
        };
        assert_eq!(exec.file, Path::new("/mnt/stubs-512M"));
        assert_eq!(exec.size, Some(512 << 20));
    }

    #[test]
    fn the_page_cache_fits_into_guest_memory() {
        let options = usual(&Exec, Arch::Arm64);
        assert_eq!(Exec.memory(&options), 2 << 30);
    }

    #[test]
    fn what_cannot_run_is_refused_before_a_kernel_is_built() {
        let mut options = usual(&Exec, Arch::Arm64);
        Exec.check(&options, PageSize::K64).unwrap();
        options.read_ahead_kb = 16;
        let error = Exec.check(&options, PageSize::K64).unwrap_err();
        assert!(error.contains("16K") && error.contains("64K"), "{error}");
        Exec.check(&options, PageSize::K4).unwrap();
        options.size = (1 << 20) + 4096;
        assert!(Exec.check(&options, PageSize::K64).is_err());
    }
}
