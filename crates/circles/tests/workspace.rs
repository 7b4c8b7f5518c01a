// SPDX-License-Identifier: GPL-2.0-only
//! In every crate of the workspace, and in the kernel's files, data flows one way.

use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_circles::{circle, circle_of_c};

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

fn said(circle: &[PathBuf]) -> String {
    let names: Vec<_> = circle
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join("\n  uses ")
}

#[test]
fn no_crate_has_a_circle_of_files() {
    let roots = roots();
    assert!(roots.len() > 15, "{roots:?}");
    let circles: Vec<String> = roots
        .iter()
        .filter_map(|root| circle(root).unwrap())
        .map(|circle| said(&circle))
        .collect();
    assert!(
        circles.is_empty(),
        "files in circles:\n{}",
        circles.join("\n\n")
    );
}

#[test]
fn no_series_has_a_circle_of_files() {
    for series in ["fixes", "reads", "khugepaged", "linear-map"] {
        let overlay = Path::new("../../kernel").join(series).join("overlay");
        if let Some(circle) = circle_of_c(&overlay).unwrap() {
            panic!("files in a circle:\n{}", said(&circle));
        }
    }
}
