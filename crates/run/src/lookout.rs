// SPDX-License-Identifier: GPL-2.0-only
//! Whether a run is watched for the libraries that the program loads while it runs.

use crate::program::{Image, find};
use std::ffi::OsStr;
use wideleaf_loads::{Error, Known, Memory, Program, watch};

/// A program whose run is to be watched.
pub struct Lookout {
    memory: Memory,
    program: Program,
}

impl Lookout {
    /// For a program that can load libraries, if none of its runs was watched yet, or `again`. It
    /// has to be asked before anything lies over the program.
    ///
    /// The error tells why nothing is known of any program; the run is watched all the same if
    /// that can mend it.
    pub fn wanted(program: &OsStr, again: bool) -> (Option<Self>, Option<Error>) {
        let Some(image) = find(program).and_then(|path| Image::read(&path).ok()) else {
            return (None, None);
        };
        if !image.elf.dynamic {
            return (None, None);
        }
        let both = Memory::of_user().and_then(|memory| Ok((memory, Program::read(&image.path)?)));
        let (memory, program) = match both {
            Ok(both) => both,
            Err(error) => return (None, Some(error)),
        };
        match memory.known(&program) {
            Ok(Known::Libraries(_)) if !again => (None, None),
            Ok(_) => (Some(Self { memory, program }), None),
            Err(error @ Error::Garbage { .. }) => (Some(Self { memory, program }), Some(error)),
            Err(error) => (None, Some(error)),
        }
    }

    /// Leaves a process that watches this one, which is about to become the program. This must be
    /// its only thread. Whether there is one.
    pub fn leave(&self) -> bool {
        let (_, pmd) = wideleaf_procmap::sizes("/sys".as_ref());
        watch(&self.memory, &self.program, pmd)
    }
}
