// SPDX-License-Identifier: GPL-2.0-only
//! Where stressors run: a cgroup that can be killed as a whole, while others work beside it and all
//! tasks are watched.

use super::{End, NAME, Stressed, Task};
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use wideleaf_guest::kit::crew::Crew;
use wideleaf_guest::kit::watch::hang;
use wideleaf_guest::kit::{cgroup, spawn};

/// Of an output that is no success, so many bytes are kept from its begin and from its end.
const FIRST: usize = 200;
const LAST: usize = 1800;

/// Kinds of processes that the answer for a stressor that was killed tells apart.
const KINDS: usize = 12;

/// Of the kernel's functions that a process is in, so many are told, the innermost.
const CALLS: usize = 8;

/// Bytes that a process can lock in memory, as without [`CAP_IPC_LOCK`]. The stressor `mlock`
/// takes the whole guest else where pages are of 64K.
const LOCKED: u64 = 64 << 20;

/// include/uapi/linux/capability.h.
const CAP_IPC_LOCK: libc::c_ulong = 14;

/// How often it is looked after.
pub const LOOK: Duration = Duration::from_millis(200);

/// Where stressors run, and the processes that run beside them.
pub struct Stage<'a> {
    /// The job's task.
    pub task: &'a Task,
    /// The stressors' cgroup.
    pub group: PathBuf,
    /// Those beside the stressors.
    pub crew: Crew,
}

impl<'a> Stage<'a> {
    /// An empty one.
    pub fn new(task: &'a Task) -> Result<Self> {
        Ok(Self {
            task,
            group: cgroup::unlimited(NAME)?,
            crew: Crew::watched(Duration::from_secs(task.hung_s.into()))?,
        })
    }

    /// The command in the stressors' cgroup, whose words go to the file `output`.
    pub fn command(&self, line: &str, output: &str) -> Result<Command> {
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]);
        let mut command = spawn::command(&self.task.root, line, &env)?;
        let output = File::create(output).with_context(|| output.to_owned())?;
        command.stdout(output.try_clone()?).stderr(output);
        let procs = self.group.join("cgroup.procs");
        let procs = File::options()
            .write(true)
            .open(&procs)
            .context("a cgroup")?;
        // SAFETY: setrlimit, prctl and write are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                setrlimit(Resource::RLIMIT_MEMLOCK, LOCKED, LOCKED)?;
                Errno::result(libc::prctl(libc::PR_CAPBSET_DROP, CAP_IPC_LOCK))?;
                nix::unistd::write(&procs, b"0")?;
                Ok(())
            });
        }
        Ok(command)
    }

    /// How it ended; nothing if it did not within its time, which [`Self::killed`] tells of.
    pub fn wait(&mut self, child: &mut Child) -> Result<Option<ExitStatus>> {
        let limit = Duration::from_secs((self.task.seconds + self.task.grace_s).into());
        let since = Instant::now();
        while since.elapsed() < limit {
            if let Some(status) = child.try_wait().context("waitpid")? {
                return Ok(Some(status));
            }
            self.crew.look()?;
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// The answer for a stressor that did not end, before its processes are ended: the first line
    /// of [`Stressed::said`] has what they do.
    pub fn killed(&self, name: &str, operations: u64, output: &[u8]) -> Stressed {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        let processes = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
        for process in processes.lines() {
            *kinds
                .entry(doing(&Path::new("/proc").join(process)))
                .or_default() += 1;
        }
        let kinds = kinds.iter().take(KINDS);
        let doing: Vec<_> = kinds.map(|(kind, n)| format!("{n} × {kind}")).collect();
        let mut killed = stressed(name, End::Killed, operations, output);
        killed.said = format!("{}\n{}", doing.join("; "), killed.said);
        killed
    }

    /// Ends the processes of a group.
    pub fn end_all(&self, group: &Path) -> Result<()> {
        let since = Instant::now();
        while cgroup::is_populated(group)? {
            cgroup::kill(group)?;
            if since.elapsed() > Duration::from_secs(self.task.hung_s.into()) {
                return Err(hang("SIGKILL does not end all processes".into()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// The answer for a stressor. Both ends of its output are kept if it was no success.
pub fn stressed(name: &str, end: End, operations: u64, output: &[u8]) -> Stressed {
    Stressed {
        name: name.into(),
        end,
        operations,
        said: match end {
            End::Exit(0) => String::new(),
            _ => ends_of(output),
        },
    }
}

/// Name and state of a process, its system call ("running" while it is on a CPU) and, from a
/// kernel that was built to tell (CONFIG_STACKTRACE), the kernel's functions that it is in. All but
/// the name as in proc_pid_stat(5), proc_pid_syscall(5) and proc_pid_stack(5).
fn doing(process: &Path) -> String {
    let read = |file| fs::read_to_string(process.join(file)).unwrap_or_default();
    let first = |text: &str| text.split_whitespace().next().unwrap_or("?").to_owned();
    let stat = read("stat");
    let (name, state) = stat.rsplit_once(')').unwrap_or_default();
    let name = name.split_once('(').unwrap_or_default().1;
    let stack = read("stack");
    let calls = stack.lines().filter_map(|line| line.split_once("] "));
    let calls: Vec<_> = calls
        .filter_map(|(_, call)| call.split('+').next())
        .take(CALLS)
        .collect();
    let mut words = vec![name.to_owned(), first(state), first(&read("syscall"))];
    words.extend((!calls.is_empty()).then(|| calls.join(" < ")));
    words.join(" ")
}

/// How a program ended that has.
pub fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}

/// stress-ng tells at the end what went wrong, and fsx at the begin.
fn ends_of(output: &[u8]) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.len() <= FIRST + LAST {
        return text(output);
    }
    let (first, last) = (&output[..FIRST], &output[output.len() - LAST..]);
    format!("{}\n...\n{}", text(first), text(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_process_ended_is_told() {
        let end = |line: &str| end_of(Command::new("sh").args(["-c", line]).status().unwrap());
        assert_eq!(end("exit 3"), End::Exit(3));
        assert_eq!(end("kill -9 $$"), End::Signal(9));
    }

    #[test]
    fn what_a_process_does_is_told() {
        let process = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(process.path().join(name), text).unwrap();
        file("stat", "12 (a (name)) R 1 12 12 0");
        file("syscall", "running\n");
        assert_eq!(doing(process.path()), "a (name) R running");
        file("syscall", "87 0x7f 0x0\n");
        file(
            "stack",
            "[<0>] do_unlinkat+0x1/0x2\n[<0>] do_syscall_64+0x3/0x4\n",
        );
        assert_eq!(
            doing(process.path()),
            "a (name) R 87 do_unlinkat < do_syscall_64"
        );
    }

    #[test]
    fn of_much_output_both_ends_are_kept() {
        let output = "the begin\n".to_owned() + &"x".repeat(2 * LAST) + "the end\n";
        let words = ends_of(output.as_bytes());
        assert!(words.starts_with("the begin\nx"), "{words}");
        assert!(words.ends_with("xthe end"), "{words}");
        assert!(words.len() < FIRST + LAST + 10, "{words}");
    }
}
