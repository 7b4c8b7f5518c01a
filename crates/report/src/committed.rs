// SPDX-License-Identifier: GPL-2.0-only
//! All figures that are committed: rows of matrices, and sheets.

use crate::compact::Row;
use crate::sheet::Sheet;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Rows and sheets, of which tables are made.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Rows by name.
    pub rows: Vec<Row>,
    /// Tables that no row has the figures of, by name.
    pub sheets: Vec<Sheet>,
}

impl Figures {
    /// Those of all these files and folders.
    ///
    /// # Errors
    ///
    /// If one cannot be read or was changed by hand; if a folder has none.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut figures = Self::default();
        for path in paths {
            match path.is_dir() {
                true => figures.add_folder(path)?,
                false => figures.add(path)?,
            }
        }
        Ok(figures)
    }

    fn add_folder(&mut self, folder: &Path) -> Result<()> {
        let what = || format!("cannot read {}", folder.display());
        let items = std::fs::read_dir(folder).with_context(what)?;
        let paths: std::io::Result<Vec<_>> = items.map(|item| Ok(item?.path())).collect();
        let mut paths = paths.with_context(what)?;
        let known = |path: &PathBuf| path.extension().is_some_and(|e| e == "json" || e == "toml");
        paths.retain(known);
        paths.sort();
        ensure!(
            !paths.is_empty(),
            "{}: no figures in this folder: 'wideleaf lab report RESULTS --compact FOLDER' \
             writes some",
            folder.display()
        );
        paths.iter().try_for_each(|path| self.add(path))
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        match path.extension().is_some_and(|ending| ending == "toml") {
            true => self.sheets.push(Sheet::read(path)?),
            false => self.rows.push(Row::read(path)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_figures_are_whole_and_below_four_megabytes() {
        let folder = PathBuf::from("../../results");
        let figures = Figures::read(std::slice::from_ref(&folder)).unwrap();
        assert!(figures.rows.len() > 80, "{}", figures.rows.len());
        assert!(!figures.sheets.is_empty());
        let files = std::fs::read_dir(folder).unwrap();
        let bytes: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes < 4 << 20, "{bytes}");
    }

    #[test]
    fn a_folder_without_figures_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Figures::read(&[folder.path().into()])
            .unwrap_err()
            .to_string();
        assert!(error.contains("--compact"), "{error}");
    }
}
