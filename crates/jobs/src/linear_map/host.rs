// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Task};
use crate::kit::linear::{self, MOMENTS, USUAL_MEMORY, idle, memory};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::GuestMemory;
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::figures::{Figure, Figures};
use wideleaf_lab::results::row::Row;

/// The job.
#[derive(Debug)]
pub struct LinearMap;

/// The registry's entry.
pub const JOB: LinearMap = LinearMap;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub memory: GuestMemory,
}

impl Job for LinearMap {
    type Options = Options;
    type Report = LinearReport;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &[
                "linear-map --memory 64G --append rodata=full",
                "linear-map --variants pristine --append rodata=on",
            ],
            ..linear::facts(NAME, "the kernel's linear map after boot: bytes by leaf")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let memory = asked.own.memory.memory.unwrap_or(USUAL_MEMORY);
        Ok(Plan {
            memory_used: idle(memory),
            ..Plan::new(&Task {}, 300).with_memory(memory)
        })
    }

    /// There is one moment.
    fn figures(&self) -> Vec<Figure> {
        MOMENTS.map(Figure::headline).into()
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        linear::put(run, &run.report, figures);
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        format!("linear map of {},", memory(measured))
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        linear::rows(measured, measured.runs.iter().map(|run| &run.report))
    }
}
