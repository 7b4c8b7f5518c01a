// SPDX-License-Identifier: GPL-2.0-only
//! Why a file was not read.

use std::io;
use wideleaf_kit::words::without_error_numbers;

/// What is wrong with a file. Its name is the caller's to tell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder, without leave to walk it.
    #[error("is a directory: use -r to inspect the files in it")]
    Directory,
    /// What programs are not in.
    #[error("is {0}, must be a regular file")]
    Kind(&'static str),
    /// Between two looks it became something else.
    #[error("is no regular file any more")]
    NotRegular,
    /// It ended before what its headers say.
    #[error("became shorter while it was read")]
    Shorter,
    /// The system's reason, as the C library words it.
    #[error("{}", without_error_numbers(&.0.to_string()))]
    Io(io::Error),
    /// What its headers are, or are not.
    #[error(transparent)]
    Elf(wideleaf_elf::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Shorter,
            _ => Error::Io(error),
        }
    }
}

impl From<wideleaf_elf::Error> for Error {
    fn from(error: wideleaf_elf::Error) -> Self {
        match error {
            wideleaf_elf::Error::Io(error) => error.into(),
            other => Error::Elf(other),
        }
    }
}
