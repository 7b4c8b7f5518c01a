// SPDX-License-Identifier: GPL-2.0-only
//! A program with 6M of text that says how wide it is: wide.c.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes it in a folder.
pub fn compile(folder: &Path, name: &str, options: &[&str]) {
    fs::write(folder.join("wide.c"), include_str!("wide.c")).unwrap();
    let output = Command::new("gcc")
        .args(["-O1", "-Wl,-z,separate-code", "-o", name, "wide.c"])
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
