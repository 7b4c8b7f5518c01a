// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf keep`, `enable` and `disable`, on files and in folders of their own.

#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/kill.rs"]
mod kill;
#[path = "common/room.rs"]
mod room;
#[path = "common/text.rs"]
mod text;

use image::{ET_EXEC, Image, R, X, load};
use kill::killed_after;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use text::text;
use wideleaf_fill::{Geometry, Text, narrow};

const M: u64 = 1 << 20;

fn wideleaf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.args(arguments);
    command
}

/// A program with 4M of text and a configuration that keeps it.
struct Kept {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Kept {
    fn new(more: &str) -> Self {
        room::make();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let program = folder.path().join("program");
        let segment = load(R | X, 0, 0x40_0000, 4 * M, 4096);
        fs::write(
            &program,
            Image::new(true, false, ET_EXEC, vec![segment]).bytes(),
        )
        .unwrap();
        File::open(&program).unwrap().sync_all().unwrap();
        let kept = Self { folder, program };
        kept.configure(more);
        kept.narrow();
        kept
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("keep.toml")
    }

    fn configure(&self, more: &str) {
        let text = format!(
            "programs = [\"{}\"]\nlimit = \"64M\"\n{more}\n",
            self.program.display()
        );
        fs::write(self.config(), text).unwrap();
    }

    fn narrow(&self) {
        let sizes = Geometry::here().unwrap();
        let text = Text::read(&self.program, &self.program, sizes.page, sizes.pmd).unwrap();
        narrow(&text, &sizes).unwrap();
    }

    fn keep(&self, options: &[&str]) -> Command {
        let mut command = wideleaf(&["keep"]);
        command.args(options).arg(self.config());
        command
    }
}

#[test]
fn a_pass_widens_and_tells_and_a_second_has_nothing_to_do() {
    let kept = Kept::new("");
    let metrics = kept.folder.path().join("keep.prom");
    kept.configure(&format!("metrics = \"{}\"", metrics.display()));
    let first = kept.keep(&["--once"]).output().unwrap();
    let said = text(&first.stderr);
    let figures = fs::read_to_string(&metrics).unwrap();
    assert!(
        figures.contains("wideleaf_keep_blocks_bytes{file=\""),
        "{figures}"
    );
    if first.status.code() == Some(3) {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(first.status.success(), "{said}");
    assert!(
        said.contains("program: 4M of 4M wide, before unknown; 4M read"),
        "{said}"
    );
    let second = kept.keep(&["--once"]).output().unwrap();
    assert!(
        text(&second.stderr).contains("; 0 read"),
        "{}",
        text(&second.stderr)
    );
}

#[test]
fn it_mends_what_became_narrow_reads_its_file_again_and_is_alone() {
    let kept = Kept::new("interval = 1");
    let mut daemon = kept.keep(&[]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let first = next();
    let second = kept.keep(&["--once"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("another wideleaf keep"),
        "{}",
        text(&second.stderr)
    );
    if first.contains("4M of 4M wide") {
        kept.narrow();
        let mended = next();
        assert!(
            mended.contains("4M of 4M wide, before 4M; 4M read"),
            "{mended}"
        );
    }
    fs::write(kept.config(), "nonsense").unwrap();
    let broken = next();
    assert!(
        broken.contains("keep.toml") && broken.contains("is kept"),
        "{broken}"
    );
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    // What held the lock is gone.
    kept.configure("");
    let after = kept.keep(&["--once"]).output().unwrap();
    assert!(
        matches!(after.status.code(), Some(0 | 3)),
        "{}",
        text(&after.stderr)
    );
}

#[test]
fn a_wrong_file_is_named_with_the_value() {
    let kept = Kept::new("interval = 0");
    let output = kept.keep(&["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("keep.toml: interval: 0"), "{said}");
    let missing = wideleaf(&["keep", "/no/such.toml"]).output().unwrap();
    assert!(text(&missing.stderr).contains("/no/such.toml: No such file"));
}

/// A folder that stands for /, with a file that has no newline at its end.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/tunables.conf"), "glibc.malloc.x=1").unwrap();
    root
}

fn enable(root: &Path, more: &[&str]) -> Command {
    let mut command = wideleaf(&["enable", "--tunable", "always", "--root"]);
    command.arg(root).args(more).arg("/bin/sh");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn disable(root: &Path) -> Command {
    let mut command = wideleaf(&["disable", "--root"]);
    command.arg(root);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn is_as_before(root: &Path) {
    let tunables = fs::read_to_string(root.join("etc/tunables.conf")).unwrap();
    assert_eq!(tunables, "glibc.malloc.x=1");
    assert!(!root.join("etc/wideleaf/keep.toml").exists());
    assert!(!root.join("var/lib/wideleaf/enabled.json").exists());
}

#[test]
fn the_difference_is_shown_then_written_then_undone() {
    let root = root();
    let shown = enable(root.path(), &[]).output().unwrap();
    let diff = text(&shown.stdout);
    assert!(shown.status.success());
    assert!(
        diff.contains("+glibc.elf.thp=1") && diff.contains("+programs = "),
        "{diff}"
    );
    is_as_before(root.path());
    assert!(
        enable(root.path(), &["--write"])
            .output()
            .unwrap()
            .status
            .success()
    );
    let tunables = fs::read_to_string(root.path().join("etc/tunables.conf")).unwrap();
    assert_eq!(tunables, "glibc.malloc.x=1\nglibc.elf.thp=1\n");
    let more = enable(root.path(), &["--write", "--service", "x.service"]);
    assert!({ more }.output().unwrap().status.success());
    let config = fs::read_to_string(root.path().join("etc/wideleaf/keep.toml")).unwrap();
    assert!(
        config.contains("x.service") && config.contains("/sh\"") || config.contains("dash"),
        "{config}"
    );
    let again = enable(root.path(), &["--write"]).output().unwrap();
    assert!(text(&again.stdout).contains("nothing to change"));
    assert!(disable(root.path()).output().unwrap().status.success());
    is_as_before(root.path());
    let twice = disable(root.path()).output().unwrap();
    assert!(text(&twice.stderr).contains("nothing is enabled"));
}

#[test]
fn enable_that_is_killed_at_any_point_is_undone() {
    let mut calls = 0;
    loop {
        let root = root();
        let ended = killed_after(calls, &mut enable(root.path(), &["--write"]));
        let undone = disable(root.path()).output().unwrap();
        assert!(undone.status.success(), "{calls}: {}", text(&undone.stderr));
        is_as_before(root.path());
        if ended {
            break;
        }
        calls += 7;
    }
    assert!(calls > 20, "{calls}");
}

#[test]
fn disable_that_is_killed_at_any_point_is_done_again() {
    let mut calls = 0;
    loop {
        let root = root();
        assert!(
            enable(root.path(), &["--write"])
                .output()
                .unwrap()
                .status
                .success()
        );
        let ended = killed_after(calls, &mut disable(root.path()));
        let undone = disable(root.path()).output().unwrap();
        assert!(undone.status.success(), "{calls}: {}", text(&undone.stderr));
        is_as_before(root.path());
        if ended {
            break;
        }
        calls += 7;
    }
}

#[test]
fn nothing_is_enabled_that_is_not_there() {
    let root = root();
    let output = wideleaf(&["enable", "--write", "--root"])
        .arg(root.path())
        .arg("/no/such")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such: is no file"));
    is_as_before(root.path());
    assert_eq!(
        wideleaf(&["enable"]).output().unwrap().status.code(),
        Some(2)
    );
}
