// SPDX-License-Identifier: GPL-2.0-only
//! ELF images made by hand, field by field: what no linker would write.

/// A file header and program headers of either class and byte order.
#[derive(Clone, Debug)]
pub struct Image {
    pub bits64: bool,
    pub big_endian: bool,
    pub kind: u16,
    pub machine: u16,
    pub phoff: u64,
    pub phentsize: u16,
    /// Overrides the number of program headers that there are.
    pub phnum: Option<u16>,
    pub shoff: u64,
    pub shentsize: u16,
    pub shnum: u16,
    pub shstrndx: u16,
    pub programs: Vec<Program>,
    /// Size of the file, filled up with zeroes.
    pub size: usize,
}

/// A program header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Program {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

pub const PT_LOAD: u32 = 1;
pub const PT_INTERP: u32 = 3;
pub const R: u32 = 4;
pub const W: u32 = 2;
pub const X: u32 = 1;
pub const ET_EXEC: u16 = 2;
pub const ET_DYN: u16 = 3;

/// A `PT_LOAD` header whose bytes all come from the file.
pub fn load(flags: u32, offset: u64, address: u64, size: u64, align: u64) -> Program {
    Program {
        kind: PT_LOAD,
        flags,
        offset,
        address,
        file_size: size,
        memory_size: size,
        align,
    }
}

impl Image {
    /// A file of this class and order, just large enough for its segments.
    pub fn new(bits64: bool, big_endian: bool, kind: u16, programs: Vec<Program>) -> Image {
        let (header, entry) = if bits64 { (64, 56) } else { (52, 32) };
        let end = |p: &Program| p.offset.saturating_add(p.file_size);
        let end = programs.iter().map(end).max().unwrap_or(0);
        let table = header + entry * programs.len() as u64;
        Image {
            bits64,
            big_endian,
            kind,
            machine: 62,
            phoff: header,
            phentsize: entry as u16,
            phnum: None,
            shoff: 0,
            shentsize: 0,
            shnum: 0,
            shstrndx: 0,
            size: end.max(table).min(64 << 20) as usize,
            programs,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Writer {
            bytes: vec![0x7f, b'E', b'L', b'F'],
            bits64: self.bits64,
            big_endian: self.big_endian,
        };
        out.bytes.push(if self.bits64 { 2 } else { 1 });
        out.bytes.push(if self.big_endian { 2 } else { 1 });
        out.bytes.push(1);
        out.bytes.resize(16, 0);
        out.half(self.kind);
        out.half(self.machine);
        out.word(1);
        out.address(0);
        out.address(self.phoff);
        out.address(self.shoff);
        out.word(0);
        out.half(if self.bits64 { 64 } else { 52 });
        out.half(self.phentsize);
        out.half(self.phnum.unwrap_or(self.programs.len() as u16));
        out.half(self.shentsize);
        out.half(self.shnum);
        out.half(self.shstrndx);
        for program in &self.programs {
            out.program(program);
        }
        out.bytes.resize(self.size, 0);
        out.bytes
    }
}

struct Writer {
    bytes: Vec<u8>,
    bits64: bool,
    big_endian: bool,
}

impl Writer {
    fn put(&mut self, value: u64, size: usize) {
        let little = value.to_le_bytes();
        let bytes = little[..size].iter().copied();
        match self.big_endian {
            true => self.bytes.extend(bytes.rev()),
            false => self.bytes.extend(bytes),
        }
    }

    fn half(&mut self, value: u16) {
        self.put(value.into(), 2);
    }

    fn word(&mut self, value: u32) {
        self.put(value.into(), 4);
    }

    fn address(&mut self, value: u64) {
        self.put(value, if self.bits64 { 8 } else { 4 });
    }

    fn program(&mut self, program: &Program) {
        self.word(program.kind);
        if self.bits64 {
            self.word(program.flags);
        }
        self.address(program.offset);
        self.address(program.address);
        self.address(program.address);
        self.address(program.file_size);
        self.address(program.memory_size);
        if !self.bits64 {
            self.word(program.flags);
        }
        self.address(program.align);
    }
}
