// SPDX-License-Identifier: GPL-2.0-only
//! Tells a program by its build-id, whatever its path. A program without one is told by its size
//! and the time of its last change.

use crate::Error;
use object::{Object, ReadCache};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program, by its content.
#[derive(Clone, Debug)]
pub struct Program {
    /// Without symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) id: String,
}

impl Program {
    /// Reads what it is told by.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let found = path.canonicalize().and_then(|path| {
            let id = identity(&path)?;
            Ok(Self { path, id })
        });
        found.map_err(|error| Error::Io {
            path: path.to_owned(),
            error,
        })
    }
}

fn identity(program: &Path) -> io::Result<String> {
    let file = File::open(program)?;
    let metadata = file.metadata()?;
    if let Some(id) = build_id(file) {
        let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        return Ok(format!("build-id:{digits}"));
    }
    let changed = (metadata.mtime(), metadata.mtime_nsec());
    Ok(format!(
        "file:{}:{}.{:09}",
        metadata.size(),
        changed.0,
        changed.1
    ))
}

/// A longer one is no linker's.
const LONGEST: usize = 64;

fn build_id(file: File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let id = elf.build_id().ok()??;
    (1..=LONGEST).contains(&id.len()).then(|| id.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_program_with_a_build_id_is_the_same_program() {
        let dir = tempfile::tempdir().unwrap();
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let copy = dir.path().join("copy");
        std::fs::copy(&shell, &copy).unwrap();
        let (of_shell, of_copy) = (identity(&shell).unwrap(), identity(&copy).unwrap());
        assert!(of_shell.starts_with("build-id:"), "{of_shell}");
        assert_eq!(of_shell, of_copy);
    }

    #[test]
    fn a_file_without_one_is_another_program_once_it_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, "one").unwrap();
        let before = identity(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        assert_ne!(identity(&path).unwrap(), before);
        assert!(identity(&dir.path().join("none")).is_err());
    }
}
