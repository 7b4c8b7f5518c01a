// SPDX-License-Identifier: GPL-2.0-only
//! Files for unit tests, as their headers are read.

use crate::{Class, Elf, Kind, Linker, Machine, Order, SectionFacts, Segment};

/// A segment from the file to its last byte; `flags` of `r`, `w` and `x`.
pub(crate) fn segment(index: usize, flags: &str, offset: u64, address: u64, size: u64) -> Segment {
    Segment {
        index,
        offset,
        address,
        file_size: size,
        memory_size: size,
        align: 4096,
        read: true,
        write: flags.contains('w'),
        execute: flags.contains('x'),
    }
}

/// A 64-bit file with nothing but segments.
pub(crate) fn elf(machine: Machine, kind: Kind, segments: Vec<Segment>) -> Elf {
    Elf {
        class: Class::Bits64,
        order: Order::Little,
        machine,
        kind,
        dynamic: kind == Kind::Pie,
        interpreter: None,
        segments,
        sections: SectionFacts::default(),
        linker: Linker::unknown(),
        packer: None,
        file_system: None,
    }
}
