// SPDX-License-Identifier: GPL-2.0-only
//! Reports of `lab run --ktap` and `--junit` on a run that cannot begin.

use std::process::{Command, Output};

fn lab_run(cache: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args([
            "lab",
            "run",
            "--job",
            "boot",
            "--base",
            "all",
            "--page-size",
            "64K",
        ])
        .args(["--kernel-dir", "/nonexistent"])
        .args(arguments)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap()
}

#[test]
fn the_first_comparison_is_an_error_and_the_others_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let xml = folder.path().join("run.xml");
    let run = lab_run(
        folder.path(),
        &["--ktap", "-", "--junit", xml.to_str().unwrap()],
    );
    assert_eq!(run.status.code(), Some(1));
    let out = String::from_utf8(run.stdout).unwrap();
    let lines: Vec<_> = out.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[..2], ["KTAP version 1", "1..2"], "{out}");
    assert!(
        lines[2].starts_with("not ok 1 boot 6.12 arm64 64K # ERROR "),
        "{out}"
    );
    assert!(
        lines[3].starts_with("ok 2 boot 7.3 arm64 64K # SKIP "),
        "{out}"
    );
    let xml = std::fs::read_to_string(xml).unwrap();
    assert!(
        xml.contains("tests=\"2\" skipped=\"1\" failures=\"0\" errors=\"1\""),
        "{xml}"
    );
}

#[test]
fn names_that_were_given_are_looked_for_before_all_else() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (
            ["--kernel", "pristine=/no/such"],
            "--kernel pristine=/no/such: cannot read it: No such file",
        ),
        (
            ["--plant", "flood"],
            "--plant flood: no fault 'flood' for Linux 6.12 on arm64: known are ",
        ),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_wideleaf"))
            .args(["lab", "run", "storm", "--guest-bin", "/no/guest"])
            .args(arguments)
            .env("XDG_CACHE_HOME", folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn two_of_them_cannot_share_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let run = lab_run(folder.path(), &["--ktap", "-", "--json", "-"]);
    assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0));
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.contains("name files for the others"), "{said}");
}
