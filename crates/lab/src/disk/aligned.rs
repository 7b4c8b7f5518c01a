// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align` for all programs and libraries below a folder, as it would
//! do them in place.

use anyhow::{Context, Result, ensure};
use ignore::WalkBuilder;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use wideleaf_align::{HardLinks, Options, Refusal, Status, Target, align};
use wideleaf_cache::Key;

/// What can be mapped by leaves of 2M already is left as it is.
fn options() -> Options {
    Options {
        leaf: 2 << 20,
        force: false,
        always: false,
        strippable: true,
        only_gaining: false,
        overlay: false,
        merge: false,
        dry_run: false,
        note: false,
        hard_links: HardLinks::All,
        names: Vec::new(),
        backup: None,
    }
}

/// The part of a disk's key that says whether, and by which build, its programs are aligned.
///
/// # Errors
///
/// If this program's own file cannot be read.
pub fn key(is_aligned: bool) -> Result<Key> {
    let key = Key::new();
    if !is_aligned {
        return Ok(key);
    }
    let program = std::env::current_exe().context("this program's own file")?;
    key.file("aligned", &program)
}

/// Aligns everything below `root` that is a program or a library. Returns how
/// many files have new offsets.
///
/// # Errors
///
/// A program or library that was refused for what is in it, with the reason; a folder that cannot
/// be read; or that there was nothing to align.
pub fn align_all(root: &Path) -> Result<usize> {
    let options = options();
    let mut aligned = 0;
    for entry in WalkBuilder::new(root).standard_filters(false).build() {
        let entry = entry?;
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || !is_elf(entry.path())? {
            continue;
        }
        match align(entry.path(), Target::InPlace, &options) {
            Ok(report) => aligned += usize::from(report.status == Status::Aligned),
            // Objects, which no loader ever sees, and what it does not change unasked, as a setuid
            // program.
            Err(Refusal::Kind(_) | Refusal::Protected(_)) => {}
            Err(refusal) => {
                return Err(refusal).with_context(|| entry.path().display().to_string());
            }
        }
    }
    ensure!(aligned > 0, "{}: nothing to align", root.display());
    Ok(aligned)
}

fn is_elf(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut head))
        .with_context(|| path.display().to_string())?;
    Ok(head == b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// The test's own executable is a program that the linker has not aligned at
    /// 2M.
    #[test]
    fn programs_are_aligned_and_nothing_else_is_touched() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("usr/bin");
        fs::create_dir_all(&bin).unwrap();
        let program = std::env::current_exe().unwrap();
        fs::copy(&program, bin.join("program")).unwrap();
        fs::hard_link(bin.join("program"), bin.join("other")).unwrap();
        std::os::unix::fs::symlink("program", bin.join("link")).unwrap();
        fs::write(bin.join("script"), "#!/bin/sh\n").unwrap();
        fs::write(bin.join("empty"), "").unwrap();
        let setgid = bin.join("setgid");
        fs::copy(&program, &setgid).unwrap();
        fs::set_permissions(&setgid, fs::Permissions::from_mode(0o2755)).unwrap();
        assert_eq!(align_all(root.path()).unwrap(), 1);
        let read = |name: &str| fs::read(bin.join(name)).unwrap();
        assert!(read("program") != fs::read(&program).unwrap());
        assert!(read("program") == read("other"));
        assert!(read("setgid") == fs::read(&program).unwrap());
        assert!(bin.join("link").symlink_metadata().unwrap().is_symlink());
        assert_eq!(read("script"), b"#!/bin/sh\n");
        let again = align_all(root.path()).unwrap_err().to_string();
        assert!(again.contains("nothing to align"), "{again}");
    }

    #[test]
    fn a_damaged_program_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cut"), b"\x7fELF\x02\x01\x01").unwrap();
        let error = format!("{:#}", align_all(root.path()).unwrap_err());
        assert!(error.contains("cut: "), "{error}");
    }
}
