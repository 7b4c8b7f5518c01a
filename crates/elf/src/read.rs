// SPDX-License-Identifier: GPL-2.0-only
//! Reads the headers. `object` supplies the structures of both classes and
//! byte orders; the checks are ours, because they follow what the kernel and
//! ld.so accept and have to say which field is wrong.

use crate::sections::{self, SectionFacts, Table};
use crate::source::Windows;
use crate::{Class, Error, FileSystem, Linker, Machine, Order, Segment, Source};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, pod};
use serde::Serialize;
use std::ffi::OsStr;
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What kind of file it is, as far as loading goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `ET_EXEC`: every address is fixed.
    PositionDependent,
    /// `ET_DYN` program with an interpreter.
    Pie,
    /// `ET_DYN` program without one.
    StaticPie,
    /// Shared library, or ld.so itself.
    Library,
    /// Object file or kernel module: linked before it is loaded.
    Relocatable,
    /// Core dump: never executed.
    Core,
    /// Any other `e_type`.
    Other,
}

impl Kind {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Kind::PositionDependent => "position-dependent executable",
            Kind::Pie => "position-independent executable",
            Kind::StaticPie => "static position-independent executable",
            Kind::Library => "shared library",
            Kind::Relocatable => "relocatable object",
            Kind::Core => "core dump",
            Kind::Other => "neither executable nor library",
        }
    }
}

/// What a file's headers say about how it is loaded and who made it.
#[derive(Clone, Debug, Serialize)]
pub struct Elf {
    /// Word size.
    pub class: Class,
    /// Byte order.
    pub order: Order,
    /// Instruction set.
    pub machine: Machine,
    /// How it is loaded.
    pub kind: Kind,
    /// Whether it names an interpreter (ld.so).
    pub dynamic: bool,
    /// The interpreter's path, if it can be read.
    pub interpreter: Option<PathBuf>,
    /// Its `PT_LOAD` segments in file order; empty for what is not loaded
    /// (relocatable objects, core dumps, separate debug files).
    pub segments: Vec<Segment>,
    /// What its section headers tell.
    pub sections: SectionFacts,
    /// The linker that made it.
    pub linker: Linker,
    /// What has packed it: then the segments are not the program's.
    pub packer: Option<Packer>,
    /// The file system that holds it, as far as whoever opened it says: it has
    /// a word in where the file is mapped.
    pub file_system: Option<FileSystem>,
}

/// A program that replaces another one by its compressed copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Packer {
    /// UPX
    Upx,
}

/// The first read: the file header, and in practice all program headers and
/// the interpreter's name.
const HEAD: u64 = 4096;
/// fs/binfmt_elf.c, `load_elf_phdrs()`: a larger table is refused.
const MAX_TABLE: u64 = 65536;

impl Elf {
    /// Reads a file's headers.
    ///
    /// # Errors
    ///
    /// If it is not an ELF file, ends before its headers or segments do, or
    /// has a header that no loader accepts.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Elf, Error> {
        let mut file = Windows::new(source);
        file.prefetch(0, HEAD)?;
        let (class, order) = identify(&mut file)?;
        let endian = match order {
            Order::Little => Endianness::Little,
            Order::Big => Endianness::Big,
        };
        match class {
            Class::Bits32 => read_class::<FileHeader32<Endianness>, S>(file, class, order, endian),
            Class::Bits64 => read_class::<FileHeader64<Endianness>, S>(file, class, order, endian),
        }
    }
}

fn identify<S: Source + ?Sized>(file: &mut Windows<S>) -> Result<(Class, Order), Error> {
    let head = file.bytes("the file's start", 0, file.file_size().min(16))?;
    if !head.starts_with(&elf::ELFMAG) {
        let found: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
        let found = match found.is_empty() {
            true => "nothing (empty file)".to_string(),
            false => found.join(" "),
        };
        return Err(Error::NotElf { found });
    }
    let ident = file.bytes("the ELF identification", 0, 16)?;
    let class = match ident[4] {
        1 => Class::Bits32,
        2 => Class::Bits64,
        other => {
            return Err(Error::field("EI_CLASS", other, "1 (32-bit) or 2 (64-bit)"));
        }
    };
    let order = match ident[5] {
        1 => Order::Little,
        2 => Order::Big,
        other => {
            return Err(Error::field(
                "EI_DATA",
                other,
                "1 (little-endian) or 2 (big-endian)",
            ));
        }
    };
    match ident[6] {
        1 => Ok((class, order)),
        other => Err(Error::field("EI_VERSION", other, "1")),
    }
}

