// SPDX-License-Identifier: GPL-2.0-only
//! What a job is to the guest.
//!
//! A job's room implements [`Work`], with task and report of types of its own. The guest knows it
//! as [`AnyWork`], which hides these types: they are JSON there.

use crate::place::Place;
use crate::port::Port;
use crate::protocol::Disk;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A job's guest side, as its room writes it.
pub trait Work: Sync {
    /// Its name.
    const NAME: &'static str;
    /// Whether khugepaged is to be as the kernel has it; for others it sleeps, because it would
    /// disturb what they measure.
    const WANTS_KHUGEPAGED: bool = false;
    /// What it is asked to do.
    type Task: DeserializeOwned;
    /// What it finds.
    type Report: Serialize;

    /// Does what of a task has to happen in PID 1, before the job's process is forked and `disk`
    /// mounted.
    ///
    /// # Errors
    ///
    /// If that fails.
    fn in_init(&self, _task: &Self::Task, _disk: Option<&Disk>) -> Result<()> {
        Ok(())
    }

    /// Does the work.
    ///
    /// # Errors
    ///
    /// If it fails, or finds that something is wrong.
    fn run(&self, task: &Self::Task, place: &Place<'_>, port: &Port) -> Result<Self::Report>;
}

/// A job's guest side of any kind.
pub trait AnyWork: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether khugepaged is to be as the kernel has it.
    fn wants_khugepaged(&self) -> bool;

    /// Does what of a task has to happen in PID 1.
    ///
    /// # Errors
    ///
    /// If that fails, or it is no task of this job.
    fn in_init(&self, task: &Value, disk: Option<&Disk>) -> Result<()>;

    /// Does the work.
    ///
    /// # Errors
    ///
    /// If it fails, or it is no task of this job.
    fn run(&self, task: &Value, place: &Place<'_>, port: &Port) -> Result<Value>;
}

impl<W: Work> AnyWork for W {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn wants_khugepaged(&self) -> bool {
        W::WANTS_KHUGEPAGED
    }

    fn in_init(&self, task: &Value, disk: Option<&Disk>) -> Result<()> {
        Work::in_init(self, &read::<W>(task)?, disk)
    }

    fn run(&self, task: &Value, place: &Place<'_>, port: &Port) -> Result<Value> {
        let report = Work::run(self, &read::<W>(task)?, place, port)?;
        Ok(serde_json::to_value(report)?)
    }
}

fn read<W: Work>(task: &Value) -> Result<W::Task> {
    W::Task::deserialize(task).with_context(|| format!("no task of the job {}", W::NAME))
}
