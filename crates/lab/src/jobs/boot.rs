// SPDX-License-Identifier: GPL-2.0-only
//! Boots and powers off.

use crate::job::Job;
use crate::options::Options;
use crate::results::Comparison;
use crate::results::row::Row;
use wideleaf_guest::protocol::Task;

/// The job.
#[derive(Debug)]
pub struct Boot;

impl Job for Boot {
    fn name(&self) -> String {
        "boot".into()
    }

    fn about(&self) -> &'static str {
        "nothing: whether the kernels boot to user space and power off"
    }

    fn time_limit_s(&self) -> u32 {
        60
    }

    fn task(&self, _: &Options) -> Task {
        Task::Boot
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        vec![Row::text(
            comparison,
            "boot",
            "time under emulation (not speed)",
            |run| format!("{:.2} s", run.wall_s),
        )]
    }
}
