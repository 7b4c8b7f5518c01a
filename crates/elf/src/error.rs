// SPDX-License-Identifier: GPL-2.0-only
//! What can be wrong with a file: each names the field, its value and what
//! would be right. The file's name is the caller's to add.

use std::io;

/// Why a file could not be read as an ELF program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The first four bytes are not the ELF magic.
    #[error("not an ELF file: starts with {found}, would be 7f 45 4c 46")]
    NotElf {
        /// The first bytes of the file, in hexadecimal.
        found: String,
    },
    /// The file ends before something its headers promise.
    #[error(
        "truncated: {what} is at {offset:#x}+{size:#x}, but the file has only {file_size:#x} bytes"
    )]
    Truncated {
        /// What was looked for.
        what: String,
        /// Where it should be, in bytes from the start of the file.
        offset: u64,
        /// Its size in bytes.
        size: u64,
        /// Size of the file in bytes.
        file_size: u64,
    },
    /// A header field holds a value that no loader accepts.
    #[error("{field} is {value}, must be {expected}")]
    Field {
        /// Name of the field as in elf(5), with the header it is in.
        field: String,
        /// What the file says.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// Two segments claim the same addresses.
    #[error(
        "segments {first} and {second} overlap: {first} ends at {end:#x}, {second} starts at {start:#x}"
    )]
    Overlap {
        /// Program header index of the lower segment.
        first: usize,
        /// Program header index of the upper segment.
        second: usize,
        /// End address of the lower one (exclusive).
        end: u64,
        /// Start address of the upper one.
        start: u64,
    },
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn field(
        field: impl Into<String>,
        value: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Error::Field {
            field: field.into(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }
}
