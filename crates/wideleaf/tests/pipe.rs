// SPDX-License-Identifier: GPL-2.0-only
//! What happens if nobody reads on: `wideleaf cache list | true`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let cache = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(["cache", "list"])
        .env("XDG_CACHE_HOME", cache.path())
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(nix::libc::SIGPIPE));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
