// SPDX-License-Identifier: GPL-2.0-only
//! The guest's first process.
//!
//! PID 1 itself only supervises: the work is done by one child, so that a crash of the work is
//! an answer and not a kernel panic. While the child runs, PID 1 sleeps in one system call, for
//! whatever it did would be counted by the plugin. Whatever happens, the machine is off in the end.

use crate::kit::detailed::Detailed;
use crate::kit::{huge_pages, memory};
use crate::place::Place;
use crate::port::Port;
use crate::power::{self, power_off};
use crate::protocol::{Failure, JOB_PATH, Job, Message, VERSION};
use crate::work::AnyWork;
use crate::{hello, setup};
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static PORT: OnceLock<Port> = OnceLock::new();

/// Exit status of a child that has sent its own error; not one that a child could end with by
/// any other way.
const TOLD: i32 = 87;

/// Whether this process was started as a guest's init: PID 1, called `/init`.
#[must_use]
pub fn wanted() -> bool {
    getpid().as_raw() == 1
        && std::env::args_os()
            .next()
            .is_some_and(|name| name == "/init")
}

/// Runs the guest from mount to power-off, with one of these jobs. Only for PID 1; see [`wanted`].
pub fn main(jobs: &[&dyn AnyWork]) -> ! {
    std::panic::set_hook(Box::new(on_panic));
    match connect() {
        Ok(port) => {
            if let Err(error) = supervise(jobs, port) {
                tell(failure(&error));
            }
            send(&Message::Done(hello::farewell()));
        }
        // Without a port there is only the console to tell.
        Err(error) => eprintln!("wideleaf: {error:#}"),
    }
    power_off()
}

/// Mounts what must be there to be heard.
fn connect() -> Result<&'static Port> {
    setup::pseudo_filesystems()?;
    let port = Port::find()?;
    Ok(PORT.get_or_init(|| port))
}

/// Reads the job, has it done, and sees to it that its end is told.
fn supervise(jobs: &[&dyn AnyWork], port: &Port) -> Result<()> {
    port.send(&Message::Hello(hello::hello()?))?;
    let (known, job) = find(jobs, JOB_PATH)?;
    known.in_init(&job.task, job.disk.as_ref())?;
    let limit = Duration::from_secs(job.time_limit_s.into());
    // Before the fork, or the child could end before PID 1 is ready to hear of it.
    let mut chld = SigSet::empty();
    chld.add(Signal::SIGCHLD);
    chld.thread_block().context("sigprocmask")?;
    // SAFETY: there is one thread, so the child may do whatever the parent could.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Child => {
            let unblocked = chld.thread_unblock().context("sigprocmask");
            finish(unblocked.and_then(|()| work(known, &job, port)))
        }
        ForkResult::Parent { child } => watch(child, limit),
    }
}

/// Runs the job in the file `path` in a machine of which another program is the first process.
pub(crate) fn serve(jobs: &[&dyn AnyWork], path: &str) {
    std::panic::set_hook(Box::new(on_panic));
    let served = Port::find().and_then(|port| {
        let port = PORT.get_or_init(|| port);
        let (known, job) = find(jobs, path)?;
        let place = Place {
            window: None,
            device: job.disk.as_ref().map(|disk| disk.device.as_str()),
            cgroup: None,
            holder: None,
        };
        answer(known, &job, &place, port)
    });
    if let Err(error) = served {
        power::do_not_wait();
        tell(failure(&error));
    }
    send(&Message::Done(hello::farewell()));
}

/// The job in the file `path`, and what is done for it here.
fn find<'a>(jobs: &[&'a dyn AnyWork], path: &str) -> Result<(&'a dyn AnyWork, Job)> {
    let text = fs::read_to_string(path).with_context(|| path.to_string())?;
    let job = read_job(&text)?;
    let known = jobs.iter().find(|known| known.name() == job.name);
    let known = known.with_context(|| {
        format!(
            "{}: no job of this guest; both come from one build",
            job.name
        )
    })?;
    Ok((*known, job))
}

fn read_job(text: &str) -> Result<Job> {
    let job: Job = serde_json::from_str(text)
        .with_context(|| format!("{JOB_PATH}: not a job that this guest understands"))?;
    ensure!(
        job.version == VERSION,
        "{JOB_PATH}: protocol version {}, this guest speaks {VERSION}; both come from one build",
        job.version
    );
    ensure!(job.time_limit_s > 0, "{JOB_PATH}: a time limit of 0 s");
    Ok(job)
}

/// The child's part: mounts the disk, makes memory scarce, does the work.
fn work(known: &dyn AnyWork, job: &Job, port: &Port) -> Result<()> {
    if !known.wants_khugepaged() {
        huge_pages::quiet_khugepaged()?;
    }
    let window = job.disk.as_ref().map(setup::disk).transpose()?;
    let place = Place {
        window,
        device: job.disk.as_ref().map(|disk| disk.device.as_str()),
        holder: memory::hold(&job.memory)?,
        cgroup: job.memory.limit.map(memory::limit).transpose()?,
    };
    answer(known, job, &place, port)
}

