// SPDX-License-Identifier: GPL-2.0-only
//! Runs a program three times: from an empty page cache, again with all that this left there, and
//! once more to see which leaves map the text of its processes when they end. Only the third is
//! traced, for tracing costs instructions.

use crate::kit::program::{Program, Run, Worked};
use crate::kit::{marker, spawn, trace};
use crate::protocol::Message;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::prctl;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::process::Command;
use wideleaf_bench::system::{Evict, ReadCounter, Reads};

/// Where standard output goes: into memory, so that the disk is only read.
const OUTPUT: &str = "/tmp/output";

/// Where standard error goes.
const COMPLAINT: &str = "/tmp/complaint";

/// Room for the mappings of one program among the coverage records.
const MAPPINGS: u64 = 10_000;

/// Output up to so many bytes is told whole; of more, its beginning.
const TOLD: usize = 4096;

/// Of a failure's standard error, so many bytes from its end.
const LAST: usize = 2000;

/// Has processes that a program leaves behind become children of this one, which ends them.
///
/// # Errors
///
/// If the kernel refuses.
pub fn adopt_leftovers() -> Result<()> {
    prctl::set_child_subreaper(true).context("PR_SET_CHILD_SUBREAPER")
}

/// A program that is to run three times.
pub struct Runner<'a> {
    /// The folder that it sees as `/`.
    pub root: &'a str,
    /// The program.
    pub program: &'a Program,
    /// Its place among those of the guest: its phases and its mappings are numbered by it.
    pub number: u8,
    /// Counts the bytes that are read.
    pub counter: &'a ReadCounter,
    /// Hears of phases and of how it goes.
    pub tell: &'a dyn Fn(Message) -> Result<()>,
    /// Whether it is to be recorded from which pages the warm run executes.
    pub record: bool,
    /// Sizes of leaves by which its mappings are cut, as [`trace::text_at_exit`] takes them.
    pub leaves: &'a [u64],
}

impl Runner<'_> {
    /// The number of the first of its mappings' records.
    pub fn first_mapping(&self) -> u64 {
        u64::from(self.number) * MAPPINGS
    }

    /// The phases of its runs, and what they are called after its name.
    pub fn phases(&self) -> [(u8, &'static str); 2] {
        [(2 * self.number + 1, "cold"), (2 * self.number + 2, "warm")]
    }

    /// Prepares it, and runs it from an empty page cache and once more. The complaint says why it
    /// failed, if it did.
    ///
    /// # Errors
    ///
    /// If the guest cannot do what it should.
    pub fn count(&self) -> Result<Worked> {
        let mut worked = Worked {
            name: self.program.name.clone(),
            ..Worked::default()
        };
        if !self.program.prepare.is_empty() {
            self.say("preparing")?;
            let (run, complaint) = self.commands(&self.program.prepare)?;
            worked.complaint = complaint;
            worked.cold.status = run.status;
        }
        self.say("running")?;
        let folder = File::open(self.root).with_context(|| self.root.to_string())?;
        Evict::DropCaches.run(&folder)?;
        for (id, name) in self.phases() {
            if worked.complaint.is_empty() {
                let (run, complaint) = self.phase(id, name)?;
                worked.complaint = complaint;
                match name {
                    "cold" => worked.cold = run,
                    _ => worked.warm = run,
                }
            }
        }
        Ok(worked)
    }

    /// Tells what is done to it.
    ///
    /// # Errors
    ///
    /// If nobody can be told.
    pub fn say(&self, what: &str) -> Result<()> {
        let text = format!("{what} {}", self.program.name);
        (self.tell)(Message::Progress { text })
    }

    /// A run that is counted, and why it failed.
    fn phase(&self, id: u8, name: &str) -> Result<(Run, String)> {
        // No file's page comes or goes in the warm run, and none waits for the disk.
        let record = self.record && name == "warm";
        let name = format!("{}.{name}", self.program.name);
        (self.tell)(Message::Phase { id, name })?;
        let (before, cached) = (self.reads()?, page_cache()?);
        if record {
            marker::begin_record();
        }
        marker::enter(id);
        let result = self.commands(&self.program.commands);
        marker::leave();
        if record {
            marker::end_record();
        }
        let (mut run, complaint) = result?;
        let reads = self.reads()?.since(before);
        run.read_bytes = reads.bytes;
        run.read_requests = reads.requests.unwrap_or(0);
        run.page_cache = page_cache()?.saturating_sub(cached);
        if !complaint.is_empty() {
            return Ok((run, complaint));
        }
        let output = fs::read(OUTPUT)?;
        let lines = lines(&output, &self.program.ignore);
        run.output = summary(&lines);
        let missing = self
            .program
            .expect
            .iter()
            .find(|text| !lines.contains(*text));
        let lacks = |text| format!("its output lacks '{text}': {}", run.output);
        let complaint = missing.map(lacks).unwrap_or_default();
        Ok((run, complaint))
    }

    /// Runs commands up to the first that fails, and says why it did.
    fn commands(&self, commands: &[Vec<String>]) -> Result<(Run, String)> {
        let output = File::create(OUTPUT).context(OUTPUT)?;
        let mut run = Run::default();
        for words in commands {
            let mut command = self.command(words, &output)?;
            let child = command.spawn().with_context(|| words.join(" "))?;
            let (status, usage) = spawn::wait(&child)?;
            run.status.push(status);
            run.minor_faults += usage.ru_minflt.cast_unsigned();
            run.major_faults += usage.ru_majflt.cast_unsigned();
            let complaint = self.complaint(words, status)?;
            if !complaint.is_empty() {
                return Ok((run, complaint));
            }
        }
        Ok((run, String::new()))
    }

    fn command(&self, words: &[String], output: &File) -> Result<Command> {
        let Self { root, program, .. } = self;
        let words = words.iter().map(String::as_str);
        let mut command = spawn::command_of(root, words, &program.env)?;
        command
            .stdout(output.try_clone()?)
            .stderr(File::create(COMPLAINT)?);
        if program.user != 0 {
            as_user(&mut command, program.user);
        }
        Ok(command)
    }

    /// Why a command failed; empty if it did not.
    fn complaint(&self, words: &[String], status: i32) -> Result<String> {
        let left = leftovers()?;
        if status == 0 && left == 0 {
            return Ok(String::new());
        }
        let said = fs::read(COMPLAINT)?;
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LAST)..]);
        let how = match (status, left) {
            (0, _) => format!("left {left} processes behind"),
            _ => ending(status),
        };
        Ok(format!("{}: {how}: {}", words.join(" "), said.trim()))
    }

    fn reads(&self) -> Result<Reads> {
        self.counter
            .read()
            .map_err(|figure| anyhow::anyhow!("{figure:?}"))
    }

    /// Runs all commands once more, and looks at each of their processes when it ends.
    ///
    /// # Errors
    ///
    /// If one fails now, or has no text.
    pub fn look(&self, worked: &mut Worked) -> Result<()> {
        self.say("looking at")?;
        let first = self.first_mapping();
        let output = File::create(OUTPUT).context(OUTPUT)?;
        for words in &self.program.commands {
            let command = self.command(words, &output)?;
            let seen = worked.text.len() as u64;
            let ended = trace::text_at_exit(command, first + seen, MAPPINGS - seen, self.leaves)
                .with_context(|| format!("looking at {}", words.join(" ")))?;
            if ended.status != 0 {
                bail!("looking at {}: {}", words.join(" "), ending(ended.status));
            }
            worked.text.extend(ended.text);
            worked.processes += ended.processes;
            worked.unseen += ended.unseen;
            worked.page_tables = worked.page_tables.max(ended.page_tables);
        }
        ensure!(!worked.text.is_empty(), "no process had text at its end");
        Ok(())
    }
}

