// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf bench` as a user runs it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .arg("bench")
        .args(args)
        .output()
        .unwrap()
}

/// A path on the disk that holds the build, for /tmp may be tmpfs.
fn place(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn json_holds_the_figures_and_no_file_stays() {
    let dir = place("bench-json");
    let _ = std::fs::create_dir(&dir);
    let output = bench(&[
        "exec",
        "--size",
        "1M",
        "--json",
        "--dir",
        dir.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["size"], 1 << 20);
    assert!(report["cold"]["faults"]["minor"].is_u64());
    assert_eq!(
        report["random"]["calls"],
        8 * report["stubs"].as_u64().unwrap()
    );
    let events = report["random"]["events"].as_object().unwrap();
    assert!(
        events
            .values()
            .all(|e| e.is_u64() || e["not_available"].is_string()),
        "{events:?}"
    );
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn the_table_pipes() {
    let path = place("bench-table");
    let file = path.to_str().unwrap();
    let output = bench(&["exec", "-n", "--size", "1M", "--file", file, "--no-random"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let calls: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words[1] == "calls")
        .collect();
    assert_eq!(calls.len(), 1, "{text}");
    assert_eq!(calls[0][0], "cold");
    assert!(path.exists(), "--file is kept");
    // And used again, with its own size.
    let again = bench(&["exec", "--json", "--file", file]);
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(report["size"], 1 << 20);
}

#[test]
fn bad_requests_fail_and_say_what_would_be_right() {
    for (args, words) in [
        (&["exec", "--size", "100001"][..], "multiple"),
        (&["exec", "--size", "lots"], "64K, 512M"),
        (&["exec", "--stride", "wide"], "`page`"),
        (&["exec", "--file", "/etc/passwd"], "wideleaf bench create"),
        (&["exec", "--dir", "/no/such/place"], "/no/such/place"),
        (
            &["create", "/tmp/never", "--arch", "vax"],
            "arm64 and x86_64",
        ),
    ] {
        let output = bench(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{args:?}"
        );
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn a_full_disk_below_the_output_is_an_error_not_a_panic() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        eprintln!("skipped: no /dev/full here");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(["bench", "exec", "--size", "1M", "--no-cold"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}
