// SPDX-License-Identifier: GPL-2.0-only
//! What can be in the way, from the program down to a system call.

use crate::Means;
use nix::errno::Errno;
use std::ffi::OsString;
use std::io;
use wideleaf_collapse::Refusal;
use wideleaf_fill::Why;
use wideleaf_kit::size::{bytes, short};

/// Why nothing was done for a program. It can be started all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program itself.
    #[error(transparent)]
    Program(#[from] Unfit),
    /// One that was named beside it.
    #[error("--with {}: {why}", name.display())]
    With {
        /// As it was named.
        name: OsString,
        /// Why nothing can be done for it.
        why: Unfit,
    },
    /// Linking would not help either.
    #[error(
        "{}, {}, holds no whole block of {}{}",
        match files { 1 => "its text", _ => "the largest text of these files" },
        amount(*text), short(*pmd), libraries(*libs)
    )]
    TooSmall {
        /// How many files were looked at.
        files: usize,
        /// Bytes of the largest text.
        text: u64,
        /// Bytes that a PMD maps.
        pmd: u64,
        /// Bytes in whole blocks of the libraries that were not asked for.
        libs: u64,
    },
    /// No file has anything to gain.
    #[error(
        "its text holds no whole block of {} that could be mapped wide without linking it anew",
        short(*pmd)
    )]
    NoBlock {
        /// Bytes that a PMD maps.
        pmd: u64,
    },
    /// Each means was refused.
    #[error("{}", all(.0))]
    Refused(Vec<(Means, Refused)>),
}

/// `885 bytes`, `85.8K`.
fn amount(size: u64) -> String {
    match size {
        0..1024 => format!("{size} bytes"),
        _ => bytes(size, false),
    }
}

fn libraries(possible: u64) -> String {
    match possible {
        0 => String::new(),
        _ => format!(
            "; --libs takes its libraries, which have {} of text in such blocks",
            bytes(possible, false)
        ),
    }
}

fn all(refusals: &[(Means, Refused)]) -> String {
    let one = |(means, why): &(Means, Refused)| format!("{}: {why}", means.name());
    refusals.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Why nothing can be done for a file.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// Nothing of that name can be executed.
    #[error("no program of this name, and no file")]
    Missing,
    /// It is started by another program.
    #[error("is a script, or no ELF program")]
    Script,
    /// A folder, a device.
    #[error("is no regular file")]
    NotRegular,
    /// The kernel gives a copy none of it.
    #[error("is setuid, setgid or has capabilities, which a copy would lose")]
    Privileged,
    /// Its text comes from no file.
    #[error("is packed by UPX, which unpacks it into private memory (upx -d gives it back)")]
    Packed,
    /// Its name leads nowhere.
    #[error(transparent)]
    Name(io::Error),
    /// The system's reason.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// Its headers make no sense.
    #[error(transparent)]
    Elf(wideleaf_elf::Error),
}

/// Why a means did nothing.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The copies are larger than what may be taken.
    #[error("copies would take {}, the limit is {}; --limit and --reclaim raise it", bytes(*take, false), bytes(*limit, false))]
    TooLarge {
        /// Bytes that they would take.
        take: u64,
        /// Bytes that they may.
        limit: u64,
    },
    /// Not even one block may be taken.
    #[error("the limit allows no block; --limit and --reclaim raise it")]
    NoRoom,
    /// No leaf could map a folio of the file.
    #[error("address and offset of its text are not congruent, or it has no whole block")]
    NotCongruent,
    /// A block of its text does not become one folio.
    #[error("{}: {}", .0.name(), .0.meaning())]
    Unfilled(Why),
    /// Where it is loaded is no multiple of a leaf.
    #[error("it is loaded at any page, {0} or not: leaves would fit by chance only")]
    AnyPage(&'static str),
    /// The kernel's answer to MADV_COLLAPSE.
    #[error(transparent)]
    Kernel(#[from] Refusal),
    /// Nobody reads the tunable.
    #[error("it has no dynamic loader")]
    NoLoader,
    /// A glibc before 2.44, or another C library.
    #[error("{loader} has no {tunable}")]
    NoTunable {
        /// The loader's path.
        loader: String,
        /// The tunable.
        tunable: &'static str,
    },
    /// A setuid program does not give its rights to what it is told to run.
    #[error("real and effective user differ")]
    Users,
    /// Nowhere to fill the copies.
    #[error("none of {0} can be mounted over")]
    NoPlace(String),
    /// The copies are there, and narrow.
    #[error("the tmpfs gives no huge folios (shmem_enabled deny, or no memory in one piece)")]
    NoHugeFolios,
    /// A mount namespace has another root.
    #[error("this is a chroot, which a mount namespace would leave")]
    Chroot,
    /// It was renamed, or something is mounted over it.
    #[error("the working folder has another path by now")]
    FolderMoved,
    /// Killed, most likely.
    #[error("the process that prepares it has died")]
    Died,
    /// What the process that prepares it says.
    #[error("{0}")]
    Prepare(String),
    /// A program or library that is to be copied.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: String,
        /// Why it cannot be.
        why: String,
    },
    /// A copy that cannot be looked at.
    #[error(transparent)]
    Copy(#[from] Unfit),
    /// A system call failed.
    #[error("{what}: {error}")]
    Call {
        /// What was being done.
        what: String,
        /// How it failed.
        error: Errno,
    },
    /// The same, of files.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// How it failed.
        error: io::Error,
    },
}

impl Refused {
    /// For `map_err`.
    pub(crate) fn call(what: impl Into<String>) -> impl FnOnce(Errno) -> Self {
        let what = what.into();
        move |error| Self::Call { what, error }
    }

    /// For `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }
}
