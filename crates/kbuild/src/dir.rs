// SPDX-License-Identifier: GPL-2.0-only
//! Finds the folder with our kernel files.

use crate::{Base, SeriesName};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The environment variable that names the folder.
pub const ENV: &str = "WIDELEAF_KERNEL_DIR";

/// The folder `kernel/`: the series, fragments, faults to plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDir(PathBuf);

impl KernelDir {
    /// Takes `given` (the command line's), else the environment's, else the
    /// one found by walking up from the current folder, else the one that was
    /// installed with this program (`PREFIX/share/wideleaf/kernel`) or that it
    /// was compiled beside.
    pub fn find(given: Option<&Path>) -> Result<Self> {
        let env = std::env::var_os(ENV).map(PathBuf::from);
        if let Some((path, by)) = given
            .map(|path| (path.to_path_buf(), "--kernel-dir"))
            .or(env.map(|path| (path, ENV)))
        {
            return Self::at(&path).map_err(|e| e.context(format!("given by {by}")));
        }
        let cwd = std::env::current_dir().unwrap_or_default();
        let compiled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let exe = std::env::current_exe().unwrap_or_default();
        let installed = exe
            .ancestors()
            .nth(2)
            .map(|prefix| prefix.join("share/wideleaf"));
        let others = installed.as_deref().into_iter().chain([compiled.as_path()]);
        for above in cwd.ancestors().chain(others) {
            if let Ok(found) = Self::at(&above.join("kernel")) {
                return Ok(found);
            }
        }
        bail!(
            "no folder with Wideleaf's kernel files above {}: install the package wideleaf-lab, or name it with \
             --kernel-dir or {ENV}",
            cwd.display()
        )
    }

    /// Takes `path`, which must look like the folder.
    pub fn at(path: &Path) -> Result<Self> {
        // A kernel tree has a folder `kernel` as well, with a folder `configs`.
        if !path.join("config/base.config").is_file() {
            bail!(
                "{}: not Wideleaf's kernel folder: it has no config/base.config",
                path.display()
            );
        }
        Ok(Self(path.canonicalize()?))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The fragment `name`.
    pub fn fragment(&self, name: &str) -> PathBuf {
        self.0.join("config").join(format!("{name}.config"))
    }

    /// The faults that kernels of `base` can get.
    pub(crate) fn planted(&self, base: Base) -> PathBuf {
        self.0.join("planted").join(base.name())
    }

    /// The folder of a series.
    pub fn series(&self, name: SeriesName) -> SeriesDir {
        SeriesDir::at(self.0.join(name.name()))
    }
}

/// The folder of a series, `kernel/<series>/`: patches per base, overlay, cover letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesDir(PathBuf);

impl SeriesDir {
    /// Takes `path`, whatever is there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder with the patches and the series file for `base`.
    pub fn of(&self, base: Base) -> PathBuf {
        self.0.join(base.name())
    }

    /// The overlay file for the tree's path `file`.
    pub fn overlay(&self, file: &str) -> PathBuf {
        self.0.join("overlay").join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_folder_must_be_ours() {
        let dir = tempfile::tempdir().unwrap();
        let error = KernelDir::find(Some(dir.path())).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("--kernel-dir"), "{text}");
        assert!(text.contains("config/base.config"), "{text}");
        std::fs::create_dir(dir.path().join("config")).unwrap();
        std::fs::write(dir.path().join("config/base.config"), "").unwrap();
        KernelDir::find(Some(dir.path())).unwrap();
    }
}
