// SPDX-License-Identifier: GPL-2.0-only
//! The duties of every command to its reader: no panic where nothing can be
//! written, no name that controls a terminal, no name that is lost, status 2
//! for wrong usage, and pages that can be read.

#[path = "common/text.rs"]
mod text;

use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use text::text;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.args(args).stdin(Stdio::null());
    command
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// Commands that print, and with which status they end if all is well.
const PRINTING: &[(&[&str], &[i32])] = &[
    (&["--help"], &[0]),
    (&["--version"], &[0]),
    (&["ps", "--help"], &[0]),
    (&["policy", "simulate", "--size", "2M", "sweep"], &[0]),
    (
        &["policy", "simulate", "--size", "2M", "sweep", "--json"],
        &[0],
    ),
    (&["cache", "list"], &[0]),
    (&["cache", "list", "--json"], &[0]),
    (&["ps"], &[0]),
    (&["ps", "--json"], &[0]),
    (&["inspect", "/proc/self/exe"], &[0]),
    (&["inspect", "--json", "/proc/self/exe"], &[0]),
    (&["inspect", "-o", "FILE", "/proc/self/exe"], &[0]),
    (&["inspect", "--svg", "-", "/proc/self/exe"], &[0]),
    (&["doctor"], &[0, 3]),
    (&["doctor", "--json"], &[0, 3]),
    (&["metrics"], &[0]),
    (&["gen", "completions", "bash"], &[0]),
    (&["lab", "list"], &[0]),
];

#[test]
fn a_full_device_is_an_error_and_no_panic() {
    let cache = tempfile::tempdir().unwrap();
    for (args, well) in PRINTING {
        let run = |out: Stdio, err: Stdio| -> Output {
            command(args)
                .env("XDG_CACHE_HOME", cache.path())
                .stdout(out)
                .stderr(err)
                .output()
                .unwrap()
        };
        let output = run(full().into(), Stdio::piped());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(
            stderr.contains("No space left on device"),
            "{args:?}: {stderr}"
        );
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        // Nobody can be told.
        let status = run(Stdio::null(), full().into()).status;
        assert!(well.contains(&status.code().unwrap()), "{args:?}: {status}");
        assert_eq!(
            run(full().into(), full().into()).status.code(),
            Some(1),
            "{args:?}"
        );
    }
}

#[test]
fn a_reader_that_is_gone_is_no_panic() {
    let cache = tempfile::tempdir().unwrap();
    for (args, _) in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(args)
            .env("XDG_CACHE_HOME", cache.path())
            .stdout(Stdio::from(writer))
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        assert_ne!(output.status.code(), Some(101), "{args:?}");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    for args in [
        &["ps", "-o", "nonsense"][..],
        &["ps", "--sort", "nonsense"],
        &["ps", "--sort", "-"],
        &["ps", "--cpu", "pentium"],
        &["ps", "--cpu", "24K"],
        &["inspect", "--sort", "nonsense", "/proc/self/exe"],
        &["policy", "simulate", "--page-size", "5K"],
        &["policy", "simulate", "--arch", "vax"],
        &["policy", "simulate", "--size", "3"],
        &["policy", "simulate", "--window", "1K"],
        &["policy", "simulate", "--trace", "/proc/self/exe"],
        &["policy", "simulate", "--trace", "/nonexistent"],
        &["policy", "simulate", "--rule", "7.4"],
        &["policy", "simulate", "--trace", "x", "--rule", "7.4"],
        &["metrics", "--output", "/tmp/x"],
        &["metrics", "--listen", "0.0.0.0:1"],
        &["nonsense"],
        &[],
    ] {
        let output = command(args).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(!stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}

/// A program called `gpj.`, U+202E, `exe`, and a byte that is no UTF-8.
fn hostile(dir: &Path) -> PathBuf {
    let path = dir.join(OsStr::from_bytes(b"gpj.\xe2\x80\xaeexe\x1b[2J\xff"));
    fs::copy(env!("CARGO_BIN_EXE_wideleaf"), &path).unwrap();
    path
}

fn harmless(bytes: &[u8]) -> bool {
    let bidi = "\u{202e}".as_bytes();
    !bytes.contains(&0x1b) && !bytes.windows(3).any(|w| w == bidi)
}

#[test]
fn names_reach_no_terminal_as_they_are_and_json_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = hostile(dir.path());
    for args in [
        &["inspect"][..],
        &["inspect", "--map"],
        &["inspect", "--json"],
        &["inspect", "-o", "FILE"],
        &["inspect", "--svg", "-"],
    ] {
        let output = command(args).arg(&path).output().unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{args:?}");
        assert!(
            harmless(&output.stdout) && said.contains("gpj."),
            "{args:?}: {said}"
        );
    }
    let missing = dir.path().join(OsStr::from_bytes(b"\xe2\x80\xae\x1b"));
    for args in [&["inspect"][..], &["inspect", "--json"]] {
        let output = command(args).arg(&missing).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            harmless(&output.stdout) && harmless(&output.stderr),
            "{args:?}"
        );
    }
    let output = command(&["inspect", "--json"]).arg(&path).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = &document["files"][0];
    let bytes: String = path
        .as_os_str()
        .as_bytes()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(file["path_bytes"], bytes);
    let shown = file["path"].as_str().unwrap();
    assert!(
        shown.ends_with("gpj.\u{202e}exe\x1b[2J\u{fffd}"),
        "{shown:?}"
    );
    let output = command(&["inspect", "--json", "/proc/self/exe"])
        .output()
        .unwrap();
    assert!(!text(&output.stdout).contains("path_bytes"));
}

