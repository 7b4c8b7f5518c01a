// SPDX-License-Identifier: GPL-2.0-only
//! In every crate of the workspace data flows one way.

use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_circles::circle;

/// The root files of all crates.
fn roots() -> Vec<PathBuf> {
    // Cargo runs tests in their package's folder.
    let folder = Path::new("..");
    let crates = fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().path());
    let roots = crates.flat_map(|dir| ["src/lib.rs", "src/main.rs"].map(|root| dir.join(root)));
    roots.filter(|root| root.exists()).collect()
}

#[test]
fn no_crate_has_a_circle_of_files() {
    let roots = roots();
    assert!(roots.len() > 15, "{roots:?}");
    let circles: Vec<String> = roots
        .iter()
        .filter_map(|root| circle(root).unwrap())
        .map(|circle| {
            let names: Vec<_> = circle
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            names.join("\n  uses ")
        })
        .collect();
    assert!(
        circles.is_empty(),
        "files in circles:\n{}",
        circles.join("\n\n")
    );
}
