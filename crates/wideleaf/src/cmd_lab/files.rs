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
    let what = || folder.display().to_string();
    let items: std::io::Result<Vec<_>> = std::fs::read_dir(folder).with_context(what)?.collect();
    let paths = items
        .with_context(what)?
        .into_iter()
        .map(|item| item.path());
    let ends_so = |path: &PathBuf| path.extension().is_some_and(|end| end == ending);
    let mut files: Vec<_> = paths.filter(ends_so).collect();
    ensure!(
        !files.is_empty(),
        "{}: none of the files in this folder ends in .{ending}",
        what()
    );
    files.sort();
    Ok(files)
}
