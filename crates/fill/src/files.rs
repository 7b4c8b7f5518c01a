// SPDX-License-Identifier: GPL-2.0-only
//! Which files are meant: those that programs load, and those that processes map.

use crate::Error;
use std::path::{Path, PathBuf};
use wideleaf_procmap::Vma;
use wideleaf_stage::libraries;

/// A file that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chosen {
    /// As it is shown.
    pub name: PathBuf,
    /// Where it is opened.
    pub path: PathBuf,
}

impl Chosen {
    /// A file by its own name.
    pub fn named(path: &Path) -> Self {
        Self {
            name: path.to_owned(),
            path: path.to_owned(),
        }
    }
}

/// A program and, with `libs`, the libraries that it loads at its start.
///
/// # Errors
///
/// If its libraries cannot be listed.
pub fn of_program(program: &Path, libs: bool) -> Result<Vec<Chosen>, Error> {
    let mut files = vec![Chosen::named(program)];
    if libs {
        files.extend(libraries(program)?.iter().map(|path| Chosen::named(path)));
    }
    Ok(files)
}

/// The files of a process's text whose mapping can hold a block of `pmd` bytes. Deleted files
/// are in the second list: no process will map it again.
pub fn of_processes<'a>(
    pid: u32,
    vmas: impl Iterator<Item = &'a Vma>,
    pmd: u64,
) -> (Vec<Chosen>, Vec<PathBuf>) {
    let (mut files, mut deleted) = (Vec::new(), Vec::new());
    for vma in vmas.filter(|vma| vma.executable() && vma.inode != 0 && vma.len() >= pmd) {
        let name = PathBuf::from(&vma.name);
        if vma.deleted {
            deleted.push(name);
            continue;
        }
        let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", vma.start, vma.end);
        // By its mapping it is the file whatever has become of its name; that needs root. By its
        // name it is what new processes of the same root would map.
        let path = match Path::new(&mapped).metadata() {
            Ok(_) => PathBuf::from(mapped),
            Err(_) => PathBuf::from(format!("/proc/{pid}/root{}", vma.name)),
        };
        files.push(Chosen { name, path });
    }
    (files, deleted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const M2: u64 = 2 << 20;

    #[test]
    fn a_process_has_files_of_its_text_that_are_large_enough_and_still_there() {
        let line = |text: &str| wideleaf_procmap::mappings(text.as_bytes()).next().unwrap();
        let vmas = [
            line("400000-800000 r-xp 0 08:01 7  /usr/bin/a"),
            line("800000-c00000 r--p 0 08:01 7  /usr/bin/a"),
            line("c00000-d00000 r-xp 0 08:01 8  /usr/lib/small.so"),
            line("e00000-1200000 r-xp 0 08:01 9  /usr/lib/old.so (deleted)"),
            line("1400000-1800000 r-xp 0 00:00 0 "),
        ];
        let (files, deleted) = of_processes(u32::MAX, vmas.iter(), M2);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].name, Path::new("/usr/bin/a"));
        assert_eq!(
            files[0].path,
            Path::new("/proc/4294967295/root/usr/bin/a"),
            "no such process: by its name"
        );
        assert_eq!(deleted, [Path::new("/usr/lib/old.so")]);
    }
}