fn answer(known: &dyn AnyWork, job: &Job, place: &Place<'_>, port: &Port) -> Result<()> {
    let outcome = known.run(&job.task, place, port)?;
    port.send(&Message::Result { outcome })
        .context("cannot send the result")
}

/// The child's end.
fn finish(result: Result<()>) -> ! {
    let status = match result {
        Ok(()) => 0,
        Err(error) => {
            tell(failure(&error));
            TOLD
        }
    };
    // SAFETY: ends the process; there is nothing to clean up.
    unsafe { libc::_exit(status) }
}

/// Waits for the child, but not longer than the limit.
fn watch(child: Pid, limit: Duration) -> Result<()> {
    if !child_ended(limit)? {
        let failure = Failure {
            what: format!(
                "the job did not end within its limit of {} s",
                limit.as_secs()
            ),
            details: whereabouts(child),
        };
        // The kernel's view of who waits for what, for the console's log.
        let _ = fs::write("/proc/sysrq-trigger", "w");
        tell(failure);
        // A child that cannot die is no reason to wait for it: power-off ends it.
        let _ = kill(child, Signal::SIGKILL);
        power::do_not_wait();
        return Ok(());
    }
    match waitpid(child, None).context("waitpid")? {
        WaitStatus::Exited(_, 0) => Ok(()),
        WaitStatus::Exited(_, TOLD) => {
            power::do_not_wait();
            Ok(())
        }
        WaitStatus::Exited(_, status) => {
            fail(format!("the job's process ended with status {status}"))
        }
        WaitStatus::Signaled(_, signal, _) => {
            fail(format!("the job's process was killed by {signal}"))
        }
        other => fail(format!("the job's process: {other:?}")),
    }
}

/// Sleeps until SIGCHLD comes, or the limit.
fn child_ended(limit: Duration) -> Result<bool> {
    let mut chld = SigSet::empty();
    chld.add(Signal::SIGCHLD);
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = TimeSpec::from_duration(left);
        // SAFETY: valid pointers for the duration of the call; no siginfo is asked for.
        let result =
            unsafe { libc::sigtimedwait(chld.as_ref(), std::ptr::null_mut(), timeout.as_ref()) };
        match Errno::result(result) {
            Ok(_) => return Ok(true),
            Err(Errno::EAGAIN) => return Ok(false),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("sigtimedwait"),
        }
    }
}

/// What the kernel tells of a process that does not end.
fn whereabouts(pid: Pid) -> Vec<String> {
    ["wchan", "syscall", "stack"]
        .iter()
        .filter_map(|name| {
            let text = fs::read_to_string(format!("/proc/{pid}/{name}")).ok()?;
            Some(format!("{name}: {}", text.trim_end()))
        })
        .collect()
}

fn fail(what: String) -> Result<()> {
    tell(Failure {
        what,
        details: Vec::new(),
    });
    Ok(())
}

fn failure(error: &anyhow::Error) -> Failure {
    let details = error
        .downcast_ref()
        .map(|Detailed(failure)| &failure.details);
    Failure {
        what: format!("{error:#}"),
        details: details.cloned().unwrap_or_default(),
    }
}

/// Sends an error, and shows it on the console too.
fn tell(failure: Failure) {
    eprintln!("wideleaf: {}", failure.what);
    send(&Message::Error(failure));
}

fn send(message: &Message) {
    if let Some(port) = PORT.get()
        && let Err(error) = port.send(message)
    {
        eprintln!("wideleaf: cannot answer: {error}");
    }
}

/// Reports a panic of either process; with `panic = "abort"` nobody could catch it.
fn on_panic(info: &std::panic::PanicHookInfo<'_>) {
    tell(Failure {
        what: format!("bug in wideleaf: {info}"),
        details: Vec::new(),
    });
    if getpid().as_raw() == 1 {
        send(&Message::Done(hello::farewell()));
        power_off();
    }
    // SAFETY: ends the process; unwinding would be of no use.
    unsafe { libc::_exit(TOLD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_not_init() {
        assert!(!wanted());
    }

    #[test]
    fn a_job_of_another_build_is_refused() {
        let error = |text: &str| format!("{:#}", read_job(text).unwrap_err());
        let stale = r#"{"version":99,"time_limit_s":1,"name":"boot","task":{}}"#;
        assert!(error(stale).contains("99"), "{}", error(stale));
        let endless = r#"{"version":3,"time_limit_s":0,"name":"boot","task":{}}"#;
        assert!(error(endless).contains("0 s"), "{}", error(endless));
        assert!(read_job(&endless.replace(":0,", ":5,")).is_ok());
    }
}
