// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{BLOCK, InUse, NAME, Report, Task};
use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_kbuild::PageSize;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{Row, shown};

/// Bytes of the disk besides the block.
const ROOM: u64 = 256 << 20;

/// Memory that a process takes which sleeps, its page tables and its stacks included.
const PROCESS: u64 = 256 << 10;

/// The job.
#[derive(Debug)]
pub struct Collapse;

/// The registry's entry.
pub const JOB: Collapse = Collapse;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How many processes map the block, for each case
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,100,2000",
        value_parser = clap::value_parser!(u32).range(1..=4000)
    )]
    pub mappers: Vec<u32>,

    /// Then collapse so many blocks, each while a process on another CPU reads it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    #[serde(default)]
    pub in_use: u32,
}

impl Job for Collapse {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &[
                "collapse --page-size 4K --mappers 1,100,2000",
                "collapse --page-size 4K --mappers 1 --in-use 50 --cpus 2",
            ],
            ..Facts::new(
                NAME,
                "what it takes to collapse a block that many processes map",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        ensure!(
            asked.page_size == PageSize::K4,
            "--page-size {}: MADV_COLLAPSE takes what a PMD maps, and the job collapse 2M: 4K",
            asked.page_size
        );
        ensure!(
            asked.own.in_use == 0 || asked.common.cpus > 1,
            "--in-use {}: another CPU reads the blocks, so --cpus has to be 2 or more",
            asked.own.in_use
        );
        let mut mappers = asked.own.mappers.clone();
        mappers.sort_unstable();
        mappers.dedup();
        // Each is a phase of its own, of which there are 127.
        ensure!(
            mappers.len() <= 100,
            "--mappers: {} cases, and the job collapse takes up to 100",
            mappers.len()
        );
        let most = mappers.last().copied().unwrap_or(0);
        let task = Task {
            folder: MOUNT_POINT.into(),
            mappers,
            in_use: asked.own.in_use,
        };
        let mut plan = Plan::new(&task, 900).with_disk(Disk::new(Contents::Room(ROOM + BLOCK)));
        plan.always.push("collapse".into());
        let memory = plan.memory + u64::from(most) * PROCESS;
        Ok(plan.with_memory(memory))
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        vec![
            counted("<case>.kernel_instructions").row("", "kernel instructions"),
            counted("<case>.tlb_invalidations").shown("", "TLB invalidations"),
            figure("in_use.tried", "blocks", "collapsed while another CPU read them"),
            figure("in_use.failed", "blocks", "of these, whose collapse failed with EAGAIN"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        if let Some(InUse { tried, failed }) = run.report.in_use {
            figures.put("in_use.tried", tried.into());
            figures.put("in_use.failed", failed.into());
        }
    }

    fn title(&self, _: &Measured<'_, Self>) -> String {
        "MADV_COLLAPSE of 2M that so many processes map,".into()
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let Some(run) = measured.runs.first() else {
            return Vec::new();
        };
        let figures = Job::figures(self);
        let cases = run.report.cases.iter();
        let mut rows: Vec<_> = cases
            .flat_map(|case| {
                let shown = shown(&figures).into_iter();
                shown.map(move |shown| shown.of_case(measured, case, case, shown.label))
            })
            .collect();
        if run.report.in_use.is_some() {
            let cell = |run: &Run<'_, Self>| {
                run.report.in_use.map_or("-".into(), |in_use| {
                    format!("{} of {}", in_use.failed, in_use.tried)
                })
            };
            rows.push(measured.row("in use", "collapses that failed", cell));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_kbuild::Arch;
    use wideleaf_lab::job::{AnyJob, usual};

    fn plan(mappers: &[u32], page_size: PageSize) -> Result<Plan> {
        let (common, _) = usual(&Collapse);
        let own = serde_json::json!({ "mappers": mappers });
        AnyJob::plan(&Collapse, &common, &own, Arch::Arm64, page_size)
    }

    #[test]
    fn cases_come_in_order_and_once_and_their_processes_have_memory() {
        let few = plan(&[1], PageSize::K4).unwrap();
        let many = plan(&[2000, 1, 2000], PageSize::K4).unwrap();
        assert!(many.memory >= few.memory + 400 * (1 << 20));
        assert!(few.memory.is_multiple_of(1 << 20), "QEMU is given MiB");
        let task: Task = serde_json::from_value(many.task).unwrap();
        assert_eq!(task.mappers, [1, 2000]);
    }

    #[test]
    fn what_cannot_run_is_refused_before_a_kernel_is_built() {
        let error = plan(&[1], PageSize::K64).unwrap_err().to_string();
        assert!(error.starts_with("--page-size 64K: "), "{error}");
        let many: Vec<_> = (1..=101).collect();
        assert!(plan(&many, PageSize::K4).is_err());
    }

    #[test]
    fn blocks_in_use_take_another_cpu() {
        let plan = |cpus| {
            let (mut common, _) = usual(&Collapse);
            common.cpus = cpus;
            let own = serde_json::json!({ "mappers": [1], "in_use": 3 });
            AnyJob::plan(&Collapse, &common, &own, Arch::Arm64, PageSize::K4)
        };
        let error = plan(1).unwrap_err().to_string();
        assert!(error.starts_with("--in-use 3: "), "{error}");
        let task: Task = serde_json::from_value(plan(2).unwrap().task).unwrap();
        assert_eq!(task.in_use, 3);
    }
}
