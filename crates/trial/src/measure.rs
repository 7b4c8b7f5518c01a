// SPDX-License-Identifier: GPL-2.0-only
//! One run of a command.

use serde::Serialize;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use wideleaf_bench::perf::Events;

/// The cost of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// CPU time in user space and in the kernel, of all processes that the command has waited for.
    pub cpu: Duration,
    /// From start to end.
    pub wall: Duration,
    /// Bytes of memory that its largest process had mapped.
    pub memory: u64,
    /// Misses of the first-level instruction TLB, where the CPU counts them.
    pub itlb_misses: Option<u64>,
    /// Page walks for instructions.
    pub itlb_walks: Option<u64>,
    /// Cycles of these.
    pub itlb_walk_cycles: Option<u64>,
}

/// How a run ended.
pub type Ended = ExitStatus;

/// Runs a command to its end; `meanwhile` gets its process number again and again until then.
pub(crate) fn run(
    command: &mut Command,
    meanwhile: Option<&mut dyn FnMut(u32)>,
) -> io::Result<(Run, Ended)> {
    let mut events = Events::of_children();
    events.start();
    let start = Instant::now();
    let child = command.spawn()?;
    let (status, usage) = wait(child, meanwhile)?;
    let wall = start.elapsed();
    events.stop();
    let counts = events.read();
    let count = |name: &str| counts.get(name).and_then(|figure| figure.value());
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    let run = Run {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        wall,
        memory: usage.ru_maxrss as u64 * 1024,
        itlb_misses: count("itlb-misses"),
        itlb_walks: count("itlb-walks"),
        itlb_walk_cycles: count("itlb-walk-cycles"),
    };
    Ok((run, status))
}

/// How often a run is looked at.
const EVERY: Duration = Duration::from_millis(5);

fn wait(
    child: Child,
    meanwhile: Option<&mut dyn FnMut(u32)>,
) -> io::Result<(ExitStatus, libc::rusage)> {
    let pid = child.id();
    let Some(look) = meanwhile else {
        return wait4(pid, 0).map(|ended| ended.expect("it waits"));
    };
    loop {
        if let Some(ended) = wait4(pid, libc::WNOHANG)? {
            return Ok(ended);
        }
        look(pid);
        std::thread::sleep(EVERY);
    }
}

/// Collects a child with what it has used; none if it still runs.
fn wait4(pid: u32, options: i32) -> io::Result<Option<(ExitStatus, libc::rusage)>> {
    loop {
        let mut status = 0;
        // SAFETY: all zero is a value of it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: two places of ours to write to.
        let result = unsafe { libc::wait4(pid as i32, &mut status, options, &mut usage) };
        match result {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
            _ => return Ok(Some((ExitStatus::from_raw(status), usage))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_that_of_all_processes_and_the_status_is_the_commands() {
        let burn = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let script = format!("sh -c '{burn}'; exit 7");
        let (run, ended) = run(Command::new("sh").args(["-c", &script]), None).unwrap();
        assert_eq!(ended.code(), Some(7));
        assert!(run.cpu > Duration::from_millis(2), "{run:?}");
        assert!(run.wall >= run.cpu / 2, "{run:?}");
        assert!(run.memory > 100 << 10, "{run:?}");
    }

    #[test]
    fn a_run_is_looked_at_until_it_ends() {
        let mut looks = 0;
        let mut look = |_| looks += 1;
        run(Command::new("sleep").arg("0.1"), Some(&mut look)).unwrap();
        assert!(looks > 1, "{looks}");
        assert!(run(&mut Command::new("/no/such"), None).is_err());
    }
}
