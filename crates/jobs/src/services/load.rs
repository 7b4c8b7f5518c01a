// SPDX-License-Identifier: GPL-2.0-only
//! The guest's program in a service or a container: runs a load there, as the job program does.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::ExitCode;
use wideleaf_bench::system::ReadCounter;
use wideleaf_guest::kit::program::{Program, Worked};
use wideleaf_guest::kit::runner::{Runner, adopt_leftovers};

/// The load that is to be run.
pub const ASKED: &str = "/run/wideleaf/load.json";

/// Its runs.
pub const ANSWER: &str = "/run/wideleaf/worked.json";

/// A load.
#[derive(Debug, Serialize, Deserialize)]
pub struct Load {
    /// It.
    pub program: Program,
    /// Its place among all that run, by which phases and mappings are numbered.
    pub number: u8,
    /// The disk's device.
    pub device: String,
}

/// Runs the load that [`ASKED`] describes, and leaves what it did in [`ANSWER`].
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let text = fs::read_to_string(ASKED).context(ASKED)?;
    let load: Load = serde_json::from_str(&text).context(ASKED)?;
    adopt_leftovers()?;
    let worked = work(&load)?;
    fs::write(ANSWER, serde_json::to_vec(&worked)?).context(ANSWER)
}

fn work(load: &Load) -> Result<Worked> {
    let runner = Runner {
        root: "/",
        program: &load.program,
        number: load.number,
        counter: &ReadCounter::BlockDevice(load.device.clone()),
        // The port for answers is open elsewhere.
        tell: &|_| Ok(()),
        record: false,
        leaves: &[],
    };
    let mut worked = runner.count()?;
    if worked.complaint.is_empty() {
        runner.look(&mut worked)?;
    }
    Ok(worked)
}
