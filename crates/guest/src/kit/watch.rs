// SPDX-License-Identifier: GPL-2.0-only
//! Finds tasks that sleep uninterruptibly for too long, as the kernel's khungtaskd would: on any
//! kernel, whatever it was built with.

use crate::kit::detailed::Detailed;
use crate::protocol::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Lines of the kernel's log that a report holds at most.
const LINES: usize = 400;

/// How a task was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sleep {
    name: String,
    /// Context switches so far: the same number is the same sleep.
    switches: u64,
    since: Instant,
}

/// Watches all tasks of the guest, the kernel's own among them.
#[derive(Debug)]
pub struct Watch {
    patience: Duration,
    asleep: BTreeMap<u32, Sleep>,
}

impl Watch {
    /// Of tasks that sleep for longer than `patience`.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            asleep: BTreeMap::new(),
        }
    }

    /// Looks at all tasks; names those that sleep for too long now.
    pub fn look(&mut self) -> Vec<String> {
        self.see(&asleep(Path::new("/proc")), Instant::now())
    }

    fn see(&mut self, now_asleep: &BTreeMap<u32, (String, u64)>, now: Instant) -> Vec<String> {
        self.asleep
            .retain(|id, was| now_asleep.get(id).is_some_and(|is| is.1 == was.switches));
        for (&id, (name, switches)) in now_asleep {
            self.asleep.entry(id).or_insert_with(|| Sleep {
                name: name.clone(),
                switches: *switches,
                since: now,
            });
        }
        self.asleep
            .iter()
            .filter(|(_, sleep)| now.duration_since(sleep.since) > self.patience)
            .map(|(id, sleep)| format!("{} ({id})", sleep.name))
            .collect()
    }
}

/// Name and context switches of all tasks that sleep uninterruptibly, by their number.
fn asleep(proc: &Path) -> BTreeMap<u32, (String, u64)> {
    let mut found = BTreeMap::new();
    for process in numbers(proc) {
        let tasks = proc.join(process.to_string()).join("task");
        for task in numbers(&tasks) {
            let status = tasks.join(task.to_string()).join("status");
            let status = fs::read_to_string(status).unwrap_or_default();
            if let Some(sleep) = uninterruptible(&status) {
                found.insert(task, sleep);
            }
        }
    }
    found
}

fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// Name and context switches, if /proc/PID/status says that the task is in state D.
fn uninterruptible(status: &str) -> Option<(String, u64)> {
    let value = |name: &str| {
        let lines = status.lines();
        let mut found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.next().map(str::trim)
    };
    value("State").filter(|state| state.starts_with('D'))?;
    let switches = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"];
    let switches = switches
        .iter()
        .filter_map(|name| value(name)?.parse::<u64>().ok());
    Some((value("Name")?.to_owned(), switches.sum()))
}

/// An error with the stacks of all blocked tasks.
pub fn hang(what: String) -> anyhow::Error {
    Detailed(Failure {
        what,
        details: blocked_tasks(),
    })
    .into()
}

/// Has the kernel write down which tasks are blocked, and where; gives its lines.
fn blocked_tasks() -> Vec<String> {
    let log = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg");
    let Ok(mut log) = log else {
        return vec!["no /dev/kmsg".into()];
    };
    let _ = fs::write("/proc/sysrq-trigger", "w");
    let mut lines: Vec<String> = Vec::new();
    let mut record = [0; 8192];
    // One record at a time, until there is none (EAGAIN).
    while let Ok(len @ 1..) = log.read(&mut record) {
        let text = String::from_utf8_lossy(&record[..len]);
        let text = text.split_once(';').map_or("", |(_, text)| text);
        // Behind the first line the kernel lists which device it is about.
        let line = text.lines().next().unwrap_or_default();
        if line.contains("Show Blocked State") {
            lines.clear();
        }
        lines.push(line.to_owned());
    }
    lines.truncate(LINES);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping(switches: u64) -> BTreeMap<u32, (String, u64)> {
        [(7, ("mapper".into(), switches))].into()
    }

    #[test]
    fn only_one_long_sleep_is_too_long() {
        let mut watch = Watch::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(watch.see(&sleeping(1), at(0)).is_empty());
        assert!(watch.see(&sleeping(2), at(8)).is_empty(), "woken between");
        assert!(watch.see(&sleeping(2), at(16)).is_empty());
        assert_eq!(watch.see(&sleeping(2), at(19)), ["mapper (7)"]);
        assert!(watch.see(&BTreeMap::new(), at(30)).is_empty());
    }

    #[test]
    fn state_d_and_no_other() {
        let status = |state: &str| {
            format!(
                "Name:\tstorm\nState:\t{state}\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t3\n"
            )
        };
        let found = uninterruptible(&status("D (disk sleep)"));
        assert_eq!(found, Some(("storm".into(), 7)));
        assert_eq!(uninterruptible(&status("S (sleeping)")), None);
        assert_eq!(uninterruptible(&status("I (idle)")), None);
    }
}
