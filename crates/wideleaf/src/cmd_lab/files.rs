// SPDX-License-Identifier: GPL-2.0-only
//! Which files of a folder a command means.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The files of a folder whose names end so, by name.
///
/// # Errors
///
/// If there is none.
pub fn files_in(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut files = items_of(folder)?;
    files.retain(|path| ends_in(path, ending));
    ensure!(
        !files.is_empty(),
        "{}: none of the files in this folder ends in .{ending}",
        folder.display()
    );
    Ok(files)
}

/// The same of a folder and all folders in it; there may be none.
///
/// # Errors
///
/// If one cannot be read.
pub fn files_below(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in items_of(folder)? {
        if path.is_dir() {
            files.extend(files_below(&path, ending)?);
        } else if ends_in(&path, ending) {
            files.push(path);
        }
    }
    Ok(files)
}

fn ends_in(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|end| end == ending)
}

fn items_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || folder.display().to_string();
    let items = std::fs::read_dir(folder).with_context(what)?;
    let paths: std::io::Result<Vec<_>> = items.map(|item| Ok(item?.path())).collect();
    let mut paths = paths.with_context(what)?;
    paths.sort();
    Ok(paths)
}
