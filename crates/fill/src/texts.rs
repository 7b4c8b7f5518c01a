// SPDX-License-Identifier: GPL-2.0-only
//! The files that were meant, read, each once.

use crate::files::{Chosen, of_program};
use crate::image::{ImageError, layers, of_image};
use crate::{Error, Geometry, Text};
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wideleaf_stage::Copies;

/// The files that were read, each once, and why others were not.
#[derive(Default)]
pub struct Texts {
    /// Those that were read.
    pub texts: Vec<Text>,
    /// Those that were not.
    pub refused: Vec<(PathBuf, Error)>,
    /// Whether the copy of a staged file is read in its place, which is wide already; else such a
    /// file is refused.
    pub copies: bool,
    seen: HashSet<(u64, u64)>,
}

impl Texts {
    /// Reads a program and, with `libs`, the libraries that it loads at its start.
    pub fn read_program(&mut self, program: &Path, libs: bool, sizes: &Geometry) {
        match of_program(program, libs) {
            Ok(files) => self.read(files, sizes.page, sizes.pmd),
            Err(why) => self.refused.push((program.to_owned(), why)),
        }
    }

    /// Reads the programs of a container image. Most of its files are none, so nothing is said of
    /// those.
    ///
    /// # Errors
    ///
    /// If the image cannot be found or read.
    pub fn read_image(&mut self, image: &str, sizes: &Geometry) -> Result<(), ImageError> {
        let files = of_image(&layers(image)?, sizes.pmd)?;
        let named = self.refused.len();
        self.read(files, sizes.page, sizes.pmd);
        self.refused.truncate(named);
        Ok(())
    }

    /// Reads files that are ELF; `page` and `pmd` in bytes.
    pub fn read(&mut self, files: impl IntoIterator<Item = Chosen>, page: u64, pmd: u64) {
        let copies = Copies::look();
        for Chosen { name, path } in files {
            // A file of an image may have the name of one that is staged here.
            let staged = || copies.cover(&name) && is_same(&name, &path);
            let text = match !self.copies && staged() {
                true => Err(Error::Staged),
                false => Text::read(&name, &path, page, pmd),
            };
            match text {
                Ok(text) if self.seen.insert(text.identity) => self.texts.push(text),
                Ok(_) => {}
                Err(why) => self.refused.push((name, why)),
            }
        }
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
    identity(a) == identity(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const M2: u64 = 2 << 20;

    #[test]
    fn two_names_of_one_file_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        let exe = std::env::current_exe().unwrap();
        std::os::unix::fs::symlink(&exe, &link).unwrap();
        let mut texts = Texts::default();
        let files = [exe.as_path(), &link, folder.path()];
        texts.read(files.map(Chosen::named), 4096, M2);
        assert_eq!((texts.texts.len(), texts.refused.len()), (1, 1));
    }
}
