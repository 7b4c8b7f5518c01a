// SPDX-License-Identifier: GPL-2.0-only
//! However a run ends, it leaves no temporary files and no child.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wideleaf_lab::vm::scratch::{Scratch, Tethered, install};

/// Makes [`as_a_run`] be one; its value is the folder to work in.
const FOLDER: &str = "WIDELEAF_TEST_FOLDER";

/// Not a test by itself: what the tests start as a process of its own.
#[test]
#[ignore = "no test: the tests here start it as a process of its own"]
fn as_a_run() {
    let folder = std::env::var(FOLDER).expect("started by a test");
    install();
    let scratch = Scratch::new(Path::new(&folder)).unwrap();
    std::fs::write(scratch.join("ram"), "guest memory").unwrap();
    let mut guest = Tethered::spawn(Command::new("sleep").arg("1000")).unwrap();
    println!("\nguest {}", guest.id());
    std::thread::sleep(Duration::from_secs(if folder.ends_with("panic") {
        0
    } else {
        60
    }));
    let _ = guest.try_wait();
    // Not caught, as in release builds, where a panic aborts.
    std::thread::spawn(|| {
        let _abort = Abort;
        panic!("asked to");
    })
    .join()
    .unwrap();
}

struct Abort;

impl Drop for Abort {
    fn drop(&mut self) {
        std::process::abort();
    }
}

struct Started {
    run: Child,
    guest: Pid,
}

fn start(folder: &Path) -> Started {
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_run", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let guest = lines
        .find_map(|line| line.unwrap().strip_prefix("guest ")?.parse().ok())
        .expect("the run tells its guest's number");
    let guest = Pid::from_raw(guest);
    Started { run, guest }
}

/// Longer than a busy machine may take to end a process.
const PATIENCE: Duration = Duration::from_secs(300);

fn ends_soon(guest: Pid) {
    let since = Instant::now();
    // A zombie still has its number until init has taken note of it.
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{guest}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    while alive() {
        assert!(since.elapsed() < PATIENCE, "the guest lives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn signals_leave_nothing_and_end_the_run_as_they_would() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let folder = tempfile::tempdir().unwrap();
        let mut started = start(folder.path());
        assert_eq!(entries(folder.path()), 1);
        kill(Pid::from_raw(started.run.id() as i32), signal).unwrap();
        let status = started.run.wait().unwrap();
        assert_eq!(status.signal(), Some(signal as i32));
        assert_eq!(entries(folder.path()), 0, "{signal}");
        ends_soon(started.guest);
    }
}

#[test]
fn a_panic_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("panic");
    std::fs::create_dir(&folder).unwrap();
    let mut started = start(&folder);
    let status = started.run.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32));
    assert_eq!(entries(&folder), 0);
    ends_soon(started.guest);
}

#[test]
fn kill_9_leaves_no_guest_and_the_next_run_sweeps() {
    let folder = tempfile::tempdir().unwrap();
    let mut started = start(folder.path());
    started.run.kill().unwrap();
    started.run.wait().unwrap();
    ends_soon(started.guest);
    assert_eq!(entries(folder.path()), 1);
    drop(Scratch::new(folder.path()).unwrap());
    assert_eq!(entries(folder.path()), 0);
}
