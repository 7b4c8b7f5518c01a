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
fn the_report_shows_a_result_and_the_command_for_the_lab_s() {
    let result = place("bench-result");
    let file = result.to_str().unwrap();
    let output = bench(&["exec", "--size", "1M", "--result", file]);
    assert!(output.status.success(), "{output:?}");
    let report = Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(["lab", "report", file])
        .output()
        .unwrap();
    let page = String::from_utf8(report.stdout).unwrap();
    assert!(page.contains("What processors counted"), "{page}");
    assert!(
        page.contains("--size 1M --stride 4K --calls 2048 --seed 1"),
        "{page}"
    );
    let lost = bench(&[
        "exec",
        "--size",
        "1M",
        "--json",
        "--result",
        "/no/such/place",
    ]);
    assert_eq!(lost.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&lost.stderr).contains("/no/such/place"));
    let shown = serde_json::from_slice::<Value>(&lost.stdout);
    assert!(shown.is_ok(), "what was measured is not lost");
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
    for (args, status, words) in [
        (&["exec", "--size", "100001"][..], 2, "multiple"),
        (&["exec", "--size", "lots"], 2, "64K, 512M"),
        (&["exec", "--size", "0"], 2, "size 0"),
        (&["exec", "--stride", "wide"], 2, "`page`"),
        (&["exec", "--calls", "0"], 2, "0 random calls"),
        (&["exec", "--align", "3M"], 2, "power of two"),
        (
            &["exec", "--no-cold", "--no-random"],
            2,
            "nothing to measure",
        ),
        (
            &["exec", "--file", "/etc/passwd"],
            1,
            "wideleaf bench create",
        ),
        (&["exec", "--dir", "/no/such/place"], 1, "/no/such/place"),
        (
            &["create", "/tmp/never", "--arch", "vax"],
            2,
            "arm64, x86_64",
        ),
        (&["create", "/tmp/never", "--size", "5000"], 2, "4K and 8K"),
        (&["create", "/no/such/place"], 1, "/no/such/place"),
    ] {
        let output = bench(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
    let small = place("bench-small");
    let file = small.to_str().unwrap();
    assert!(bench(&["create", file, "--size", "64K"]).status.success());
    for name in ["aarch64", "amd64"] {
        let path = place(&format!("bench-{name}"));
        let file = path.to_str().unwrap();
        let other = bench(&["create", file, "--size", "64K", "--arch", name]);
        assert!(other.status.success(), "{name}: {other:?}");
        std::fs::remove_file(path).unwrap();
    }
    let output = bench(&["exec", "--file", file, "--size", "1M"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the file has 64K"), "{error}");
}

#[test]
fn a_full_disk_below_the_output_is_an_error_not_a_panic() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        eprintln!("SKIPPED: no /dev/full here");
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
