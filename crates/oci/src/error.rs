// SPDX-License-Identifier: GPL-2.0-only
//! Why an image is left as it is. Each message begins with the file that is wrong: a path, or an
//! archive's path and the name of a member in it.

use std::io;

/// Why an image is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{at}: {what}: {error}")]
    Io {
        /// The file.
        at: String,
        /// The step that failed.
        what: &'static str,
        /// How it failed.
        error: io::Error,
    },
    /// It is neither layout nor archive of images.
    #[error("{at}: {why}")]
    NotImages {
        /// The file or folder.
        at: String,
        /// The thing that it is, and the remedy.
        why: String,
    },
    /// A file that another one names is not there.
    #[error("{at}: is missing, but {by} names it")]
    Missing {
        /// The file that should be there.
        at: String,
        /// The file that names it.
        by: String,
    },
    /// The content is not that which the name stands for.
    #[error("{at}: its digest is {found}, must be {expected} as {by} says")]
    Digest {
        /// The file.
        at: String,
        /// The file that says so.
        by: String,
        /// The digest it should have.
        expected: String,
        /// The digest it has.
        found: String,
    },
    /// The size is another than a descriptor says.
    #[error("{at}: has {found} bytes, must have {expected} as {by} says")]
    Size {
        /// The file.
        at: String,
        /// The file that says so.
        by: String,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// It cannot be parsed.
    #[error("{at}: is no valid JSON: {error}")]
    Json {
        /// The file.
        at: String,
        /// Where and how.
        error: serde_json::Error,
    },
    /// A field is missing or has a value that it must not have.
    #[error("{at}: {field} is {value}, must be {must}")]
    Field {
        /// The file.
        at: String,
        /// The field, by its path in the JSON.
        field: String,
        /// Its value.
        value: String,
        /// The right value.
        must: String,
    },
    /// A compressed stream that ends too early or is damaged.
    #[error("{at}: {how}")]
    Stream {
        /// The file.
        at: String,
        /// The fault.
        how: String,
    },
    /// A member of a tar archive.
    #[error("{at}: entry '{entry}': {why}")]
    Entry {
        /// The archive.
        at: String,
        /// The member's name, as it stands there.
        entry: String,
        /// The fault.
        why: String,
    },
    /// Another process works on it.
    #[error("{0}: is locked by another process")]
    Locked(String),
    /// Another process has replaced it.
    #[error("{0}: was changed by another process meanwhile; nothing was replaced: run it again")]
    Changed(String),
    /// It would be overwritten.
    #[error("{0}: exists already, must be a new name")]
    Exists(String),
    /// Aligning gave an error that is none of the file's.
    #[error("{at}: cannot be aligned: {refusal}")]
    Align {
        /// The file in the image.
        at: String,
        /// Why not.
        refusal: wideleaf_align::Refusal,
    },
}

impl Error {
    /// For `map_err`: names the file and what was being done.
    pub(crate) fn io<E: Into<io::Error>>(
        at: impl Into<String>,
        what: &'static str,
    ) -> impl FnOnce(E) -> Error {
        let at = at.into();
        move |error| Error::Io {
            at,
            what,
            error: error.into(),
        }
    }

    /// A field with a wrong value.
    pub(crate) fn field(
        at: &str,
        field: impl Into<String>,
        value: impl Into<String>,
        must: impl Into<String>,
    ) -> Error {
        Error::Field {
            at: at.to_owned(),
            field: field.into(),
            value: value.into(),
            must: must.into(),
        }
    }

    /// A member of an archive.
    pub(crate) fn entry(at: &str, entry: &[u8], why: impl Into<String>) -> Error {
        Error::Entry {
            at: at.to_owned(),
            entry: String::from_utf8_lossy(entry).into_owned(),
            why: why.into(),
        }
    }
}