#[test]
fn the_picture_goes_to_standard_output_where_asked() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&[][..], &["--json"], &["-o", "FILE"]] {
        let output = command(&["inspect", "--svg", "-", "/proc/self/exe"])
            .args(args)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = text(&output.stdout);
        assert!(
            said.starts_with("<svg") && said.ends_with("</svg>\n"),
            "{args:?}: {said}"
        );
    }
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "a file called -"
    );
}

#[test]
fn sort_means_the_same_to_ps_and_inspect() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = [3, 1, 2].map(|n| {
        let path = dir.path().join(format!("{n}"));
        fs::copy(env!("CARGO_BIN_EXE_wideleaf"), &path).unwrap();
        path
    });
    let printed = |what: &[&str], args: &[&str], files: &[PathBuf]| -> String {
        let output = command(what).args(args).args(files).output().unwrap();
        let why = text(&output.stderr);
        assert!(output.status.success(), "{args:?}: {why}");
        text(&output.stdout)
    };
    let inspect = |args: &[&str]| -> Vec<String> {
        let last = |line: &str| line.rsplit('/').next().unwrap().to_owned();
        let lines = printed(&["inspect", "-n", "-o", "FILE"], args, &sizes);
        lines.lines().map(last).collect()
    };
    let ps = |args: &[&str]| -> Vec<u32> {
        let lines = printed(&["ps", "-n", "-o", "pid"], args, &[]);
        lines.lines().map(|l| l.trim().parse().unwrap()).collect()
    };
    for (args, ascending) in [
        (&["--sort", "NAME"][..], true),
        (&["--sort", "+NAME"], true),
        (&["--sort", "-NAME"], false),
        (&["--sort", "NAME", "--reverse"], false),
        (&["--sort", "-NAME", "--reverse"], true),
    ] {
        let with =
            |name: &str| -> Vec<String> { args.iter().map(|a| a.replace("NAME", name)).collect() };
        let args = with("file");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let files = inspect(&args);
        assert_eq!(files.is_sorted(), ascending, "{args:?}: {files:?}");
        let args = with("pid");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let pids = ps(&args);
        assert!(
            pids.len() < 2 || pids.is_sorted() == ascending,
            "{args:?}: {pids:?}"
        );
    }
    // Amounts start with the largest.
    let output = command(&["ps", "-nb", "-o", "text", "--sort", "text"])
        .output()
        .unwrap();
    let text: Vec<u64> = text(&output.stdout)
        .lines()
        .map(|l| l.trim().parse().unwrap())
        .collect();
    assert!(text.is_sorted_by(|a, b| a >= b), "{text:?}");
}

#[test]
fn metrics_goes_on_after_a_failed_write() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("later");
    let file = folder.join("wideleaf.prom");
    let mut child = command(&["metrics", "--interval", "1", "--output"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().expect("it has ended").unwrap();
    let missing = format!(
        "--output {}: there is no folder {}: make it first; trying again every 1 s",
        file.display(),
        folder.display()
    );
    assert!(first.contains(&missing), "{first}");
    fs::create_dir(&folder).unwrap();
    let second = lines.next().expect("it has ended").unwrap();
    assert!(second.contains("is written again"), "{second}");
    assert!(file.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // A folder in the file's place, and one that takes no files.
    let occupied = dir.path().join("folder.prom");
    fs::create_dir(&occupied).unwrap();
    for file in [&occupied, Path::new("/proc/x.prom")] {
        let once = command(&["metrics", "--output"]).arg(file).output();
        let once = once.unwrap();
        let said = text(&once.stderr);
        let prefix = format!("wideleaf: --output {}: cannot write: ", file.display());
        assert_eq!(once.status.code(), Some(1));
        assert!(said.starts_with(&prefix), "{said}");
        assert!(!said.contains(".wideleaf-"), "{said}");
    }
}

#[test]
fn examples_in_manual_pages_keep_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let output = command(&["gen", "man"]).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let ps = page("wideleaf-ps.1");
    let (_, notes) = ps.split_once(".nf\n").expect("no unfilled section");
    let (notes, _) = notes.split_once(".fi\n").unwrap();
    assert!(
        notes.contains("\n  wideleaf ps \\-\\-sort text\n"),
        "{notes}"
    );
    assert_eq!(ps.matches("Examples:").count(), 1);
    assert!(page("wideleaf-policy-simulate.1").contains(".TH wideleaf-policy-simulate 1"));
    assert!(
        page("wideleaf-inspect.1").contains("Which programs and libraries have most to gain?\n")
    );
    // As man would show it, where there is one.
    if let Ok(shown) = Command::new("man")
        .args(["-P", "cat", "-l"])
        .arg(dir.path().join("wideleaf-ps.1"))
        .env("MANWIDTH", "80")
        .output()
        && shown.status.success()
    {
        let shown = text(&shown.stdout);
        assert!(
            shown.lines().any(|l| l.trim() == "wideleaf ps --sort text"),
            "{shown}"
        );
    }
}
