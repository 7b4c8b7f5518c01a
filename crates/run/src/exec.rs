// SPDX-License-Identifier: GPL-2.0-only
//! The program takes this process's place.

use crate::program::{Image, find};
use crate::{Unfit, inherited};
use nix::errno::Errno;
use nix::unistd::{execv, execvp};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Becomes the program, with what this process was started with; returns only if that fails.
pub fn exec(command: &[OsString]) -> Errno {
    let words: Result<Vec<CString>, _> = command
        .iter()
        .map(|word| CString::new(word.clone().into_vec()))
        .collect();
    // Arguments of a process hold no NUL.
    let Ok(words) = words else {
        return Errno::EINVAL;
    };
    debug_assert_eq!(words[0].as_bytes(), command[0].as_bytes());
    inherited::restore();
    let Err(error) = execvp(&words[0], &words);
    match error {
        Errno::ENOEXEC => by_shell(words),
        error => error,
    }
}

/// POSIX has execvp(3) give a script without a first line to the shell; musl's
/// does not. What is ELF is for another machine.
fn by_shell(mut words: Vec<CString>) -> Errno {
    let Some(path) = find(OsStr::from_bytes(words[0].as_bytes())) else {
        return Errno::ENOEXEC;
    };
    if !matches!(Image::read(&path), Err(Unfit::Script)) {
        return Errno::ENOEXEC;
    }
    let Ok(path) = CString::new(path.into_os_string().into_vec()) else {
        return Errno::ENOEXEC;
    };
    words[0] = path;
    words.insert(0, c"/bin/sh".to_owned());
    let Err(error) = execv(&words[0], &words);
    error
}
