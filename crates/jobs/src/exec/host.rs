// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Report, Task};
use crate::kit::text::{self, CallsStubs, no_large_folios, of_phase};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_bench::options::{Cached, ExecOptions};
use wideleaf_kit::size::{long, parse, short};
use wideleaf_lab::choices;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::figures::{self, Figure, Figures, counted};
use wideleaf_lab::results::row::Row;

/// The job.
#[derive(Debug)]
pub struct Exec;

/// The registry's entry.
pub const JOB: Exec = Exec;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Size of the stub file
    #[arg(long, default_value = "512M", value_parser = parse)]
    pub size: u64,
    /// How the page cache is filled with it before the cold phase [default: not at all]
    #[arg(long, value_name = "HOW", value_parser = choices!(Cached))]
    pub cached: Option<Cached>,
    /// Threads that do the cold sweep at once, each all of it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    #[serde(default = "one")]
    pub threads: u32,
    /// Memory that --free-memory takes is free again two seconds after the cold sweep, before
    /// --settle
    #[arg(long, requires = "free_memory")]
    #[serde(default)]
    pub freed: bool,
    /// What is called.
    #[command(flatten)]
    #[serde(flatten)]
    pub calls: CallsStubs,
}

fn one() -> u32 {
    1
}

/// What the guest calls the file's mapping in its coverage record.
const COVERAGE_TEXT: u64 = 1;

/// Rows of each phase where memory is scarce.
const SCARCE_ROWS: &[(&str, &[&str])] = &[
    ("faults (minor/major)", &["minor_faults", "major_faults"]),
    ("bytes read from disk", &["read_bytes"]),
    ("requests to the disk", &["read_requests"]),
    ("pages scanned directly", &["direct_scans"]),
    ("pages scanned by kswapd", &["kswapd_scans"]),
    ("stalls in direct reclaim", &["direct_stalls"]),
    ("limit hits", &["limit_hits"]),
    ("OOM kills", &["oom_kills"]),
];

impl Job for Exec {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &[
                "exec",
                "exec --base all --page-size all --json results.json",
                "exec --size 64M --expect 'random.walks<=1%' --expect 'cold.faults<=5%'",
                "exec --variants pristine,fixes,aligned,reads,khugepaged,patched",
                "exec --size 256M --memory-limit 64M --calls 4096",
                "exec --arch x86_64 --fs ext4 --base 7.3 --profile sapphire-rapids",
            ],
            ..Facts::new(
                NAME,
                "a large file of return stubs, called cold and at random",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let Options {
            size,
            cached,
            threads,
            freed,
            calls,
        } = asked.own;
        let exec = ExecOptions {
            cached: *cached,
            threads: *threads,
            ..calls.on_file(*size)
        };
        exec.plan(*size, asked.page_size.bytes())?;
        let disk = calls.fs.disk(match exec.cached {
            Some(Cached::Written) => Contents::Room(*size),
            Some(Cached::Read) | None => Contents::Stubs(vec![*size]),
        });
        let task = Task {
            exec,
            freed: *freed,
        };
        let plan = Plan {
            pressure: calls.scarce.pressure(),
            ..Plan::new(&task, 600).with_memory(calls.scarce.memory(*size))
        };
        Ok(plan.with_disk(calls.window.of(disk, asked.page_size)?))
    }

