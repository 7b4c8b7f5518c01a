// SPDX-License-Identifier: GPL-2.0-only
//! Programs that UPX has packed: what each command says, and that they run.
//! UPX is Debian's package upx-ucl; `WIDELEAF_UPX` names another one.

#![allow(missing_docs)]

#[path = "common/text.rs"]
mod text;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use text::text;

fn upx() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("WIDELEAF_UPX") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = std::env::split_paths(&folders).flat_map(|f| [f.join("upx"), f.join("upx-ucl")]);
    names.into_iter().find(|path| path.is_file())
}

fn wideleaf(args: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.args(args).arg(file).output().unwrap()
}

#[test]
fn a_packed_program_is_told_as_such_and_left_as_it_is() {
    let Some(upx) = upx() else {
        eprintln!("SKIPPED: no upx here: Debian's package upx-ucl has it");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packed");
    std::fs::copy("/bin/bash", &path).unwrap();
    let packing = Command::new(upx).args(["-q", "-1"]).arg(&path).output();
    let packing = packing.unwrap();
    assert!(packing.status.success(), "{}", text(&packing.stderr));
    let bytes = std::fs::read(&path).unwrap();

    let said = wideleaf(&["inspect", "--json"], &path).stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    let file = &said["files"][0];
    assert_eq!((&file["packer"], &file["text"]), (&"upx".into(), &0.into()));

    for args in [&["align", "--in-place"][..], &["stage"]] {
        let output = wideleaf(args, &path);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            text(&output.stderr).contains("upx -d"),
            "{}",
            text(&output.stderr)
        );
    }
    assert!(std::fs::read(&path).unwrap() == bytes);

    let mut run = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    let output = run.arg("run").arg(&path).args(["-c", "echo ran; exit 7"]);
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(output.stdout, b"ran\n");
    assert!(
        text(&output.stderr).contains("upx -d"),
        "{}",
        text(&output.stderr)
    );
}
