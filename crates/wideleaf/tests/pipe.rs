// SPDX-License-Identifier: GPL-2.0-only
//! A reader that stops reading: `wideleaf cache list | true`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

fn run_for_nobody(args: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(args)
        .env("XDG_CACHE_HOME", cache.path())
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let output = run_for_nobody(&["cache", "list"]);
    assert_eq!(output.status.signal(), Some(nix::libc::SIGPIPE));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn nor_is_it_an_error_where_the_signal_is_ignored() {
    let kernels = "../../kernel";
    for args in [
        &["lab", "list"][..],
        &["lab", "list", "--json"],
        &["kernel", "--kernel-dir", kernels, "list"],
        &["metrics"],
    ] {
        let output = run_for_nobody(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}
