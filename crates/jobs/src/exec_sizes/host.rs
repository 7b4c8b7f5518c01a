// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Report, Task};
use crate::kit::text::{self, CallsStubs, no_large_folios, of_phase};
use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_kit::size::{parse, short};
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::figures::{self, Figure, Figures, counted};
use wideleaf_lab::results::row::{Row, shown};

/// Phase numbers end at 127, and each size has two.
const MOST: usize = 63;

/// The job.
#[derive(Debug)]
pub struct ExecSizes;

/// The registry's entry.
pub const JOB: ExecSizes = ExecSizes;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Sizes, with commas between
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        value_parser = parse,
        default_value = "64K,128K,256K,512K,1M,2M,4M,8M,16M,32M,64M,128M,256M,512M"
    )]
    pub sizes: Vec<u64>,
    /// What is called.
    #[command(flatten)]
    #[serde(flatten)]
    pub calls: CallsStubs,
}

impl Job for ExecSizes {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            cases: Some("size of the mapping"),
            examples: &["exec-sizes --variants pristine,reads,patched"],
            ..Facts::new(NAME, "the exec job at mapping sizes from 64K to 512M")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let Options { sizes, calls } = asked.own;
        if sizes.is_empty() || sizes.len() > MOST {
            bail!("--sizes: give 1 to {MOST} of them");
        }
        for size in sizes {
            if sizes.iter().filter(|other| *other == size).count() > 1 {
                bail!("--sizes: {} is there twice", short(*size));
            }
            let plan = calls.on_file(*size).plan(*size, asked.page_size.bytes());
            plan?;
        }
        let task = Task {
            runs: sizes.iter().map(|size| calls.on_file(*size)).collect(),
        };
        let disk = calls.fs.disk(Contents::Stubs(sizes.clone()));
        // As for the exec job: one size is in the page cache at a time.
        let largest = sizes.iter().max().copied().unwrap_or(0);
        let plan = Plan {
            pressure: calls.scarce.pressure(),
            ..Plan::new(&task, 1200).with_memory(calls.scarce.memory(largest))
        };
        Ok(plan.with_disk(calls.window.of(disk, asked.page_size)?))
    }

    fn warnings(&self, report: &Report) -> Vec<String> {
        let warnings = report.reports.iter().flat_map(|report| {
            let size = short(report.size);
            let texts = report.warnings.iter();
            texts.map(move |text| format!("{size}: {text}"))
        });
        warnings.collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let faults = "cold faults (minor/major)";
        let mut all = vec![
            of_phase("<size>.cold.minor_faults").row(faults, ""),
            of_phase("<size>.cold.major_faults").row(faults, ""),
            of_phase("<size>.cold.faults").plotted("faults, cold"),
            counted("<size>.cold.instructions")
                .row("cold instructions", "")
                .plotted("guest instructions, cold"),
            of_phase("<size>.cold.read_bytes")
                .row("cold bytes read", "")
                .plotted("bytes read, cold"),
            of_phase("<size>.cold.read_requests").row("cold requests to the disk", ""),
            counted("<size>.random.itlb_l1_misses")
                .row("random L1 iTLB misses", "")
                .plotted("L1 iTLB misses, random"),
            counted("<size>.random.walks")
                .row("random page walks", "")
                .plotted("page walks, random"),
            figures::text("<size>.text.<leaf>"),
        ];
        all.extend(text::rest());
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for (report, id) in run.report.reports.iter().zip(1..) {
            let prefix = format!("{}.", short(report.size));
            text::phases(figures, &prefix, report);
            figures.put_text(&prefix, run, id);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let filesystem = measured.own.calls.fs.fs.title();
        format!("exec text by mapping size, {filesystem},")
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let sizes: Vec<_> = measured.own.sizes.iter().map(|size| short(*size)).collect();
        let mut rows = Vec::new();
        for shown in shown(&self.figures()) {
            let row = |size: &String| shown.of_case(measured, size, shown.section, size);
            rows.extend(sizes.iter().map(row));
        }
        let label = "text mapped by leaf";
        let sizes = sizes.iter().zip(1..);
        rows.extend(sizes.map(|(size, id)| Row::leaves(measured, label, size, id)));
        rows
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let options = &measured.own.calls;
        let mut notes = vec![format!(
            "  seed {}, readahead window {}",
            options.seed.seed,
            short(options.window.read_ahead)
        )];
        notes.extend(no_large_folios(options.fs.fs, measured.base));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_kbuild::{Arch, PageSize};
    use wideleaf_lab::job::{AnyJob, usual};

    fn plan(sizes: &[u64], page_size: PageSize) -> anyhow::Result<Plan> {
        let (common, mut own) = usual(&ExecSizes);
        own["sizes"] = sizes.into();
        AnyJob::plan(&ExecSizes, &common, &own, Arch::Arm64, page_size)
    }

    #[test]
    fn the_issues_sizes() {
        let (_, own) = usual(&ExecSizes);
        let own: Options = serde_json::from_value(own).unwrap();
        let doubled = (0..14).map(|n| (64 << 10) << n);
        assert_eq!(own.sizes, doubled.collect::<Vec<u64>>());
        for &page_size in PageSize::ALL {
            let plan = plan(&own.sizes, page_size).unwrap();
            assert_eq!(plan.memory, 2 << 30);
        }
    }

    #[test]
    fn impossible_sizes_are_named() {
        for (sizes, word) in [
            (&[][..], "1 to 63"),
            (&[1 << 20, 1 << 20], "1M is there twice"),
            (&[100 << 10], "102400"),
        ] {
            let error = plan(sizes, PageSize::K64).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn headlines_are_those_of_every_size() {
        let job: &dyn AnyJob = &ExecSizes;
        assert!(job.is_headline("64K.cold.major_faults"));
        assert!(!job.is_headline("64K.cold.calls"));
    }
}
