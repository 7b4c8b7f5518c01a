// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf try`: what a script gets of it.

#[path = "common/text.rs"]
mod text;

use serde_json::Value;
use std::process::{Command, Output};
use text::text;

fn try_it(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.arg("try").args(arguments).output().unwrap()
}

#[test]
fn a_program_that_has_nothing_to_gain_is_told_why() {
    let output = try_it(&["--json", "--runs", "2", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "wideleaf-try-1");
    assert_eq!(json["refused"].as_array().unwrap().len(), 4, "{json}");
    let why = json["refused"][0]["why"].as_str().unwrap();
    assert!(why.contains("holds no whole block"), "{why}");
}

/// No means at all is one, too: both sides are the same, and the verdict must not be that one
/// gains for sure by much.
#[test]
fn two_sides_have_ratios_intervals_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let report = page.to_str().unwrap();
    let options = [
        "--runs", "6", "--means", "none", "--json", "--report", report,
    ];
    let command = [
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done",
    ];
    let output = try_it(&[&options[..], &command].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sides = json["sides"].as_array().unwrap();
    let names: Vec<_> = sides
        .iter()
        .map(|side| side["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["plain", "none"]);
    assert!(
        sides
            .iter()
            .all(|side| side["runs"].as_array().unwrap().len() == 6)
    );
    let cpu = &sides[1]["ratios"][0];
    assert_eq!(cpu["quantity"], "cpu");
    let number = |key: &str| cpu[key].as_f64().unwrap();
    assert!(
        number("low") <= number("median") && number("median") <= number("high"),
        "{cpu}"
    );
    assert_eq!(cpu["pairs"], 6);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<figure") && page.contains("while [ $i"),
        "{page}"
    );
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let cases = [
        (&["--", "/no/such"][..], 1, "/no/such: No such file"),
        (
            &["--", "sh", "-c", "echo broken >&2; exit 5"],
            1,
            "exit status: 5 (broken)",
        ),
        (
            &["--report", "/no/such/page", "--", "true"],
            1,
            "--report /no/such/page",
        ),
        (&["--runs", "1", "--", "true"], 2, "--runs"),
        (&["--means", "magic", "--", "true"], 2, "magic"),
        (&[], 2, "COMMAND"),
    ];
    for (arguments, status, why) in cases {
        let output = try_it(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}
