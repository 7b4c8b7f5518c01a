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
pub struct Boot;

/// The registry's entry.
pub const JOB: Boot = Boot;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {}

impl Job for Boot {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            examples: &[
                "boot --referee",
                "boot --tree ~/linux --patched HEAD --variants patched",
            ],
            ..Facts::new(NAME, "a boot and a power-off, and nothing else")
        }
    }

    fn plan(&self, _: &Asked<'_, Options>) -> Result<Plan> {
        Ok(Plan::new(&Task {}, 60))
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        vec![measured.time_row("boot")]
    }
}