fn read_class<E, S>(
    mut file: Windows<S>,
    class: Class,
    order: Order,
    endian: Endianness,
) -> Result<Elf, Error>
where
    E: FileHeader<Endian = Endianness>,
    S: Source + ?Sized,
{
    let bytes = file.bytes("the ELF header", 0, size_of::<E>() as u64)?;
    let header = *read_pod::<E>(bytes);
    let mut elf = Elf {
        class,
        order,
        machine: Machine(header.e_machine(endian).0),
        kind: Kind::Other,
        dynamic: false,
        interpreter: None,
        segments: Vec::new(),
        sections: SectionFacts::default(),
        linker: Linker::unknown(),
        packer: None,
        file_system: None,
    };
    elf.kind = match header.e_type(endian) {
        elf::ET_EXEC => Kind::PositionDependent,
        elf::ET_DYN => Kind::Library, // or a PIE: its dynamic section tells
        elf::ET_REL => Kind::Relocatable,
        elf::ET_CORE => Kind::Core,
        _ => Kind::Other,
    };
    if !matches!(elf.kind, Kind::PositionDependent | Kind::Library) {
        return Ok(elf);
    }
    let programs = program_headers(&mut file, &header, endian)?;
    let table = Table {
        offset: header.e_shoff(endian).into(),
        entry_size: header.e_shentsize(endian),
        count: header.e_shnum(endian),
        names: header.e_shstrndx(endian).0,
    };
    let marks;
    (elf.sections, marks) = sections::read::<E, S>(&mut file, table, endian);
    if elf.sections.debug_only {
        return Ok(elf);
    }
    elf.segments = segments::<E>(&programs, endian, class, file.file_size())?;
    let name = find::<E>(&programs, endian, elf::PT_INTERP);
    elf.dynamic = name.is_some();
    elf.interpreter = name.and_then(|(offset, size)| interpreter(&mut file, offset, size));
    if elf.kind == Kind::Library {
        let dynamic = find::<E>(&programs, endian, elf::PT_DYNAMIC);
        elf.kind = dyn_kind::<E, S>(&mut file, dynamic, endian, elf.dynamic)?;
    }
    elf.linker = Linker::detect(&marks, &elf.segments, elf.sections.present);
    let table = programs.len() as u64 * size_of::<E::ProgramHeader>() as u64;
    let end = header.e_phoff(endian).into().saturating_add(table);
    elf.packer = packer(&mut file, end)?;
    Ok(elf)
}

/// The path that PT_INTERP names, without the zero that ends it; none that fs/binfmt_elf.c refuses:
/// empty, longer than PATH_MAX or without its end.
fn interpreter<S: Source + ?Sized>(
    file: &mut Windows<S>,
    offset: u64,
    size: u64,
) -> Option<PathBuf> {
    const PATH_MAX: u64 = 4096;
    if !(2..=PATH_MAX).contains(&size) {
        return None;
    }
    let name = file.bytes("the interpreter's name", offset, size).ok()?;
    let name = name.strip_suffix(&[0])?;
    let name = name.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// UPX's `struct l_info` follows the program headers: a checksum, then this.
fn packer<S: Source + ?Sized>(file: &mut Windows<S>, end: u64) -> Result<Option<Packer>, Error> {
    if end.saturating_add(8) > file.file_size() {
        return Ok(None);
    }
    let mark = file.bytes("what follows the program headers", end, 8)?;
    Ok((mark[4..] == *b"UPX!").then_some(Packer::Upx))
}

/// Takes a structure from the start of bytes that are known to suffice; the
/// types have alignment 1 (feature `unaligned`).
fn read_pod<T: pod::Pod>(bytes: &[u8]) -> &T {
    let (value, _) = pod::from_bytes(bytes).expect("the caller reads the structure's size");
    value
}

fn program_headers<E, S>(
    file: &mut Windows<S>,
    header: &E,
    endian: Endianness,
) -> Result<Vec<E::ProgramHeader>, Error>
where
    E: FileHeader<Endian = Endianness>,
    S: Source + ?Sized,
{
    let count = u64::from(header.e_phnum(endian));
    if count == 0 {
        return Ok(Vec::new());
    }
    let entry = size_of::<E::ProgramHeader>();
    if usize::from(header.e_phentsize(endian)) != entry {
        return Err(Error::field(
            "e_phentsize",
            header.e_phentsize(endian),
            format!("{entry}, the size of a program header of this class"),
        ));
    }
    let size = count * entry as u64;
    if size > MAX_TABLE {
        return Err(Error::field(
            "e_phnum",
            count,
            format!(
                "at most {}: Linux loads up to {MAX_TABLE} bytes of program headers",
                MAX_TABLE / entry as u64
            ),
        ));
    }
    let offset = header.e_phoff(endian).into();
    let what = format!("the program header table (e_phoff, e_phnum {count})");
    let bytes = file.bytes(&what, offset, size)?;
    Ok(bytes.chunks_exact(entry).map(|b| *read_pod(b)).collect())
}

fn find<E: FileHeader<Endian = Endianness>>(
    programs: &[E::ProgramHeader],
    endian: Endianness,
    kind: elf::ProgramType,
) -> Option<(u64, u64)> {
    let header = programs.iter().find(|p| p.p_type(endian) == kind)?;
    Some((
        header.p_offset(endian).into(),
        header.p_filesz(endian).into(),
    ))
}

fn segments<E: FileHeader<Endian = Endianness>>(
    programs: &[E::ProgramHeader],
    endian: Endianness,
    class: Class,
    file_size: u64,
) -> Result<Vec<Segment>, Error> {
    let mut segments = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        if program.p_type(endian) != elf::PT_LOAD {
            continue;
        }
        let flags = program.p_flags(endian);
        let segment = Segment {
            index,
            offset: program.p_offset(endian).into(),
            address: program.p_vaddr(endian).into(),
            file_size: program.p_filesz(endian).into(),
            memory_size: program.p_memsz(endian).into(),
            align: program.p_align(endian).into(),
            read: flags & elf::PF_R != elf::ProgramFlags(0),
            write: flags & elf::PF_W != elf::ProgramFlags(0),
            execute: flags & elf::PF_X != elf::ProgramFlags(0),
        };
        check_segment(&segment, class, file_size)?;
        segments.push(segment);
    }
    check_overlap(&segments)?;
    Ok(segments)
}

