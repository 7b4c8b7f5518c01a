// SPDX-License-Identifier: GPL-2.0-only
//! Runs stressors one after the other.

use super::stage::{self, Stage, end_of};
use super::text::Text;
use super::{NAME, Program, Report, Stressed, Stressor, Task, again};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use wideleaf_guest::kit::{cgroup, overlay, root, swap};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct StressNg;

/// The registry's entry.
pub const WORK: StressNg = StressNg;

impl Work for StressNg {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, port)
    }
}

/// Below the root: where stressors have their files, and where the program is that is executed.
const FOLDER: &str = "/under-fire";

/// Below the root: the layers of an overlay, and the swap file.
const LAYERS: &str = "/layers";
const SWAP_FILE: &str = "/swap";

/// The words and the figures of a stressor, in memory.
const OUTPUT: &str = "/tmp/output";
const METRICS: &str = "/tmp/metrics.yaml";

/// Lines of /proc/vmstat that are told, by the name of their sum.
const EVENTS: [(&str, &[&str]); 2] = [
    ("reclaimed", &["pgsteal_kswapd", "pgsteal_direct"]),
    ("swapped_out", &["pswpout"]),
];

/// Runs them all.
fn job(task: &Task, port: &Port) -> Result<Report> {
    root::furnish(&task.root)?;
    swap::on(&format!("{}{SWAP_FILE}", task.root), task.swap)?;
    make_folder(task)?;
    let text = Text::new(&task.root, &format!("{FOLDER}/text"))?;
    let mut stage = Stage::new(task)?;
    let users = cgroup::unlimited("text")?;
    text.start(&mut stage.crew, &users)?;
    let before = events()?;
    let mut report = Report::default();
    for stressor in &task.stressors {
        let text = stressor.name.clone();
        port.send(&Message::Progress { text })?;
        let stressed = run(&mut stage, stressor);
        report
            .stressors
            .push(stressed.with_context(|| format!("during {}", stressor.name))?);
    }
    // A program that still reads when the guest goes off would get an I/O error.
    stage.end_all(&users)?;
    stage.crew.listen()?;
    report.counts = text.counts();
    for (name, count) in events()? {
        let more = count - before.get(&name).copied().unwrap_or_default();
        report.counts.insert(name, more);
    }
    Ok(report)
}

/// The folder that all use: one of the disk, or an overlay over one of the disk.
fn make_folder(task: &Task) -> Result<()> {
    let folder = format!("{}{FOLDER}", task.root);
    fs::create_dir_all(&folder).with_context(|| folder.clone())?;
    if !task.overlay {
        return Ok(());
    }
    overlay::mount(
        &format!("{}{LAYERS}", task.root),
        &format!("{}{LAYERS}/lower", task.root),
        &folder,
    )
}

/// One, in a folder that is empty when it begins.
fn run(stage: &mut Stage<'_>, stressor: &Stressor) -> Result<Stressed> {
    let folder = format!("{FOLDER}/files");
    let files = format!("{}{folder}", stage.task.root);
    fs::create_dir_all(&files).with_context(|| files.clone())?;
    let name = &stressor.name;
    let stressed = match &stressor.program {
        Program::StressNg(options) => stress(stage, name, &folder, options)?,
        Program::Again(program) => again::run(stage, name, &folder, program)?,
    };
    stage.end_all(&stage.group)?;
    fs::remove_dir_all(&files).with_context(|| files.clone())?;
    // So that nobody else is blamed for it.
    stage.crew.look()?;
    Ok(stressed)
}

/// One of stress-ng.
fn stress(stage: &mut Stage<'_>, name: &str, folder: &str, options: &str) -> Result<Stressed> {
    let Task {
        root,
        seconds,
        instances,
        seed,
        ..
    } = stage.task;
    let line = format!(
        "/usr/bin/stress-ng --{name} {instances} {options} --timeout {seconds}s --verify \
         --seed {seed} --oom-avoid --temp-path {folder} --metrics --yaml {METRICS}"
    );
    let _ = fs::remove_file(format!("{root}{METRICS}"));
    let mut child = stage.command(&line, OUTPUT)?.spawn().context("stress-ng")?;
    let status = stage.wait(&mut child)?;
    let metrics = fs::read_to_string(format!("{root}{METRICS}")).unwrap_or_default();
    let output = fs::read(OUTPUT).context(OUTPUT)?;
    let operations = operations(&metrics);
    let stressed = match status {
        Some(status) => stage::stressed(name, end_of(status), operations, &output),
        None => stage.killed(name, operations, &output),
    };
    stage.end_all(&stage.group)?;
    let _ = child.wait();
    Ok(stressed)
}

/// Bogo operations of all stressors in what stress-ng writes as YAML.
fn operations(metrics: &str) -> u64 {
    let lines = metrics.lines();
    let values =
        lines.filter_map(|line| line.trim().strip_prefix("bogo-ops: ")?.parse::<u64>().ok());
    values.sum()
}

/// The guest's reclaim so far.
fn events() -> Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string("/proc/vmstat").context("/proc/vmstat")?;
    let value = |wanted: &&str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(name, _)| name == wanted);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let all = EVENTS.iter();
    Ok(all
        .map(|(name, lines)| ((*name).to_owned(), lines.iter().filter_map(value).sum()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_what_stress_ng_writes() {
        let metrics = "---\nmetrics:\n    - stressor: mmap\n      bogo-ops: 12\n      \
                       bogo-ops-per-second-usr-sys-time: 3.5\n    - stressor: x\n      \
                       bogo-ops: 1\n";
        assert_eq!(operations(metrics), 13);
        assert_eq!(operations(""), 0);
    }
}
