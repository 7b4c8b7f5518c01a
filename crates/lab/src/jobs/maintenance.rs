// SPDX-License-Identifier: GPL-2.0-only
//! Changes live page-table entries in every way that a process can ask for:
//! work for the referee.

use crate::job::Job;
use crate::options::Options;
use crate::results::Comparison;
use crate::results::row::Row;
use wideleaf_guest::protocol::Task;
use wideleaf_kbuild::Variant;

/// The job.
#[derive(Debug)]
pub struct Maintenance;

impl Job for Maintenance {
    fn name(&self) -> String {
        "maintenance".into()
    }

    fn about(&self) -> &'static str {
        "memory protected, unmapped, moved, shared, reused: work for --referee"
    }

    fn variants(&self) -> &'static [Variant] {
        &[Variant::Pristine, Variant::Patched]
    }

    fn time_limit_s(&self) -> u32 {
        120
    }

    fn task(&self, _: &Options) -> Task {
        Task::Maintenance
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        vec![Row::text(
            comparison,
            "steps done",
            "time under emulation (not speed)",
            |run| format!("{:.2} s", run.wall_s),
        )]
    }
}