/// The command gives up what root may, in its own process.
fn as_user(command: &mut Command, user: u32) {
    // SAFETY: these are system calls. The command's own setuid would come before its chroot.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setgid(user.into())?;
            nix::unistd::setuid(user.into()).map_err(Into::into)
        });
    }
}

/// Ends what a command left behind, and says how many processes that were. One that has ended by
/// itself is none.
fn leftovers() -> Result<usize> {
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    let mut left = 0;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => left += end_children()?,
            Ok(_) => {}
            Err(nix::errno::Errno::ECHILD) => return Ok(left),
            Err(error) => return Err(error).context("waitpid"),
        }
    }
}

/// Kills the children of this process and waits for them; what they leave comes next.
fn end_children() -> Result<usize> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::{Pid, getpid};
    let mut ended = 0;
    for entry in fs::read_dir("/proc").context("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if parent(&stat) == Some(getpid().as_raw()) {
            let pid = Pid::from_raw(pid);
            kill(pid, Signal::SIGKILL).context("kill")?;
            nix::sys::wait::waitpid(pid, None).context("waitpid")?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// The parent in a line of `/proc/PID/stat`. The name before it may hold anything.
fn parent(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// How a process ended, from wait(2)'s status.
fn ending(status: i32) -> String {
    match libc::WIFSIGNALED(status) {
        true => format!("signal {}", libc::WTERMSIG(status)),
        false => format!("status {}", libc::WEXITSTATUS(status)),
    }
}

/// Lines in which none of `ignore` stands.
fn lines(output: &[u8], ignore: &[String]) -> String {
    let text = String::from_utf8_lossy(output);
    let kept = text
        .split_inclusive('\n')
        .filter(|line| !ignore.iter().any(|text| line.contains(text.as_str())));
    kept.collect()
}

/// Text that differs where `text` does, and is not long.
fn summary(text: &str) -> String {
    if text.len() <= TOLD {
        return text.into();
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let head: String = text.chars().take(TOLD / 4).collect();
    format!(
        "{head}\n[{} bytes in all, hash {:016x}]\n",
        text.len(),
        hasher.finish()
    )
}

/// Bytes of the page cache, without memory that is shared and what tmpfs holds.
fn page_cache() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    let (cached, shared) = (kib("Cached:"), kib("Shmem:"));
    let cached = cached.context("/proc/meminfo has no Cached")?;
    Ok((cached - shared.unwrap_or_default().min(cached)) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_ignored_do_not_count() {
        let ignore = ["tps".to_string(), "time".to_string()];
        let output = b"done 20\ntps = 3.7\nlatency time 4\nend";
        assert_eq!(lines(output, &ignore), "done 20\nend");
        assert_eq!(lines(output, &[]).len(), output.len());
    }

    #[test]
    fn long_output_is_told_apart_by_what_is_not_shown() {
        let long = "x".repeat(TOLD);
        assert_eq!(summary(&long), long);
        let (one, other) = (long.clone() + "a", long + "b");
        assert!(summary(&one).len() < TOLD / 2, "{}", summary(&one));
        assert_ne!(summary(&one), summary(&other));
        assert_eq!(summary(&one), summary(&one.clone()));
    }

    #[test]
    fn a_parent_is_read_behind_any_name() {
        assert_eq!(parent("7 (a) b (c)) S 42 7 7 0"), Some(42));
        assert_eq!(parent(""), None);
    }

    #[test]
    fn an_ending_is_told_by_its_status_or_its_signal() {
        assert_eq!(ending(3 << 8), "status 3");
        assert_eq!(ending(9), "signal 9");
    }
}
