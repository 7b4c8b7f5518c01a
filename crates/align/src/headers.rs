// SPDX-License-Identifier: GPL-2.0-only
//! The header fields that hold file offsets: reads them all and writes them
//! back. `object` supplies the structures and where each field lies in them;
//! its builder is not used, because it lays the file out anew from sections
//! and so loses every byte that no section names.

use crate::Refusal;
use object::Endianness;
use object::elf::{
    self, FileHeader32, FileHeader64, ProgramHeader32, ProgramHeader64, SectionHeader32,
    SectionHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::mem::{offset_of, size_of};
use wideleaf_elf::Segment;

/// A program header, as far as placing in the file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) load: bool,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) align: u64,
}

/// A section header, as far as placing in the file goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: String,
    /// Has bytes in the file: neither `SHT_NULL` nor `SHT_NOBITS`.
    pub(crate) stored: bool,
    pub(crate) null: bool,
    pub(crate) alloc: bool,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Every field of a file that holds a file offset, and what they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    endian: Endianness,
    shape: &'static Shape,
    pub(crate) phoff: u64,
    pub(crate) shoff: u64,
    pub(crate) programs: Vec<Program>,
    pub(crate) sections: Vec<Section>,
}

/// Where the fields lie in the structures of a class.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// Bytes of an address or offset.
    word: usize,
    header: usize,
    program: usize,
    section: usize,
    e_phoff: usize,
    e_shoff: usize,
    p_flags: usize,
    p_offset: usize,
    p_filesz: usize,
    p_memsz: usize,
    p_align: usize,
    sh_offset: usize,
}

macro_rules! shape {
    ($word:ty, $header:ident, $program:ident, $section:ident) => {
        Shape {
            word: size_of::<$word>(),
            header: size_of::<elf::$header<Endianness>>(),
            program: size_of::<elf::$program<Endianness>>(),
            section: size_of::<elf::$section<Endianness>>(),
            e_phoff: offset_of!($header<Endianness>, e_phoff),
            e_shoff: offset_of!($header<Endianness>, e_shoff),
            p_flags: offset_of!($program<Endianness>, p_flags),
            p_offset: offset_of!($program<Endianness>, p_offset),
            p_filesz: offset_of!($program<Endianness>, p_filesz),
            p_memsz: offset_of!($program<Endianness>, p_memsz),
            p_align: offset_of!($program<Endianness>, p_align),
            sh_offset: offset_of!($section<Endianness>, sh_offset),
        }
    };
}

static BITS32: Shape = shape!(u32, FileHeader32, ProgramHeader32, SectionHeader32);
static BITS64: Shape = shape!(u64, FileHeader64, ProgramHeader64, SectionHeader64);

impl Headers {
    /// Reads the headers of a file that `wideleaf_elf` has already accepted.
    pub(crate) fn read(file: &[u8]) -> Result<Headers, Refusal> {
        match file.get(4) {
            Some(1) => read::<FileHeader32<Endianness>>(file, &BITS32),
            _ => read::<FileHeader64<Endianness>>(file, &BITS64),
        }
    }

    /// Bytes of the file header.
    pub(crate) fn header_size(&self) -> u64 {
        self.shape.header as u64
    }

    /// Bytes of the program header table.
    pub(crate) fn programs_size(&self) -> u64 {
        (self.shape.program * self.programs.len()) as u64
    }

    /// Bytes of the section header table.
    pub(crate) fn sections_size(&self) -> u64 {
        (self.shape.section * self.sections.len()) as u64
    }

    /// Largest value that an offset of this class can have.
    pub(crate) fn max_offset(&self) -> u64 {
        match self.shape.word {
            4 => u32::MAX.into(),
            _ => u64::MAX,
        }
    }

    /// Writes the offsets of both tables into a file header.
    pub(crate) fn store_header(&self, header: &mut [u8]) {
        self.put(header, self.shape.e_phoff, self.phoff);
        self.put(header, self.shape.e_shoff, self.shoff);
    }

    /// Writes each program header's offset and alignment into their table.
    pub(crate) fn store_programs(&self, table: &mut [u8]) {
        let entries = table.chunks_exact_mut(self.shape.program);
        for (entry, program) in entries.zip(&self.programs) {
            self.put(entry, self.shape.p_offset, program.offset);
            self.put(entry, self.shape.p_align, program.align);
        }
    }

    /// Has the program header of `segment` cover it, readable and executable, and makes the
    /// `others` PT_NULL.
    pub(crate) fn store_joined(&self, table: &mut [u8], segment: &Segment, others: &[usize]) {
        let mut entries: Vec<&mut [u8]> = table.chunks_exact_mut(self.shape.program).collect();
        let entry = &mut *entries[segment.index];
        let flags = u64::from((elf::PF_R | elf::PF_X).0);
        self.put_sized(entry, self.shape.p_flags, flags, size_of::<u32>());
        self.put(entry, self.shape.p_filesz, segment.file_size);
        self.put(entry, self.shape.p_memsz, segment.memory_size);
        for other in others {
            // All of it zero is one that says nothing.
            entries[*other].fill(0);
        }
    }

    /// Writes each section's offset into their table.
    pub(crate) fn store_sections(&self, table: &mut [u8]) {
        let entries = table.chunks_exact_mut(self.shape.section);
        for (entry, section) in entries.zip(&self.sections) {
            self.put(entry, self.shape.sh_offset, section.offset);
        }
    }

    fn put(&self, structure: &mut [u8], at: usize, value: u64) {
        self.put_sized(structure, at, value, self.shape.word);
    }

    fn put_sized(&self, structure: &mut [u8], at: usize, value: u64, size: usize) {
        let little = value.to_le_bytes();
        let field = &mut structure[at..at + size];
        field.copy_from_slice(&little[..size]);
        if self.endian == Endianness::Big {
            field.reverse();
        }
    }
}

fn read<E: FileHeader<Endian = Endianness>>(
    file: &[u8],
    shape: &'static Shape,
) -> Result<Headers, Refusal> {
    let damaged = |error: object::Error| Refusal::Damaged(error.to_string());
    let header = E::parse(file).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let programs = header.program_headers(endian, file).map_err(damaged)?;
    let table = header.section_headers(endian, file).map_err(damaged)?;
    // Names are for messages only.
    let names = header.section_strings(endian, file, table);
    let names = names.unwrap_or_default();
    let programs = programs.iter().map(|p| Program {
        load: p.p_type(endian) == elf::PT_LOAD,
        offset: p.p_offset(endian).into(),
        address: p.p_vaddr(endian).into(),
        file_size: p.p_filesz(endian).into(),
        memory_size: p.p_memsz(endian).into(),
        align: p.p_align(endian).into(),
    });
    let sections = table.iter().map(|s| {
        let kind = s.sh_type(endian);
        let flags = s.sh_flags(endian).0;
        let name = s.name(endian, names).unwrap_or_default();
        Section {
            name: String::from_utf8_lossy(name).into_owned(),
            stored: kind != elf::SHT_NULL && kind != elf::SHT_NOBITS,
            null: kind == elf::SHT_NULL,
            alloc: flags & elf::SHF_ALLOC.0 != 0,
            address: s.sh_addr(endian).into(),
            offset: s.sh_offset(endian).into(),
            size: s.sh_size(endian).into(),
        }
    });
    Ok(Headers {
        endian,
        shape,
        phoff: header.e_phoff(endian).into(),
        shoff: header.e_shoff(endian).into(),
        programs: programs.collect(),
        sections: sections.collect(),
    })
}
