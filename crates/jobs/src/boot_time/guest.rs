// SPDX-License-Identifier: GPL-2.0-only
//! Ends the phase that began with the first instruction, looks at what the boot left, and counts
//! what remains until the machine is off.

use super::{NAME, Report, Task};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use wideleaf_guest::kit::linear::{self, LinearReport};
use wideleaf_guest::kit::marker;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// Phases, and their numbers for the plugin. Instructions outside of all others have 0: here
/// those from the first one to the job.
const PHASES: [(u8, &str); 3] = [(START, "start"), (LOOK, "look"), (END, "end")];
const START: u8 = 0;
const LOOK: u8 = 1;
const END: u8 = 2;

/// Stages of the boot when the kernel says so, in order of init/main.c, with the start of what it
/// says.
const LANDMARKS: [(&str, &str); 4] = [
    ("cpus", "smp: Brought up "),
    ("devices", "Unpacking initramfs"),
    ("freed", "Freeing unused kernel"),
    ("init", "Run /init as init process"),
];

/// Uses of memory that boots of two kernels may differ by, and the lines of /proc/meminfo.
const USES: [(&str, &str); 6] = [
    ("slab", "Slab"),
    ("stacks", "KernelStack"),
    ("tables", "PageTables"),
    ("vmalloc", "VmallocUsed"),
    ("percpu", "Percpu"),
    ("cached", "Cached"),
];

/// The job's guest side.
pub struct BootTime;

/// The registry's entry.
pub const WORK: BootTime = BootTime;

impl Work for BootTime {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        for (id, name) in PHASES {
            let name = name.into();
            port.send(&Message::Phase { id, name })?;
        }
        marker::enter(LOOK);
        let meminfo = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
        let mut map = LinearReport::default();
        linear::take(&mut map, "boot");
        let report = Report {
            reached_us: landmarks(&messages()?),
            memory: uses(&meminfo, task.memory)?,
            linear: map,
        };
        // Left by nobody: it ends with the machine.
        marker::enter(END);
        Ok(report)
    }
}

/// The kernel's messages since it began, a record each: `level,number,us,flags;text`.
fn messages() -> Result<Vec<String>> {
    let path = "/dev/kmsg";
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .context(path)?;
    let mut records = Vec::new();
    let mut record = [0; 8192];
    loop {
        match file.read(&mut record) {
            Ok(len) => records.push(String::from_utf8_lossy(&record[..len]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(records),
            // Overwritten while it was read; the next read has the next one.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) => return Err(error).context(path),
        }
    }
}

/// When each landmark was reached first.
fn landmarks(records: &[String]) -> BTreeMap<String, u64> {
    let mut reached = BTreeMap::new();
    for record in records {
        let Some((head, text)) = record.split_once(';') else {
            continue;
        };
        let us = head.split(',').nth(2).and_then(|us| us.parse().ok());
        let known = LANDMARKS.iter().find(|(_, start)| text.starts_with(start));
        if let (Some(us), Some((name, _))) = (us, known) {
            reached.entry((*name).to_string()).or_insert(us);
        }
    }
    reached
}

/// Bytes by use, of a machine with so much memory.
fn uses(meminfo: &str, memory: u64) -> Result<BTreeMap<String, u64>> {
    let line = |name: &str| {
        let mut lines = meminfo.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib: Option<u64> =
            value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        kib.map(|kib| kib << 10)
            .with_context(|| format!("/proc/meminfo has no {name}"))
    };
    let (total, free) = (line("MemTotal")?, line("MemFree")?);
    let mut uses: BTreeMap<String, u64> = [
        ("reserved".to_string(), memory.saturating_sub(total)),
        ("taken".into(), memory.saturating_sub(free)),
    ]
    .into();
    for (name, of_line) in USES {
        uses.insert(name.into(), line(of_line)?);
    }
    Ok(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_landmark_is_when_it_was_said_first() {
        let records = [
            "6,12,0,-;Booting Linux on physical CPU 0x0\n",
            "6,90,51234,-;Freeing unused kernel memory: 1M\n",
            "6,91,60000,-;Freeing unused kernel image\n",
            "6,92,61000,-;Run /init as init process\n SUBSYSTEM=x\n",
            "nonsense",
        ];
        let reached = landmarks(&records.map(String::from));
        let expected = [("freed", 51234), ("init", 61000)].map(|(n, us)| (n.to_string(), us));
        assert_eq!(reached, expected.into());
    }

    #[test]
    fn what_the_page_allocator_never_had_is_taken_too() {
        let lines = USES.map(|(_, line)| format!("{line}: 4 kB\n")).concat();
        let meminfo = format!("MemTotal: 900 kB\nMemFree:   500 kB\n{lines}");
        let uses = uses(&meminfo, 1 << 20).unwrap();
        assert_eq!(uses["reserved"], (1024 - 900) << 10);
        assert_eq!(uses["taken"], (1024 - 500) << 10);
        assert_eq!(uses["percpu"], 4096);
        let error = super::uses("MemTotal: 1 kB\n", 1).unwrap_err().to_string();
        assert!(error.contains("MemFree"), "{error}");
    }
}
