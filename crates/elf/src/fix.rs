// SPDX-License-Identifier: GPL-2.0-only
//! The flags that remove a cause, for each linker. tests/linkers.rs links with
//! every one of them and judges the result.

use crate::{Cause, Elf, LEAF_2M, LinkerName, Verdict};
use serde::Serialize;

/// How to repair a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// Linker flags, as for the compiler driver: the linker of the file, or
    /// all four if it is not known. For a Go program, as for `go build`: of
    /// Go's own linker, and of GNU ld as its external one.
    pub flags: Vec<(LinkerName, String)>,
    /// Whether changing offsets and `p_align` in the file, which is what
    /// `wideleaf align` does, is enough.
    pub align: bool,
}

const ALL: [LinkerName; 4] = [
    LinkerName::Gnu,
    LinkerName::Gold,
    LinkerName::Lld,
    LinkerName::Mold,
];

/// How to remove the cause of a verdict; `None` if there is nothing to remove,
/// or nothing that a linker could do.
pub fn fix(elf: &Elf, verdict: &Verdict) -> Option<Fix> {
    // Offsets alone do not mend what is linked to an address that loaders do not keep.
    let odd = elf.odd_base(verdict.target) != 0;
    let (cause, align) = match verdict.cause {
        Cause::MaxPageSize | Cause::PageShift | Cause::NotCongruent if odd => (Cause::Base, false),
        cause @ (Cause::MaxPageSize | Cause::PageShift | Cause::Base | Cause::NotCongruent) => {
            (cause, true)
        }
        cause @ (Cause::Straddles | Cause::SeparateCode) => (cause, false),
        _ => return None,
    };
    let leaf = match cause {
        Cause::SeparateCode => LEAF_2M,
        _ => verdict.target,
    };
    let known = ALL.contains(&elf.linker.name);
    let linkers = match elf.linker.name {
        _ if known => std::slice::from_ref(&elf.linker.name),
        _ => &ALL[..],
    };
    let flags = match elf.linker.name {
        LinkerName::Go => go_flags(cause, leaf),
        _ => linkers
            .iter()
            .map(|linker| (*linker, flags(*linker, cause, leaf)))
            .collect(),
    };
    Some(Fix { flags, align })
}

/// For `go build`: Go's own linker rounds segments to `-R`, in address, offset
/// and `p_align` alike; the one that cgo needs takes its own flags. Code and
/// constants in one segment are beyond Go's.
fn go_flags(cause: Cause, leaf: u64) -> Vec<(LinkerName, String)> {
    let external = flags(LinkerName::Gnu, cause, leaf);
    let external = format!("-ldflags='-linkmode=external -extldflags \"{external}\"'");
    let own = (cause != Cause::SeparateCode).then(|| format!("-ldflags=-R={leaf:#x}"));
    let own = own.map(|flags| (LinkerName::Go, flags));
    own.into_iter()
        .chain([(LinkerName::Gnu, external)])
        .collect()
}

/// The least that does it. Only where code is too small by itself is it put
/// into one segment with constants, which makes these executable; elsewhere
/// GNU ld's separate-code is kept, at the price of padding the file to
/// max-page-size between segments.
fn flags(linker: LinkerName, cause: Cause, leaf: u64) -> String {
    let size = format!("-Wl,-z,max-page-size={leaf:#x}");
    match (cause, linker) {
        (Cause::SeparateCode, LinkerName::Gnu) => format!("-Wl,-z,noseparate-code {size}"),
        (Cause::SeparateCode, _) => format!("-Wl,--no-rosegment {size}"),
        (Cause::Straddles, LinkerName::Gnu) => format!("-Wl,-z,separate-code {size}"),
        (Cause::Straddles, LinkerName::Lld | LinkerName::Mold) => {
            format!("-Wl,-z,separate-loadable-segments {size}")
        }
        (Cause::Base, LinkerName::Gnu | LinkerName::Gold) => {
            format!("-Wl,-Ttext-segment={leaf:#x} {size}")
        }
        (Cause::Base, _) => format!("-Wl,--image-base={leaf:#x} {size}"),
        _ => size,
    }
}
