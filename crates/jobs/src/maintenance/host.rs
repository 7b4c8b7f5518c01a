// SPDX-License-Identifier: GPL-2.0-only
//! The options and the table.

use super::{NAME, Report, Task};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_lab::job::{Facts, Job, Measured};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::row::Row;

/// The job.
#[derive(Debug)]
pub struct Maintenance;

/// The registry's entry.
pub const JOB: Maintenance = Maintenance;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {}

impl Job for Maintenance {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            examples: &["maintenance --referee --json findings.json"],
            ..Facts::new(
                NAME,
                "memory protected, unmapped, moved: work for --referee",
            )
        }
    }

    fn plan(&self, _: &Asked<'_, Options>) -> Result<Plan> {
        Ok(Plan::new(&Task {}, 120))
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        vec![measured.time_row("steps done")]
    }
}
