// SPDX-License-Identifier: GPL-2.0-only
//! Why a file is not looked at, and why a block stays as it is.

use nix::errno::Errno;
use std::io;

/// Why nothing can be done for a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder, a device.
    #[error("is no regular file: name programs and libraries")]
    NotRegular,
    /// A script, data.
    #[error("is no ELF file: name the program that runs it, or the library")]
    NotElf,
    /// Its text comes from no file.
    #[error("is packed by UPX, which unpacks it into private memory (upx -d gives it back)")]
    Packed,
    /// `stage` put a copy over it.
    #[error("is staged: its copy is on huge pages already (wideleaf unstage takes it off)")]
    Staged,
    /// Its headers make no sense.
    #[error(transparent)]
    Elf(wideleaf_elf::Error),
    /// It was replaced while processes use it.
    #[error("was deleted or replaced while a process uses it: restart the process")]
    Deleted,
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its libraries are not known.
    #[error(transparent)]
    Libraries(#[from] wideleaf_stage::Error),
}

/// Why a block is not one folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No leaf could map a folio of the file there.
    NotCongruent,
    /// Cached in smaller folios, and nothing may be dropped.
    Cached,
    /// Its file system keeps it in memory only, where nothing can be read anew.
    InMemory,
    /// Other processes map pages of it.
    InUse,
    /// Pages of it are not written to the disk yet.
    Dirty,
    /// The kernel kept pages of it for a reason that it does not tell.
    Kept,
    /// Read at once, with memory free, and still in smaller folios.
    NoFolio,
    /// The same for a user whom the kernel does not tell what was cached.
    Untold,
    /// It would go beyond the limit of memory.
    Limit,
    /// It would go beyond the limit of what is read.
    ReadLimit,
    /// The time is over.
    Time,
    /// The machine has no free memory for it without reclaim.
    NoMemory,
    /// The control group of this process has none.
    NoHeadroom,
    /// A system call failed.
    Call(Errno),
}

impl Why {
    /// A short name that does not change, for scripts.
    pub fn name(self) -> String {
        match self {
            Why::NotCongruent => "not-congruent".into(),
            Why::Cached => "cached".into(),
            Why::InMemory => "in-memory".into(),
            Why::InUse => "in-use".into(),
            Why::Dirty => "dirty".into(),
            Why::Kept => "kept".into(),
            Why::NoFolio => "no-folio".into(),
            Why::Untold => "untold".into(),
            Why::Limit => "limit".into(),
            Why::ReadLimit => "read-limit".into(),
            Why::Time => "time".into(),
            Why::NoMemory => "no-memory".into(),
            Why::NoHeadroom => "cgroup-limit".into(),
            Why::Call(errno) => format!("{errno:?}"),
        }
    }

    /// The same in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Why::NotCongruent => {
                "address and offset are not congruent, no folio can be mapped by one leaf there; \
                 `wideleaf align` can mend that, `wideleaf inspect` says how"
            }
            Why::Cached => {
                "left out: cached in smaller folios, which --no-evict keeps; without it they are \
                 dropped and read again"
            }
            Why::InMemory => {
                "its file system keeps files in memory only, so that nothing can be read anew; \
                 `wideleaf collapse` can map it wide, or a tmpfs mounted huge=always"
            }
            Why::InUse => {
                "processes map pages of it now, which the kernel does not drop; fill the file \
                 before they start, or restart them and fill it in between"
            }
            Why::Dirty => {
                "pages of it are not written to the disk yet, and the kernel does not drop them; \
                 `sync FILE`, then fill it again"
            }
            Why::Kept => "the kernel kept pages of it (locked, or read just now); try again later",
            Why::NoFolio => {
                "nothing of it was cached and memory was free, and the kernel read it in smaller \
                 folios: this file system has none of a leaf's size on this kernel (`wideleaf \
                 doctor`); `wideleaf stage` and `run` can map it wide"
            }
            Why::Untold => {
                "it was dropped and read again, and is in smaller folios still: pages of it are in use or \
                 not written yet, or its file system has no such folios; the kernel tells which only \
                 to root and the file's owner"
            }
            Why::Limit => {
                "left out: it would take more memory than the limit; --limit and --reclaim raise it"
            }
            Why::ReadLimit => "left out: it would read more than --read allows",
            Why::Time => "left out: the time that --time allows is over",
            Why::NoMemory => {
                "left out: not enough free memory in whole blocks, others would have to wait for it; --reclaim allows that"
            }
            Why::NoHeadroom => {
                "left out: the memory control group of this command is full, to which the folios \
                 would be charged"
            }
            Why::Call(Errno::EPERM) => "not permitted: is its file system mounted noexec?",
            Why::Call(Errno::EINVAL) => {
                "the kernel knows no MADV_HUGEPAGE (CONFIG_TRANSPARENT_HUGEPAGE) or no \
                 MADV_POPULATE_READ (before 5.14)"
            }
            Why::Call(Errno::EFAULT) => "the file was cut short, or its disk failed",
            Why::Call(_) => "the kernel said so",
        }
    }
}
