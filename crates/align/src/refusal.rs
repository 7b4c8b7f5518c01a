// SPDX-License-Identifier: GPL-2.0-only
//! Why a file is not aligned. The file's name is the caller's to add.

use std::io;
use wideleaf_kit::size::short;

/// Why a file is left as it is although aligning it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The headers are not those of a program.
    #[error(transparent)]
    Elf(#[from] wideleaf_elf::Error),
    /// A script: its interpreter is the program.
    #[error("is a script, not an ELF file: align its interpreter, {0}")]
    Script(String),
    /// Objects, core dumps, debug files.
    #[error("is a {0}: only executables and shared libraries are loaded by segments")]
    Kind(&'static str),
    /// No `PT_LOAD`.
    #[error("has no loadable segment (PT_LOAD)")]
    NoSegments,
    /// The tables of headers cannot be read in full.
    #[error("has damaged headers: {0}")]
    Damaged(String),
    /// A segment that mmap refuses as it is.
    #[error(
        "segment {index}: address {address:#x} and offset {offset:#x} differ within a 4K page, \
         so that no kernel maps it as it is"
    )]
    OffPage {
        /// Program header index.
        index: usize,
        /// `p_vaddr`
        address: u64,
        /// `p_offset`
        offset: u64,
    },
    /// Whatever its offsets are, they would not fit where it is loaded.
    #[error(
        "its first segment is at {base:#x}, which is no multiple of {}: kernel and ld.so load it at \
         one all the same, so that addresses and offsets that are congruent in the file are not in \
         memory; link it to a multiple", short(*leaf)
    )]
    Base {
        /// Address of the first segment.
        base: u64,
        /// The leaf in bytes.
        leaf: u64,
    },
    /// The headers would be elsewhere than at the start of the file.
    #[error(
        "its base is no multiple of {}, so that the program headers would have to leave the start of \
         the file with their segment: loaders do not mind, but strip and objcopy would damage the \
         file (--force aligns it all the same)", short(*leaf)
    )]
    HeadersMove {
        /// The leaf in bytes.
        leaf: u64,
    },
    /// `p_align` asks for more than anything that can be had.
    #[error("segment {index}: p_align is {align:#x}, must be at most 1G")]
    Align {
        /// Program header index.
        index: usize,
        /// `p_align`
        align: u64,
    },
    /// Bytes that no header names: a payload that is found by its offset.
    #[error(
        "{size} bytes from {offset:#x} on belong to no segment or section: a program that finds \
         data appended to it by offset would miss them (--force moves them with the rest)"
    )]
    Appended {
        /// Where they start.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// Packed by UPX: unpacks itself from offsets in its own file.
    #[error("is packed by UPX and reads its own file by offset: unpack it first (upx -d)")]
    Packed,
    /// A section that is part of two segments, or of none that moves as one.
    #[error(
        "section {name} at {offset:#x}+{size:#x} would be torn: it spans segments that move apart"
    )]
    Torn {
        /// Name of the section or table.
        name: String,
        /// Where it starts.
        offset: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// Segments that overlap in the file so much that separating them would multiply it.
    #[error("segments overlap in the file: apart they would take {0} bytes")]
    Overlap(u64),
    /// 32-bit files hold 32-bit offsets.
    #[error("the aligned file would be {0} bytes, offsets of this class end at 4G")]
    TooLarge(u64),
    /// Changing it would make it something else than it is.
    #[error("{0}")]
    Protected(String),
    /// `--restore` of a file that holds no note.
    #[error(
        "holds no note of how it was before: it was not aligned by wideleaf, or stripped or cut since"
    )]
    NoNote,
    /// `--restore` gives something else than what was aligned.
    #[error("cannot be restored: it was changed since it was aligned")]
    Changed,
    /// What was written is not what was planned: a fault of the disk, or ours.
    #[error("the file that was written differs from the plan at {0}; nothing was replaced")]
    Mismatch(String),
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// How it failed.
        error: io::Error,
    },
}

impl Refusal {
    /// For `map_err`: names what was being done.
    pub(crate) fn io<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Refusal {
        let what = what.into();
        move |error| Refusal::Io {
            what,
            error: error.into(),
        }
    }

    /// Whether something failed that should not, and it is not the file that is in the way.
    pub fn is_failure(&self) -> bool {
        matches!(self, Refusal::Io { .. } | Refusal::Mismatch(_))
    }

    /// The reason without the option of `align` that overrides it, for commands that lack it.
    pub fn without_force(&self) -> String {
        let text = self.to_string();
        let end = text.find(": --force").or_else(|| text.find(" (--force"));
        text[..end.unwrap_or(text.len())].to_owned()
    }

    /// No space: says how much is needed.
    pub(crate) fn write(path: &std::path::Path, needed: u64) -> impl FnOnce(io::Error) -> Refusal {
        let what = format!(
            "cannot write {} ({} of disk are needed)",
            path.display(),
            short(needed.next_multiple_of(4096))
        );
        Refusal::io(what)
    }
}
