// SPDX-License-Identifier: GPL-2.0-only
//! The program that is to be run: where it is, and whether anything can be done
//! for it.

use crate::Unfit;
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wideleaf_elf::{Class, Elf, FileSource, FileVerdict, fix, judge};
use wideleaf_loads::remembered;
use wideleaf_stage::listed;

/// An ELF file whose text could be mapped wide.
pub struct Image {
    /// Without symbolic links.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    pub mode: u32,
    pub elf: Elf,
    pub verdict: FileVerdict,
}

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Why nothing can be done for it.
    pub fn read(path: &Path) -> Result<Self, Unfit> {
        let path = path.canonicalize().map_err(Unfit::Name)?;
        let file = File::open(&path).map_err(Unfit::Read)?;
        let metadata = file.metadata().map_err(Unfit::Read)?;
        if !metadata.is_file() {
            return Err(Unfit::NotRegular);
        }
        if metadata.mode() & 0o6000 != 0 || has_capabilities(&path) {
            return Err(Unfit::Privileged);
        }
        let source = FileSource::with_size(file, metadata.len());
        let elf = Elf::read(&source).map_err(|e| match e {
            wideleaf_elf::Error::NotElf { .. } => Unfit::Script,
            other => Unfit::Elf(other),
        })?;
        if elf.packer.is_some() {
            return Err(Unfit::Packed);
        }
        let verdict = judge(&elf);
        Ok(Self {
            path,
            size: metadata.len(),
            mode: metadata.mode() & 0o777,
            elf,
            verdict,
        })
    }

    /// Bytes of text that 2M leaves can map, or could if the file were aligned.
    pub fn possible(&self) -> u64 {
        self.verdict.usable + self.gain()
    }

    /// Bytes of text that they could map in addition if the file were aligned.
    /// What only linking would mend is not among them.
    pub fn gain(&self) -> u64 {
        self.verdict
            .segments
            .iter()
            .filter(|v| self.elf.segments[v.position].is_text())
            .filter(|v| fix(&self.elf, v).is_some_and(|fix| fix.align))
            .map(|v| v.possible - v.usable)
            .sum()
    }
}

fn has_capabilities(path: &Path) -> bool {
    use std::ffi::CString;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: two strings that end with NUL, and no room for a value.
    let size = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    size > 0
}

/// Where execvp(3) will find a program; `None` if nowhere.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    let runs = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(runs)
}

/// A program or library beside the program: where execvp(3) would find it, or the file of this
/// name, which need not be executable; `None` if there is neither.
pub fn beside(name: &OsStr) -> Option<PathBuf> {
    find(name).or_else(|| Some(PathBuf::from(name)).filter(|path| path.exists()))
}

/// The loader that a dynamic program of 64 bits names; `None` if it names none.
pub fn loader(path: &Path) -> Option<PathBuf> {
    let file = File::open(path).and_then(FileSource::new).ok()?;
    let elf = Elf::read(&file).ok()?;
    elf.interpreter.filter(|_| elf.class == Class::Bits64)
}

/// The libraries that the loader would map for a program, by its own word (glibc's, the only one
/// with `--list`), and those that it is known to load later. Nothing of the program runs.
pub fn libraries(path: &Path) -> Vec<PathBuf> {
    let Some(loader) = loader(path) else {
        return Vec::new();
    };
    let output = Command::new(loader)
        .arg("--list")
        .arg(path)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else {
        return Vec::new();
    };
    listed(&output.stdout).chain(remembered(path)).collect()
}
