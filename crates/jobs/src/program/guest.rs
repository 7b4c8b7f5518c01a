// SPDX-License-Identifier: GPL-2.0-only
//! Real programs under their own loader as a job.
//!
//! Each runs three times: from an empty page cache, again with all that this left there, and
//! once more to see at its end which leaves map its text. Only the third is traced, for tracing
//! costs instructions.

use super::{NAME, Program, Report, Run, Task, Worked};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use wideleaf_bench::system::{Evict, ReadCounter};
use wideleaf_guest::kit::{marker, spawn, trace};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Programs;

/// The registry's entry.
pub const WORK: Programs = Programs;

impl Work for Programs {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
        let programs = job(&task.root, &task.programs, place.device, port)?;
        Ok(Report { programs })
    }
}

/// Where standard output goes: into memory, so that the disk is only read.
const OUTPUT: &str = "/tmp/output";

/// Where standard error goes.
const COMPLAINT: &str = "/tmp/complaint";

/// Room for the mappings of one program among the coverage records.
const MAPPINGS: u64 = 1000;

/// Runs them all.
fn job(root: &str, programs: &[Program], device: Option<&str>, port: &Port) -> Result<Vec<Worked>> {
    let device = device.context("the program job needs a disk; the job names none")?;
    let counter = ReadCounter::BlockDevice(device.to_string());
    let mut reports = Vec::new();
    for (program, number) in programs.iter().zip(0u8..) {
        let runner = Runner {
            root,
            program,
            counter: &counter,
            port,
        };
        reports.push(runner.run(number).with_context(|| program.name.clone())?);
    }
    Ok(reports)
}

struct Runner<'a> {
    root: &'a str,
    program: &'a Program,
    counter: &'a ReadCounter,
    port: &'a Port,
}

impl Runner<'_> {
    fn run(&self, number: u8) -> Result<Worked> {
        let text = format!("running {}", self.program.name);
        self.port.send(&Message::Progress { text })?;
        let folder = File::open(self.root).with_context(|| self.root.to_string())?;
        Evict::DropCaches.run(&folder)?;
        let cold = self.phase(2 * number + 1, "cold")?;
        let warm = self.phase(2 * number + 2, "warm")?;
        let failed = warm.status.last() != Some(&0);
        Ok(Worked {
            name: self.program.name.clone(),
            cold,
            warm,
            complaint: failed
                .then(|| fs::read_to_string(COMPLAINT))
                .transpose()?
                .unwrap_or_default(),
            text: self.look(u64::from(number) * MAPPINGS)?,
        })
    }

    fn phase(&self, id: u8, name: &str) -> Result<Run> {
        let name = format!("{}.{name}", self.program.name);
        self.port.send(&Message::Phase { id, name })?;
        let output = File::create(OUTPUT).context(OUTPUT)?;
        let before = self.read_bytes()?;
        let mut run = Run::default();
        marker::enter(id);
        for line in &self.program.commands {
            let mut command = spawn::command(self.root, line, &self.program.env)?;
            command
                .stdout(output.try_clone()?)
                .stderr(File::create(COMPLAINT)?);
            let child = command.spawn().with_context(|| line.clone())?;
            let (status, usage) = spawn::wait(&child)?;
            run.status.push(status);
            run.minor_faults += usage.ru_minflt.cast_unsigned();
            run.major_faults += usage.ru_majflt.cast_unsigned();
        }
        marker::leave();
        run.read_bytes = self.read_bytes()? - before;
        run.output = String::from_utf8_lossy(&fs::read(OUTPUT)?).into_owned();
        Ok(run)
    }

    fn read_bytes(&self) -> Result<u64> {
        self.counter
            .read()
            .map_err(|figure| anyhow::anyhow!("{figure:?}"))
    }

    fn look(&self, first: u64) -> Result<Vec<wideleaf_guest::kit::trace::Mapped>> {
        let line = self.program.commands.last().context("no command")?;
        let mut command = spawn::command(self.root, line, &self.program.env)?;
        command
            .stdout(File::create(OUTPUT)?)
            .stderr(File::create(COMPLAINT)?);
        let text = trace::text_at_exit(command, first).context("looking at its mappings")?;
        ensure!((text.len() as u64) < MAPPINGS, "{} mappings", text.len());
        Ok(text)
    }
}