fn check_segment(segment: &Segment, class: Class, file_size: u64) -> Result<(), Error> {
    let field = |name: &str| format!("{name} of segment {}", segment.index);
    let end = segment.offset.checked_add(segment.file_size);
    if segment.file_size > 0 && end.is_none_or(|end| end > file_size) {
        return Err(Error::Truncated {
            what: format!("segment {}", segment.index),
            offset: segment.offset,
            size: segment.file_size,
            file_size,
        });
    }
    if segment.file_size > segment.memory_size {
        return Err(Error::field(
            field("p_filesz"),
            format!("{:#x}", segment.file_size),
            format!("at most p_memsz, {:#x}", segment.memory_size),
        ));
    }
    if segment.align != 0 && !segment.align.is_power_of_two() {
        return Err(Error::field(
            field("p_align"),
            format!("{:#x}", segment.align),
            "0 or a power of two",
        ));
    }
    let top = match class {
        Class::Bits32 => 1 << 32,
        Class::Bits64 => u64::MAX,
    };
    let end = segment.address.checked_add(segment.memory_size);
    if end.is_none_or(|end| end > top) {
        return Err(Error::field(
            field("p_memsz"),
            format!(
                "{:#x} at address {:#x}",
                segment.memory_size, segment.address
            ),
            "small enough to stay inside the address space",
        ));
    }
    Ok(())
}

/// Byte for byte: segments that only share a page are mapped one over the
/// other, which linkers rely on.
fn check_overlap(segments: &[Segment]) -> Result<(), Error> {
    let mut sorted: Vec<&Segment> = segments.iter().filter(|s| s.memory_size > 0).collect();
    sorted.sort_by_key(|s| s.address);
    for pair in sorted.windows(2) {
        let end = pair[0].address + pair[0].memory_size;
        if end > pair[1].address {
            return Err(Error::Overlap {
                first: pair[0].index,
                second: pair[1].index,
                end,
                start: pair[1].address,
            });
        }
    }
    Ok(())
}

/// Tells a PIE from a library, which share `ET_DYN`: by `DF_1_PIE`, which
/// linkers have set since 2018, else by having an interpreter but no soname
/// (libc.so.6 has both).
fn dyn_kind<E, S>(
    file: &mut Windows<S>,
    dynamic: Option<(u64, u64)>,
    endian: Endianness,
    interpreter: bool,
) -> Result<Kind, Error>
where
    E: FileHeader<Endian = Endianness>,
    S: Source + ?Sized,
{
    let (mut pie, mut soname) = (false, false);
    if let Some((offset, size)) = dynamic {
        let bytes = file.bytes("the dynamic section (PT_DYNAMIC)", offset, size)?;
        for entry in bytes.chunks_exact(size_of::<E::Dyn>()) {
            let entry = read_pod::<E::Dyn>(entry);
            match entry.d_tag(endian) {
                elf::DT_NULL => break,
                elf::DT_SONAME => soname = true,
                elf::DT_FLAGS_1 => {
                    let flags: u64 = entry.d_val(endian).into();
                    pie = flags & elf::DF_1_PIE.0 != 0;
                }
                _ => {}
            }
        }
    }
    Ok(match (pie || interpreter && !soname, interpreter) {
        (true, true) => Kind::Pie,
        (true, false) => Kind::StaticPie,
        (false, _) => Kind::Library,
    })
}
