// SPDX-License-Identifier: GPL-2.0-only
//! What the section headers tell: who linked the file, what was stripped.
//! Loading does not need them, so damage here is stated, not an error.

use crate::source::Windows;
use crate::{Error, Source};
use object::Endianness;
use object::elf;
use object::pod;
use object::read::elf::{FileHeader, SectionHeader};
use serde::Serialize;
use std::mem::size_of;

/// Facts from the section headers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SectionFacts {
    /// Whether there are section headers at all.
    pub present: bool,
    /// Whether there is a symbol table (`.symtab`).
    pub symbols: bool,
    /// Whether there is DWARF.
    pub debug_info: bool,
    /// A file that holds the debug information of another one: its segments
    /// describe the other file's bytes.
    pub debug_only: bool,
    /// Whether BOLT has rewritten the file after linking.
    pub bolt: bool,
    /// Why the section headers could not be read.
    pub damaged: Option<String>,
}

/// What linkers leave behind.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The strings of `.comment`.
    pub(crate) comments: Vec<String>,
    /// The text of `.note.gnu.gold-version`.
    pub(crate) gold: Option<String>,
    /// Whether there is a section that lld and mold alone make.
    pub(crate) relro_padding: bool,
    /// Whether Go's own linker left its note.
    pub(crate) go: bool,
}

/// Where the section headers are, as the file header says.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) offset: u64,
    pub(crate) entry_size: u16,
    pub(crate) count: u16,
    pub(crate) names: u16,
}

/// The section names lie just before the headers in what all linkers write:
/// one read gets both, and mostly `.comment` too.
const BEFORE_TABLE: u64 = 1024;
/// Linked files have some forty sections, Go and BOLT ones a few more.
const MAX_SECTIONS: u16 = 1024;
const MAX_COMMENT: u64 = 64 << 10;

pub(crate) fn read<E, S>(
    file: &mut Windows<S>,
    table: Table,
    endian: Endianness,
) -> (SectionFacts, Marks)
where
    E: FileHeader<Endian = Endianness>,
    S: Source + ?Sized,
{
    let (mut facts, mut marks) = (SectionFacts::default(), Marks::default());
    if table.offset == 0 || table.count == 0 {
        return (facts, marks);
    }
    facts.present = true;
    if let Err(error) = scan::<E, S>(file, table, endian, &mut facts, &mut marks) {
        facts.damaged = Some(error.to_string());
    }
    (facts, marks)
}

fn scan<E, S>(
    file: &mut Windows<S>,
    table: Table,
    endian: Endianness,
    facts: &mut SectionFacts,
    marks: &mut Marks,
) -> Result<(), Error>
where
    E: FileHeader<Endian = Endianness>,
    S: Source + ?Sized,
{
    let headers = headers::<E, S>(file, table)?;
    let strings = headers.get(usize::from(table.names)).ok_or_else(|| {
        let count = format!("below e_shnum, {}", table.count);
        Error::field("e_shstrndx", table.names, count)
    })?;
    let (offset, size) = (
        strings.sh_offset(endian).into(),
        strings.sh_size(endian).into(),
    );
    let names = file.bytes("the section names", offset, size)?.to_vec();
    for header in &headers {
        let name = name(&names, header.sh_name(endian));
        let executable = elf::SHF_EXECINSTR;
        if header.sh_flags(endian) & executable == executable
            && header.sh_type(endian) == elf::SHT_NOBITS
            && header.sh_size(endian).into() > 0
        {
            facts.debug_only = true;
        }
        let (offset, size) = (
            header.sh_offset(endian).into(),
            header.sh_size(endian).into(),
        );
        match name {
            b".symtab" => facts.symbols = true,
            b".debug_info" | b".zdebug_info" => facts.debug_info = true,
            b".note.bolt_info" => facts.bolt = true,
            b".note.go.buildid" => marks.go = true,
            b".relro_padding" => marks.relro_padding = true,
            b".comment" => {
                let bytes = file.bytes(".comment", offset, size.min(MAX_COMMENT))?;
                marks.comments = strings_of(bytes);
            }
            b".note.gnu.gold-version" => {
                marks.gold = Some(note_text(file.bytes("gold's note", offset, size)?));
            }
            _ => {}
        }
    }
    Ok(())
}

fn headers<E, S>(file: &mut Windows<S>, table: Table) -> Result<Vec<E::SectionHeader>, Error>
where
    E: FileHeader<Endian = Endianness>,
    S: Source + ?Sized,
{
    let entry = size_of::<E::SectionHeader>();
    if usize::from(table.entry_size) != entry {
        return Err(Error::field(
            "e_shentsize",
            table.entry_size,
            format!("{entry}, the size of a section header of this class"),
        ));
    }
    if table.count > MAX_SECTIONS {
        return Err(Error::field(
            "e_shnum",
            table.count,
            format!("at most {MAX_SECTIONS} in a linked file"),
        ));
    }
    let size = u64::from(table.count) * entry as u64;
    let start = table.offset.saturating_sub(BEFORE_TABLE);
    file.prefetch(start, table.offset - start + size)?;
    let bytes = file.bytes("the section header table (e_shoff)", table.offset, size)?;
    let headers = bytes.chunks_exact(entry);
    Ok(headers
        .filter_map(|b| pod::from_bytes(b).ok().map(|(header, _)| *header))
        .collect())
}

fn name(names: &[u8], at: u32) -> &[u8] {
    let tail = names.get(at as usize..).unwrap_or_default();
    let end = tail.iter().position(|b| *b == 0).unwrap_or(0);
    &tail[..end]
}

fn strings_of(bytes: &[u8]) -> Vec<String> {
    let strings = bytes.split(|b| *b == 0).filter(|s| !s.is_empty());
    strings
        .map(|s| String::from_utf8_lossy(s).into_owned())
        .collect()
}

/// The description of a note whose name is "GNU": all we look for is text,
/// which follows the three length words and the padded name.
fn note_text(note: &[u8]) -> String {
    let text = note.get(16..).unwrap_or_default();
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}
