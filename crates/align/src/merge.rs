// SPDX-License-Identifier: GPL-2.0-only
//! Makes code and the constants beside it one segment, as linking with noseparate-code does: the
//! first program header covers all of them, the others become PT_NULL, which kernel and ld.so pass
//! over. No byte moves.

use crate::Refusal;
use crate::headers::Headers;
use wideleaf_elf::{Elf, Join, join};

/// A file whose segments were joined.
pub(crate) struct Merged {
    /// The segments that were joined, gain and price.
    pub(crate) join: Join,
    /// The file.
    pub(crate) bytes: Vec<u8>,
    /// Its headers.
    pub(crate) elf: Elf,
    /// The table of program headers as it was, which undoing needs, and its place.
    pub(crate) table: (u64, Vec<u8>),
}

/// Joins what gives most whole blocks of `leaf` bytes; `None` if nothing gives any.
pub(crate) fn merge(file: &[u8], elf: &Elf, leaf: u64) -> Result<Option<Merged>, Refusal> {
    let joined = join(elf, leaf).and_then(|join| Some((join.joined(elf)?, join)));
    let Some((segment, join)) = joined else {
        return Ok(None);
    };
    let headers = Headers::read(file)?;
    let (at, size) = (headers.phoff as usize, headers.programs_size() as usize);
    let mut bytes = file.to_vec();
    let table = &mut bytes[at..at + size];
    let old = table.to_vec();
    headers.store_joined(table, &segment, &join.segments[1..]);
    let elf = Elf {
        file_system: elf.file_system,
        ..Elf::read(&&bytes[..])?
    };
    Ok(Some(Merged {
        join,
        bytes,
        elf,
        table: (headers.phoff, old),
    }))
}
