// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf top` on a terminal: whatever ends or stops it, the terminal is
//! left as it was.

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// `top` on a terminal of its own.
struct Top {
    pid: Pid,
    keyboard: File,
    terminal: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
    before: Termios,
}

// `Top::ended` waits for it, and sees it stop, which `Child` cannot.
#[allow(clippy::zombie_processes)]
fn start() -> Top {
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(Some(&size), None).unwrap();
    let before = tcgetattr(&pty.slave).unwrap();
    let end = || Stdio::from(pty.slave.try_clone().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command
        .args(["top", "--delay", "0.5"])
        .env("TERM", "xterm")
        .stdin(end())
        .stdout(end())
        .stderr(end());
    // SAFETY: setsid(2) and ioctl(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            nix::errno::Errno::result(nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 0))?;
            Ok(())
        })
    };
    let child = command.spawn().unwrap();
    let screen = Arc::new(Mutex::new(Vec::new()));
    let mut output = File::from(pty.master.try_clone().unwrap());
    let seen = screen.clone();
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(n @ 1..) = output.read(&mut part) {
            seen.lock().unwrap().extend_from_slice(&part[..n]);
        }
    });
    Top {
        pid: Pid::from_raw(child.id() as i32),
        keyboard: File::from(pty.master),
        terminal: pty.slave,
        screen,
        before,
    }
}

impl Top {
    fn shown(&self, text: &str) -> usize {
        let screen = self.screen.lock().unwrap();
        String::from_utf8_lossy(&screen).matches(text).count()
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < PATIENCE, "{what} did not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal)
            .unwrap()
            .local_flags
            .contains(LocalFlags::ICANON)
    }

    fn drawn(&self) {
        self.until("the table", || self.shown("LOAD%") > 0 && self.is_raw());
    }

    fn as_before(&self) -> bool {
        let now = tcgetattr(&self.terminal).unwrap();
        now.local_flags == self.before.local_flags && now.input_flags == self.before.input_flags
    }

    fn ended(&self) -> WaitStatus {
        ended(self.pid)
    }
}

fn ended(pid: Pid) -> WaitStatus {
    let start = Instant::now();
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
    loop {
        match waitpid(pid, Some(flags)).unwrap() {
            WaitStatus::StillAlive => assert!(start.elapsed() < PATIENCE, "it does not end"),
            status => return status,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_terminal_is_restored_before_a_signal_ends_it() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let top = start();
        top.drawn();
        kill(top.pid, signal).unwrap();
        // By the signal, so that a shell stops its script for INT and QUIT.
        let status = top.ended();
        assert!(
            matches!(status, WaitStatus::Signaled(_, by, _) if by == signal),
            "{signal}: {status:?}"
        );
        assert!(top.as_before(), "{signal}: still raw");
        top.until("the other screen", || top.shown(LEAVE) == 1);
    }
}

#[test]
fn ctrl_z_stops_it_and_it_goes_on_where_it_was() {
    for by_key in [true, false] {
        let mut top = start();
        top.drawn();
        match by_key {
            true => top.keyboard.write_all(b"\x1a").unwrap(),
            false => kill(top.pid, Signal::SIGTSTP).unwrap(),
        }
        let status = top.ended();
        assert!(
            matches!(status, WaitStatus::Stopped(..)),
            "{by_key}: {status:?}"
        );
        assert!(top.as_before(), "{by_key}: still raw while stopped");
        top.until("the other screen", || top.shown(LEAVE) == 1);
        kill(top.pid, Signal::SIGCONT).unwrap();
        top.until("the table again", || top.shown(ENTER) >= 2 && top.is_raw());
        top.keyboard.write_all(b"q").unwrap();
        let status = top.ended();
        let screen = String::from_utf8_lossy(&top.screen.lock().unwrap()).into_owned();
        assert_eq!(status, WaitStatus::Exited(top.pid, 0), "{screen}");
        assert!(top.as_before());
    }
}

/// The terminal goes, as with `tmux kill-session`; the shell's SIGHUP is not needed.
#[test]
fn it_ends_when_its_terminal_is_gone() {
    let top = start();
    top.drawn();
    // The master stays open in the reading thread, so hang up as a dying session leader does.
    let Top { pid, terminal, .. } = top;
    // SAFETY: a request without an argument on an open descriptor.
    let done = unsafe { nix::libc::ioctl(terminal.as_raw_fd(), nix::libc::TIOCVHANGUP) };
    if done < 0 {
        eprintln!("SKIPPED: hanging up a terminal needs root");
        kill(pid, Signal::SIGKILL).unwrap();
        return;
    }
    let status = ended(pid);
    assert!(
        matches!(status, WaitStatus::Signaled(_, Signal::SIGHUP, _)),
        "{status:?}"
    );
}
