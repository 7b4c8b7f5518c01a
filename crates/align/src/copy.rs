// SPDX-License-Identifier: GPL-2.0-only
//! An aligned copy that costs what copying costs: the kernel moves the bytes
//! from file to file. For copies that nobody keeps; nothing is read back, there
//! is no note, and what is zeroes is written like all else.

use crate::note::{find, restore};
use crate::{Refusal, plan};
use rustix::fs::sendfile;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use wideleaf_elf::Elf;

/// Writes `from`, aligned at `leaf` in bytes, to the empty file `to`.
///
/// The process gets SIGBUS if `from` is cut short while it is looked at.
///
/// # Errors
///
/// Why it cannot be aligned, or what could not be read or written.
pub fn copy(from: &File, to: &mut File, leaf: u64) -> Result<(), Refusal> {
    let mapped = Mapped::new(from).map_err(Refusal::io("cannot map"))?;
    let bytes = mapped.bytes();
    if find(bytes).is_some() {
        let what = "was aligned before, for another leaf: restore it first".to_owned();
        return Err(Refusal::Protected(what));
    }
    let elf = Elf::read(&bytes)?;
    let plan = plan(bytes, &elf, leaf, false)?;
    let write = |error: io::Error| Refusal::io("cannot write the copy")(error);
    to.set_len(plan.size).map_err(write)?;
    for run in &plan.runs {
        move_bytes(from, to, run.from, run.to, run.size).map_err(write)?;
    }
    for patch in plan.patches(bytes) {
        to.write_all_at(&patch.bytes, patch.at).map_err(write)?;
    }
    Ok(())
}

/// The same with holes where nothing but zeroes would be, read back and
/// compared, from the page cache: no buffer of the file's size. A file that was
/// aligned before is copied from what it was.
///
/// # Errors
///
/// As [`copy`], or if what was written differs from what was planned.
pub fn copy_mapped(from: &File, to: &File, leaf: u64) -> Result<(), Refusal> {
    let mapped = Mapped::new(from).map_err(Refusal::io("cannot map"))?;
    let before = find(mapped.bytes()).map(|_| restore(mapped.bytes()));
    let before = before.transpose()?;
    let bytes = before.as_deref().unwrap_or(mapped.bytes());
    let elf = Elf::read(&bytes)?;
    let plan = plan(bytes, &elf, leaf, false)?;
    plan.write(bytes, to)
        .map_err(Refusal::io("cannot write the copy"))?;
    plan.verify(bytes, &elf, to)
}

fn move_bytes(from: &File, to: &mut File, mut at: u64, place: u64, size: u64) -> io::Result<()> {
    to.seek(SeekFrom::Start(place))?;
    let end = at + size;
    while at < end {
        // At most 2G a call, of which the kernel takes its part.
        let most = usize::try_from(end - at).unwrap_or(usize::MAX);
        if sendfile(&*to, from, Some(&mut at), most)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// A whole file, mapped: only what is looked at is read.
struct Mapped {
    start: *mut c_void,
    size: usize,
}

impl Mapped {
    fn new(file: &File) -> io::Result<Self> {
        let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let (null, read) = (std::ptr::null_mut(), ProtFlags::READ);
        // SAFETY: a new mapping where the kernel likes.
        let start = unsafe { mmap(null, size, read, MapFlags::PRIVATE, file, 0) }?;
        Ok(Self { start, size })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for as long as this value lives. Who writes to the file
        // meanwhile changes what is planned, not what is safe: each offset is
        // checked against the size when it is used.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.size) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no borrow of it is left.
        let _ = unsafe { munmap(self.start, self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Target, align};
    use std::io::Write;

    const LEAF: u64 = 2 << 20;

    /// The test's own executable: a program of a real linker.
    #[test]
    fn it_is_what_align_writes() {
        let dir = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let mut out = File::options()
            .write(true)
            .create_new(true)
            .open(&one)
            .unwrap();
        copy(&File::open(&program).unwrap(), &mut out, LEAF).unwrap();
        let options = Options {
            always: true,
            ..Options::new(LEAF)
        };
        align(&program, Target::File(&other), &options).unwrap();
        assert!(std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap());
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let mut script = tempfile::tempfile().unwrap();
        let mut out = tempfile::tempfile().unwrap();
        assert!(copy(&script, &mut out, LEAF).is_err(), "an empty file");
        script.write_all(b"#!/bin/sh").unwrap();
        let refusal = copy(&script, &mut out, LEAF).unwrap_err();
        assert!(matches!(refusal, Refusal::Elf(_)), "{refusal}");
        assert_eq!(out.metadata().unwrap().len(), 0);
    }
}
