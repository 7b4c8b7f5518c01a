// SPDX-License-Identifier: GPL-2.0-only
//! Other commands on a file that is staged: a copy lies over it.

#![allow(missing_docs)]

#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/library.rs"]
mod library;
#[path = "common/text.rs"]
mod text;
#[path = "common/unshared.rs"]
mod unshared;

use library::library;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use unshared::{both, unshared};

const M: u64 = 1 << 20;

/// Stages a library whose text is shifted by a page, then does what `script` says; all that is
/// printed. None if the host has no namespaces, or no huge pages on a tmpfs.
fn staged(script: &str) -> Option<String> {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("prog");
    fs::write(&path, library(6 * M)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let script =
        format!("\"$W\" stage --run-dir \"$PWD/run\" ./prog >/dev/null || exit 9\n{script}");
    let output = unshared(&script, |command| {
        command
            .current_dir(dir.path())
            .env("W", env!("CARGO_BIN_EXE_wideleaf"));
    })?;
    let said = both(&output);
    if output.status.code() == Some(9) {
        eprintln!("SKIPPED: nothing can be staged here: {said}");
        return None;
    }
    Some(said)
}

#[test]
fn inspect_speaks_of_the_original_and_says_that_it_is_staged() {
    let Some(said) = staged("\"$W\" inspect ./prog; \"$W\" inspect --json ./prog") else {
        return;
    };
    assert!(said.contains("page shift"), "{said}");
    assert!(said.contains("staged: new processes get"), "{said}");
    let json = &said[said.find("{\n").unwrap()..];
    let document: serde_json::Value = serde_json::from_str(json).unwrap();
    let file = &document["files"][0];
    assert_eq!(file["staged"], true, "{file}");
    assert!(file["gain"].as_u64().unwrap() > 0, "{file}");
}

#[test]
fn run_does_not_copy_what_is_staged() {
    // It cannot be executed, which the kernel says afterwards.
    let script = "\"$W\" run --verbose --means namespace ./prog";
    let Some(said) = staged(script) else {
        return;
    };
    assert!(said.contains("its copy is on huge pages already"), "{said}");
    assert!(!said.contains("in a mount namespace of its own"), "{said}");
}
