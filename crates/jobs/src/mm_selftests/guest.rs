// SPDX-License-Identifier: GPL-2.0-only
//! Runs the base's own selftests/mm by their own runner.
//!
//! The runner is a bash script, so the guest becomes a small userland first. Its output is read
//! as it comes: at column 0 the runner's own TAP, after `# ` what the running program writes,
//! which may be TAP again. A program that exceeds its limit is killed, and the runner goes on.

use super::{NAME, Program, Report, Task};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use wideleaf_guest::kit::tap::result_line;
use wideleaf_guest::kit::tap::{Status, Test};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct MmSelftests;

/// The registry's entry.
pub const WORK: MmSelftests = MmSelftests;

impl Work for MmSelftests {
    const NAME: &'static str = NAME;
    /// The tests set it as they need it.
    const WANTS_KHUGEPAGED: bool = true;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        run(task, port)
    }
}

const RUNNER: &str = "./run_vmtests.sh";

/// Lines of a program's output that are kept if it did not pass.
const LOG_LINES: usize = 200;

/// Runs them to the end.
fn run(options: &Task, port: &Port) -> Result<Report> {
    userland(&options.tests)?;
    leave_out(&options.left_out, &options.tests)?;
    let (reader, writer) = std::io::pipe().context("pipe")?;
    let mut command = Command::new(options.tests.join("bash"));
    command
        .arg(RUNNER)
        .current_dir(&options.tests)
        .env_clear()
        .env("PATH", "/bin")
        // The runner would make one by tools that are not here.
        .env("SPLIT_HUGE_PAGE_TEST_XFS_PATH", &options.xfs)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("dup")?)
        .stderr(writer);
    if !options.categories.is_empty() {
        command.args(["-t", &options.categories]);
    }
    let mut runner = command.spawn().context(RUNNER)?;
    // Else our own copies of the writing end would keep it open.
    drop(command);
    let limit = Duration::from_secs(options.test_limit_s.into());
    let mut report = listen(lines(reader), &runner, limit, port);
    let of_none = |program: &Program| !is_of(program, &options.left_out);
    report.programs.retain(of_none);
    end(&mut runner)?;
    ensure!(
        !report.programs.is_empty(),
        "{RUNNER} ran no test: are there such categories: '{}'?",
        options.categories
    );
    Ok(report)
}

/// Where the runner and the tests' scripts expect things.
fn userland(tests: &Path) -> Result<()> {
    for folder in ["/bin", "/usr/bin", "/dev/shm"] {
        fs::create_dir_all(folder).with_context(|| folder.to_owned())?;
    }
    let busybox = tests.join("busybox");
    let status = Command::new(&busybox)
        .args(["--install", "-s", "/bin"])
        .status()
        .with_context(|| busybox.display().to_string())?;
    ensure!(status.success(), "{}: {status}", busybox.display());
    symlink(tests.join("bash"), "/bin/bash").context("/bin/bash")?;
    symlink("/bin/env", "/usr/bin/env").context("/usr/bin/env")?;
    Ok(())
}