    fn warnings(&self, report: &Report) -> Vec<String> {
        report.report.warnings.clone()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![
            of_phase("cold.minor_faults").row("cold", "faults (minor/major)"),
            of_phase("cold.major_faults").row("cold", "faults (minor/major)"),
            of_phase("cold.faults").plotted("faults, cold"),
            counted("cold.instructions")
                .row("cold", "guest instructions")
                .plotted("guest instructions, cold"),
            of_phase("cold.read_bytes")
                .row("cold", "bytes read from disk")
                .plotted("bytes read, cold"),
            of_phase("cold.read_requests").row("cold", "requests to the disk"),
            counted("random.itlb_l1_misses")
                .row("random", "L1 iTLB misses")
                .plotted("L1 iTLB misses, random"),
            counted("random.walks")
                .row("random", "page walks")
                .plotted("page walks, random"),
            figures::text("text.<leaf>"),
        ];
        all.extend(text::rest());
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        text::phases(figures, "", &run.report.report);
        figures.put_text("", run, COVERAGE_TEXT);
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let Options {
            size,
            cached,
            threads,
            freed,
            calls,
        } = &measured.own;
        let (filesystem, scarce) = (calls.fs.fs.title(), &calls.scarce);
        let mut title = format!("exec text: {} of return stubs, {filesystem},", long(*size));
        if let Some(cached) = cached {
            title += &format!(" {cached} before,");
        }
        if *threads > 1 {
            title += &format!(" {threads} threads,");
        }
        title += &calls.settle.title();
        if let Some(limit) = scarce.memory_limit {
            title += &format!(" memory.max {},", short(limit));
        }
        if let Some(free) = scarce.free_memory {
            let pages = match scarce.fragmented {
                true => " in single pages",
                false => "",
            };
            let until = if *freed { " in the cold sweep" } else { "" };
            title += &format!(" {} free{pages}{until},", short(free));
        }
        title
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let mut rows = Row::defined(measured, &self.figures());
        let random = rows.iter().position(|row| row.section == "random");
        rows.insert(random.unwrap_or(rows.len()), time_row(measured));
        if measured.own.calls.scarce.is_scarce() {
            rows.extend(scarce_rows(measured, &rows));
        }
        let label = "text mapped by leaf";
        rows.push(Row::leaves(measured, label, "", COVERAGE_TEXT));
        rows
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let Some(report) = measured.runs.first().map(|run| &run.report.report) else {
            return Vec::new();
        };
        let options = &measured.own.calls;
        let calls = report.random.as_ref().map_or(0, |random| random.calls);
        let mut notes = vec![format!(
            "  stride {}, {calls} random calls, seed {}, readahead window {}",
            short(report.stride),
            report.seed,
            short(options.window.read_ahead),
        )];
        notes.extend(no_large_folios(options.fs.fs, measured.base));
        notes
    }
}

/// The rows of scarce memory, for both phases, that `shown` lacks.
fn scarce_rows(measured: &Measured<'_, Exec>, shown: &[Row]) -> Vec<Row> {
    let mut rows = Vec::new();
    for phase in ["cold", "random"] {
        for (label, figures) in SCARCE_ROWS {
            let is_it = |row: &Row| row.section == phase && row.label == *label;
            if shown.iter().any(is_it) {
                continue;
            }
            let names: Vec<_> = figures
                .iter()
                .map(|name| format!("{phase}.{name}"))
                // A limit's hits are there only with a limit.
                .filter(|name| measured.figures.contains_key(name))
                .collect();
            if !names.is_empty() {
                let section = format!("{phase}, reclaim");
                rows.push(Row::figures(measured, &section, label, &names));
            }
        }
    }
    rows
}

fn time_row(measured: &Measured<'_, Exec>) -> Row {
    let label = "time under emulation (not speed)";
    measured.row("cold", label, |run| {
        let phase = run.phases.iter().find(|phase| phase.name == "cold");
        let wall = phase.and_then(|phase| phase.wall_s);
        wall.map_or("-".into(), |wall| format!("{wall:.2} s"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use wideleaf_kbuild::{Arch, PageSize};
    use wideleaf_lab::common::Common;
    use wideleaf_lab::job::{AnyJob, usual};

    fn asked() -> (Common, Options) {
        let (common, own) = usual(&Exec);
        (common, serde_json::from_value(own).unwrap())
    }

    fn plan(own: &Options, page_size: PageSize) -> anyhow::Result<Plan> {
        let own = serde_json::to_value(own)?;
        AnyJob::plan(&Exec, &asked().0, &own, Arch::Arm64, page_size)
    }

    #[test]
    fn the_default_job_is_the_issues() {
        let plan = plan(&asked().1, PageSize::K64).unwrap();
        assert_eq!(plan.memory, 2 << 30, "the page cache fits twice");
        let job = plan.for_guest("exec", 600);
        let disk = job.disk.unwrap();
        assert_eq!(
            (disk.filesystem.as_str(), disk.read_ahead_kb),
            ("xfs", Some(128))
        );
        let Task { exec, .. } = serde_json::from_value(job.task).unwrap();
        assert_eq!(exec.file, Path::new("/mnt/stubs-512M"));
        assert_eq!(exec.size, Some(512 << 20));
    }

    #[test]
    fn what_cannot_run_is_refused_before_a_kernel_is_built() {
        let (_, mut own) = asked();
        own.calls.window.read_ahead = 16 << 10;
        let error = plan(&own, PageSize::K64).unwrap_err().to_string();
        assert!(error.contains("16K") && error.contains("64K"), "{error}");
        plan(&own, PageSize::K4).unwrap();
        own.size = (1 << 20) + 4096;
        assert!(plan(&own, PageSize::K64).is_err());
    }

    #[test]
    fn a_stride_is_kept_as_the_command_line_has_it() {
        let (_, mut own) = asked();
        own.calls.stride = "128K".parse().unwrap();
        let value = serde_json::to_value(&own).unwrap();
        assert_eq!(value["stride"], "128K");
        assert_eq!(serde_json::from_value::<Options>(value).unwrap(), own);
    }
}
