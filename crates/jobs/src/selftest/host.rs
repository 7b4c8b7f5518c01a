// SPDX-License-Identifier: GPL-2.0-only
//! The options and the table.

use super::{Fault, NAME, Report, Task};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_kbuild::Variant;
use wideleaf_lab::choices;
use wideleaf_lab::job::{Facts, Job, Measured};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::row::Row;

/// The job.
#[derive(Debug)]
pub struct Selftest;

/// The registry's entry.
pub const JOB: Selftest = Selftest;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How the guest goes wrong
    #[arg(long, default_value = "console-garbage", value_parser = choices!(Fault))]
    pub fault: Fault,
}

impl Job for Selftest {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            hidden: true,
            variants: &[Variant::Pristine],
            possible_variants: &[Variant::Pristine],
            examples: &["selftest --fault hang --timeout 5"],
            ..Facts::new(NAME, "a fault on purpose, which the lab must notice")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let fault = asked.own.fault;
        Ok(Plan::new(&Task { fault }, 60))
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        vec![measured.time_row("boot")]
    }
}