/// Puts programs that skip in the place of these.
fn leave_out(names: &[String], tests: &Path) -> Result<()> {
    for name in names {
        let path = tests.join(name);
        ensure!(path.exists(), "no test program {name} to leave out");
        fs::write(&path, "#!/bin/bash\nexit 4\n").with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Whether one of these programs, or of these scripts, was run.
fn is_of(program: &Program, names: &[String]) -> bool {
    let run = program.name.split_whitespace().next();
    names.iter().any(|name| run == Some(name))
}

/// The lines of a pipe, read by a thread, so that waiting for one can have an end.
fn lines(pipe: std::io::PipeReader) -> Receiver<String> {
    let (sender, receiver) = sync_channel(64);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { return };
            let text = String::from_utf8_lossy(&line).into_owned();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

fn listen(lines: Receiver<String>, runner: &Child, limit: Duration, port: &Port) -> Report {
    let mut reader = Reader::default();
    let mut since = Instant::now();
    loop {
        let left = limit.saturating_sub(since.elapsed());
        match lines.recv_timeout(left) {
            Ok(line) => {
                if let Some(program) = reader.line(&line) {
                    since = Instant::now();
                    // Only decoration.
                    let _ = port.send(&Message::Progress { text: program });
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                reader.killed(limit);
                kill_below(runner.id());
                since = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return reader.report,
        }
    }
}

/// The runner's end. What it left behind, it left running on purpose or by mistake; power-off ends
/// it.
fn end(runner: &mut Child) -> Result<()> {
    let status = runner.wait().context(RUNNER)?;
    ensure!(status.code().is_some(), "{RUNNER}: {status}");
    Ok(())
}

/// Kills what the process has started, apart from the sed(1) by which the runner passes a
/// program's output on: that must come to its end by itself.
fn kill_below(ancestor: u32) {
    let processes = processes();
    let mut doomed = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = doomed.get(next) {
        let children = processes.iter().filter(|process| process.parent == parent);
        doomed.extend(children.filter(|p| p.name != "sed").map(|p| p.pid));
        next += 1;
    }
    for pid in doomed.into_iter().skip(1) {
        let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    name: String,
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            process(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
        })
        .collect()
}

/// From /proc/PID/stat: `12 (name) S 1 ...`; a name may hold anything.
fn process(pid: u32, stat: &str) -> Option<Process> {
    let (head, tail) = stat.rsplit_once(')')?;
    Some(Process {
        pid,
        parent: tail.split_whitespace().nth(1)?.parse().ok()?,
        name: head.split_once('(')?.1.to_owned(),
    })
}

/// A result as khugepaged, which does not speak TAP, writes it: what it did, and in colour how
/// that went.
fn coloured(group: &str, line: &str) -> Option<Test> {
    let (name, rest) = line.split_once(" \x1b[")?;
    let status = match rest.get(..3)? {
        "31m" => Status::Fail,
        "32m" => Status::Pass,
        "33m" => Status::Skip,
        _ => return None,
    };
    Some(Test {
        name: format!("{group}: {}", name.trim_end_matches('.')),
        status,
        reason: String::new(),
    })
}

/// Understands the runner's output.
#[derive(Default)]
struct Reader {
    report: Report,
    /// Of khugepaged's tests: `collapse_full (khugepaged:anon)`.
    group: String,
    /// Of the program that runs: what it told of its tests, and its last lines.
    tests: Vec<Test>,
    log: VecDeque<String>,
    killed: Option<String>,
}

impl Reader {
    /// Takes a line. Gives the program's name when one begins.
    fn line(&mut self, line: &str) -> Option<String> {
        if let Some(result) = result_line(line) {
            self.ended(result);
            return None;
        }
        let said = line.strip_prefix("# ")?;
        if let Some(command) = said.strip_prefix("running ") {
            self.begun();
            return Some(command.to_owned());
        }
        if let Some(group) = said.strip_prefix("Run test: ") {
            self.group = group.to_owned();
        }
        let result = result_line(said).or_else(|| coloured(&self.group, said));
        self.tests.extend(result);
        if self.log.len() == LOG_LINES {
            self.log.pop_front();
        }
        self.log.push_back(said.to_owned());
        None
    }

    fn begun(&mut self) {
        self.tests.clear();
        self.log.clear();
        self.group.clear();
        self.killed = None;
    }

    fn killed(&mut self, limit: Duration) {
        self.killed = Some(format!("killed after {} s", limit.as_secs()));
    }

    fn ended(&mut self, mut result: Test) {
        let lines: Vec<_> = self.log.drain(..).collect();
        let failed = |test: &Test| test.status == Status::Fail;
        // khugepaged exits with the number of its failures, and 4 means that it was skipped.
        if result.status == Status::Skip && self.tests.iter().any(failed) {
            result.status = Status::Fail;
            result.reason = "exit=4".to_owned();
        }
        let passed = result.status == Status::Pass;
        self.report.programs.push(Program {
            name: result.name,
            status: result.status,
            reason: self.killed.take().unwrap_or(result.reason),
            tests: std::mem::take(&mut self.tests),
            log: if passed {
                String::new()
            } else {
                lines.join("\n")
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "TAP version 13
# -----------------------
# running ./mremap_test
# -----------------------
# 1..3
# # mremap failed: Invalid argument
# ok 1 # XFAIL mremap - Source and Destination Regions Overlapping
# \tmremap time:        11386ns
# ok 2 8KB mremap - Source PTE-aligned, Destination PTE-aligned
# [PASS]
ok 1 mremap_test
# SKIP ./on-fault-limit
# running ./cow
# ok 1 Basic COW after fork()
# not ok 2 # no such luck
# ok 3 # SKIP need more hugetlb pages
# [FAIL]
not ok 2 cow # exit=1
# running ./migration
# [SKIP]
ok 3 migration # SKIP
# SUMMARY: PASS=1 SKIP=1 FAIL=1
1..3
";

    fn read(output: &str) -> (Vec<String>, Report) {
        let mut reader = Reader::default();
        let begun = output.lines().filter_map(|line| reader.line(line));
        (begun.collect(), reader.report)
    }

    #[test]
    fn programs_with_their_tests() {
        let (begun, report) = read(OUTPUT);
        assert_eq!(begun, ["./mremap_test", "./cow", "./migration"]);
        let told: Vec<_> = report
            .programs
            .iter()
            .map(|p| (p.name.as_str(), p.status, p.tests.len(), p.reason.as_str()))
            .collect();
        use Status::{Fail, Pass, Skip};
        assert_eq!(
            told,
            [
                ("mremap_test", Pass, 2, ""),
                ("cow", Fail, 3, "exit=1"),
                ("migration", Skip, 0, ""),
            ]
        );
        let cow = &report.programs[1];
        let statuses: Vec<_> = cow.tests.iter().map(|test| test.status).collect();
        assert_eq!(statuses, [Pass, Fail, Skip]);
        assert!(cow.log.starts_with("ok 1 Basic COW"), "{}", cow.log);
        assert_eq!(report.programs[0].log, "");
    }

    #[test]
    fn khugepageds_tests_are_told_apart_by_their_group() {
        let (_, report) = read(
            "# running ./khugepaged
# Run test: collapse_full (khugepaged:anon)
# Allocate huge page on fault... \x1b[32mOK\x1b[0m
# Run test: alloc_at_fault
# Split huge PMD on MADV_DONTNEED... \x1b[31mFail\x1b[0m
ok 1 khugepaged # SKIP
",
        );
        use Status::{Fail, Pass};
        assert_eq!(report.programs[0].status, Fail);
        let tests = &report.programs[0].tests;
        let told: Vec<_> = tests.iter().map(|t| (t.name.as_str(), t.status)).collect();
        assert_eq!(
            told,
            [
                (
                    "collapse_full (khugepaged:anon): Allocate huge page on fault",
                    Pass
                ),
                ("alloc_at_fault: Split huge PMD on MADV_DONTNEED", Fail),
            ]
        );
    }

    #[test]
    fn what_is_left_out_skips_and_is_known_by_its_name() {
        let tests = tempfile::tempdir().unwrap();
        let names = ["cow".to_owned()];
        assert!(leave_out(&names, tests.path()).is_err());
        fs::write(tests.path().join("cow"), "").unwrap();
        leave_out(&names, tests.path()).unwrap();
        let script = fs::read_to_string(tests.path().join("cow")).unwrap();
        assert!(script.ends_with("exit 4\n"), "{script}");
        let (_, mut report) = read("ok 1 cow -x # SKIP\nok 2 cow2\n");
        report.programs.retain(|program| !is_of(program, &names));
        assert_eq!(report.programs.len(), 1);
    }

    #[test]
    fn of_an_endless_output_the_end_is_kept() {
        let mut reader = Reader::default();
        reader.line("# running ./transhuge-stress");
        for n in 0..1000 {
            reader.line(&format!("# line {n}"));
        }
        reader.line("not ok 1 transhuge-stress # exit=1");
        let log = &reader.report.programs[0].log;
        assert_eq!(log.lines().count(), LOG_LINES);
        assert!(log.ends_with("line 999"));
    }

    #[test]
    fn a_program_that_was_killed_says_so_and_the_next_does_not() {
        let mut reader = Reader::default();
        reader.line("# running ./cow");
        reader.killed(Duration::from_secs(120));
        reader.line("not ok 1 cow # exit=137");
        reader.line("# running ./rmap");
        reader.line("not ok 2 rmap # exit=1");
        let reasons: Vec<_> = reader.report.programs.iter().map(|p| &p.reason).collect();
        assert_eq!(reasons, ["killed after 120 s", "exit=1"]);
    }

    #[test]
    fn processes_with_odd_names() {
        let found = process(12, "12 (a) b (c) S 7 12 12 0").unwrap();
        assert_eq!((found.parent, found.name.as_str()), (7, "a) b (c"));
        let own = std::process::id();
        assert!(processes().iter().any(|process| process.pid == own));
    }

    #[test]
    fn what_a_process_started_is_killed_but_for_sed() {
        // The shell stands for the runner: a program that does not end, its output through sed.
        let mut sh = Command::new("sh");
        sh.args(["-c", "(sleep 100; true) | sed s/^/x/; echo over"])
            .stdout(Stdio::piped());
        let runner = sh.spawn().unwrap();
        while !processes()
            .iter()
            .any(|p| p.parent == runner.id() && p.name == "sed")
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_below(runner.id());
        let output = runner.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"over\n");
    }
}
