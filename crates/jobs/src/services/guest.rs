// SPDX-License-Identifier: GPL-2.0-only
//! The job as a service of systemd: starts the load in other services, and in containers.

use super::load::{ANSWER, ASKED, Load};
use super::{LOAD, NAME, Report, Task, Way, name_of};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;
use wideleaf_guest::kit::program::{Program, Worked};
use wideleaf_guest::kit::spawn::said;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::{Disk, Message};
use wideleaf_guest::systemd::{self, FOLDER, PROGRAM};
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct Services;

/// The registry's entry.
pub const WORK: Services = Services;

/// Where the EROFS image is mounted.
const MOUNTED: &str = "/run/wideleaf/erofs";

impl Work for Services {
    const NAME: &'static str = NAME;
    const WANTS_KHUGEPAGED: bool = true;
    type Task = Task;
    type Report = Report;

    fn in_init(&self, _task: &Task, disk: Option<&Disk>) -> Result<()> {
        let disk = disk.context("the job services needs a disk, and names none")?;
        match systemd::hand_over(disk)? {}
    }

    fn run(&self, task: &Task, place: &Place<'_>, port: &Port) -> Result<Report> {
        let device = place.device.context("no disk")?;
        let mut loads = Vec::new();
        for (&way, number) in task.ways.iter().zip(0u8..) {
            let name = name_of(&task.program.name, way);
            port.send(&Message::Progress {
                text: format!("running {name}"),
            })?;
            let load = Load {
                program: Program {
                    name,
                    ..task.program.clone()
                },
                number,
                device: device.into(),
            };
            let worked = run(task, way, &load)?;
            announce(&worked, number, port)?;
            loads.push(worked);
        }
        Ok(Report { loads })
    }
}

/// Names the phases that there were. The load itself cannot, and one that failed had fewer.
fn announce(worked: &Worked, number: u8, port: &Port) -> Result<()> {
    let runs = [("cold", &worked.cold), ("warm", &worked.warm)];
    for ((name, run), id) in runs.into_iter().zip(2 * number + 1..) {
        if !run.status.is_empty() {
            let name = format!("{}.{name}", worked.name);
            port.send(&Message::Phase { id, name })?;
        }
    }
    Ok(())
}

/// Runs the load one way. One that fails is no error: others go on.
fn run(task: &Task, way: Way, load: &Load) -> Result<Worked> {
    fs::write(ASKED, serde_json::to_vec(load)?).context(ASKED)?;
    let _ = fs::remove_file(ANSWER);
    let complaint = match prepare(task, way).and_then(|()| said(&mut command(task, way))) {
        Ok(_) => "it left nothing".into(),
        Err(error) => format!("{error:#}"),
    };
    match fs::read(ANSWER) {
        Ok(text) => serde_json::from_slice(&text).context(ANSWER),
        Err(_) => Ok(Worked {
            name: load.program.name.clone(),
            complaint: format!(
                "did not end within {} s of guest time, or could not begin: {complaint}",
                task.limit_s
            ),
            ..Worked::default()
        }),
    }
}

/// Makes what a way needs.
fn prepare(task: &Task, way: Way) -> Result<()> {
    if way != Way::Erofs {
        return Ok(());
    }
    fs::create_dir_all(MOUNTED).context(MOUNTED)?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "erofs", "-o", "ro,loop", &task.image, MOUNTED]);
    said(&mut mount).map(drop)
}

/// The program that starts the load, and ends with it.
fn command(task: &Task, way: Way) -> Command {
    let limit = task.limit_s;
    let root = match way {
        Way::Service => {
            let mut command = Command::new("systemd-run");
            command.args(["--quiet", "--wait", "--collect", "--pipe"]);
            command.arg(format!("--property=RuntimeMaxSec={limit}"));
            command.args([PROGRAM, LOAD]);
            return command;
        }
        Way::Overlay => &task.root,
        Way::Erofs => MOUNTED,
    };
    let mut command = Command::new("podman");
    command.args(["run", "--rm", "--network=none", "--log-driver=none"]);
    command.arg(format!("--timeout={limit}"));
    // It empties the page cache, and looks at processes of other users.
    command.args(["--security-opt=unmask=/proc/sys", "--cap-add=SYS_PTRACE"]);
    // As the service has it: in memory.
    command.arg("--tmpfs=/tmp:rw,exec");
    command.arg(format!("--volume={FOLDER}:{FOLDER}"));
    command.args(["--rootfs", &format!("{root}:O"), PROGRAM, LOAD]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(way: Way) -> String {
        let task = Task {
            program: Program::default(),
            ways: Vec::new(),
            limit_s: 7,
            root: "/a/root".into(),
            image: "/a/root.erofs".into(),
        };
        let command = command(&task, way);
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn each_way_runs_the_same_program_and_ends_it_in_time() {
        for (way, words) in [
            (Way::Service, ["systemd-run ", "RuntimeMaxSec=7 "]),
            (Way::Overlay, ["--timeout=7 ", "--rootfs /a/root:O "]),
            (
                Way::Erofs,
                ["--timeout=7 ", "--rootfs /run/wideleaf/erofs:O "],
            ),
        ] {
            let line = line(way);
            assert!(line.ends_with("/run/wideleaf/guest load"), "{line}");
            for word in words {
                assert!(line.contains(word), "{line}");
            }
        }
    }
}
