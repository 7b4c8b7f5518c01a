// SPDX-License-Identifier: GPL-2.0-only
//! The leaf policy: the C core that the kernel runs, callable from Rust.
//!
//! [`read`] answers which folios to read for a fault in text, [`align`] and
//! [`align_elf`] which alignment to give a mapping or an ELF image. Nothing is
//! decided on this side. The rules are explained in `docs/policy.md`.

#[cfg(test)]
mod cases;
pub mod exec_read;
mod faults;
mod ffi;
#[cfg(test)]
mod layout;
mod machines;
pub mod replay;
mod rules;
pub mod sim;
pub mod strategy;
pub mod trace;

pub use machines::Leaf;

use machines::Machine;
use rules::RULES;
use serde::Serialize;

/// Reads start on multiples of this many bytes (64K).
pub const UNIT: u64 = 1 << 16;
/// Log2 of the widest leaf the policy ever asks for (2M).
pub const WIDEST_SHIFT: u8 = 21;
/// How far around a fault a caller reports resident pages, in bytes.
pub const SCAN: u64 = 1 << WIDEST_SHIFT;

/// The leaves of one architecture and base page size.
#[derive(Clone, Copy)]
pub struct Table(&'static Machine);

#[cfg(test)]
fn text(pointer: *const std::ffi::c_char) -> &'static str {
    // SAFETY: the core hands out NUL-terminated string constants only.
    let text = unsafe { std::ffi::CStr::from_ptr(pointer) };
    text.to_str().unwrap_or("?")
}

impl Table {
    /// All tables there are.
    pub fn all() -> Vec<Table> {
        machines::ALL.iter().map(Table).collect()
    }

    /// The table of `arch` (`arm64`, `x86_64`) with base pages of
    /// `1 << page_shift` bytes.
    pub fn find(arch: &str, page_shift: u8) -> Option<Table> {
        Table::all()
            .into_iter()
            .find(|table| table.arch() == arch && table.page_shift() == page_shift)
    }

    /// The architecture's name.
    pub fn arch(&self) -> &'static str {
        self.0.arch
    }

    /// Log2 of the base page size.
    pub fn page_shift(&self) -> u8 {
        self.leaves()[0].shift
    }

    /// The leaves, narrowest first.
    pub fn leaves(&self) -> &'static [Leaf] {
        self.0.leaves
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}K", self.arch(), (1 << self.page_shift()) / 1024)
    }
}

/// The rule that took or refused a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub struct Rule(u8);

impl Rule {
    /// Short name, as in `docs/policy.md`.
    pub fn name(self) -> &'static str {
        RULES.get(usize::from(self.0)).map_or("?", |rule| rule.0)
    }

    /// The rule in words, to follow "because".
    pub fn text(self) -> &'static str {
        RULES.get(usize::from(self.0)).map_or("?", |rule| rule.1)
    }
}

impl From<Rule> for &'static str {
    fn from(rule: Rule) -> Self {
        rule.name()
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The administrator's word on transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thp {
    /// Switches the policy off.
    Never = 0,
    /// On; text needs no `madvise()`.
    Madvise = 1,
    /// On.
    Always = 2,
}

/// What a program says of how it will execute text: `madvise()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    None = 0,
    /// `MADV_RANDOM`.
    Random = 1,
    /// `MADV_SEQUENTIAL`.
    Sequential = 2,
}

/// What both questions rest on.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    /// Leaves of the kernel in question.
    pub table: Table,
    /// Bytes in the file, or 0 where unknown.
    pub file_size: u64,
    /// Smallest folio order of the file in the page cache.
    pub min_order: u8,
    /// Largest folio order of the file in the page cache.
    pub max_order: u8,
    /// Transparent huge page mode.
    pub thp: Thp,
    /// The runtime switch.
    pub enabled: bool,
}

impl Ground {
    fn ffi(&self) -> ffi::Ground {
        ffi::Ground {
            table: &raw const self.table.0.table,
            file_size: self.file_size,
            min_order: self.min_order,
            max_order: self.max_order,
            thp: self.thp as u8,
            enabled: self.enabled.into(),
        }
    }
}

/// Evidence kept per file from fault to fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Speculative bytes not yet proven useful, in 4K units.
    pub debt: u16,
    /// Misses without neighbours, less those with.
    pub lonely: u16,
}

/// A fault in a file mapping. All fields in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Table, file and switches.
    pub ground: Ground,
    /// First address of the mapping.
    pub start: u64,
    /// Address after its last byte, 0 for 2^64.
    pub end: u64,
    /// File offset mapped at `start`.
    pub offset: u64,
    /// Faulting address.
    pub fault: u64,
    /// Readahead window, 0 for none.
    pub window: u64,
    /// Memory that may be taken before anybody has to reclaim, or left in the
    /// memory cgroup; 0 under memory pressure.
    pub spare: u64,
    /// Missing from the page cache directly before the faulting page.
    pub hole: u64,
    /// Resident directly before `hole`, seen from the faulting page.
    pub run: u64,
    /// Missing from the faulting page on.
    pub gap: u64,
    /// Size of the previous read if that ended where `hole` begins, else 0.
    pub last_size: u64,
    /// Log2 of the leaf that narrow folios can be copied into, 0 for none.
    pub collapse: u8,
    /// Resident in the aligned block of that size around the fault.
    pub filled: u64,
    /// Whether the faulting page was in memory before and had to go.
    pub evicted: bool,
    /// What the program says of how it will execute the text.
    pub advice: Advice,
    /// Evidence so far.
    pub account: Account,
}

/// What to read for a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadAnswer {
    /// File offset to read from.
    pub offset: u64,
    /// Bytes to read; 0 leaves the decision to the kernel's old ways.
    pub size: u64,
    /// Widest folio order to allocate.
    pub order: u8,
    /// Log2 of the leaf that is to map the fault.
    pub leaf: u8,
    /// The rule that decided.
    pub rule: Rule,
    /// Log2 of the leaf to form by copying once the read is done, 0 for none.
    pub collapse: u8,
    /// Evidence to keep.
    pub account: Account,
    /// Leaves considered, widest first; the last one was taken.
    pub trace: Vec<Tried>,
}

/// A leaf that was considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Log2 of its size.
    pub shift: u8,
    /// The rule that refused or took it.
    pub rule: Rule,
}

fn trace(trace: &ffi::Trace) -> Vec<Tried> {
    trace.tried[..trace.nr as usize]
        .iter()
        .map(|tried| Tried {
            shift: tried.shift,
            rule: Rule(tried.rule),
        })
        .collect()
}

/// Whether a wide leaf can ever map a part of the `length` bytes that are
/// mapped at `start` from file offset `offset` on.
pub fn helps(ground: &Ground, start: u64, length: u64, offset: u64) -> bool {
    // SAFETY: `ground` lives until the call returns; its table is static.
    unsafe { ffi::leaf_helps(&ground.ffi(), start, length, offset) != 0 }
}

/// Which folios to read for a fault.
pub fn read(read: &Read) -> ReadAnswer {
    let query = ffi::Read {
        ground: read.ground.ffi(),
        start: read.start,
        end: read.end,
        offset: read.offset,
        fault: read.fault,
        window: read.window,
        spare: read.spare,
        hole: read.hole,
        run: read.run,
        gap: read.gap,
        last_size: read.last_size,
        filled: read.filled,
        collapse: read.collapse,
        evicted: read.evicted.into(),
        advice: read.advice as u8,
        account: ffi::Account {
            debt: read.account.debt,
            lonely: read.account.lonely,
        },
    };
    let mut answer = ffi::ReadAnswer::default();
    // SAFETY: both live until the call returns; the table in `query` is static.
    unsafe { ffi::leaf_read_decide(&query, &mut answer) };
    ReadAnswer {
        offset: answer.offset,
        size: answer.size,
        order: answer.order,
        leaf: answer.leaf,
        rule: Rule(answer.rule),
        collapse: answer.collapse,
        account: Account {
            debt: answer.account.debt,
            lonely: answer.account.lonely,
        },
        trace: trace(&answer.trace),
    }
}

/// A file mapping to be placed. All fields in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Align {
    /// Table, file and switches.
    pub ground: Ground,
    /// File offset of the mapping's first byte. Not used for an ELF image.
    pub offset: u64,
    /// Bytes to map; for an ELF image, the span of its segments.
    pub length: u64,
    /// Address space available to place it in.
    pub space: u64,
}

/// Where a mapping should start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlignAnswer {
    /// Log2 of the alignment; the page's where none helps.
    pub shift: u8,
    /// The rule that decided.
    pub rule: Rule,
    /// For an ELF image: index of the segment that asked for it.
    pub segment: u32,
    /// Leaves considered, widest first; the last one was taken.
    pub trace: Vec<Tried>,
}

impl Align {
    fn ffi(&self) -> ffi::Align {
        ffi::Align {
            ground: self.ground.ffi(),
            offset: self.offset,
            length: self.length,
            space: self.space,
        }
    }
}

impl From<ffi::AlignAnswer> for AlignAnswer {
    fn from(answer: ffi::AlignAnswer) -> Self {
        AlignAnswer {
            shift: answer.shift,
            rule: Rule(answer.rule),
            segment: answer.segment,
            trace: trace(&answer.trace),
        }
    }
}

/// Which alignment to give a file mapping.
pub fn align(align: &Align) -> AlignAnswer {
    let mut answer = ffi::AlignAnswer::default();
    // SAFETY: both live until the call returns.
    unsafe { ffi::leaf_align_decide(&align.ffi(), &mut answer) };
    answer.into()
}

/// A `PT_LOAD` program header.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `p_vaddr`.
    pub vaddr: u64,
    /// `p_offset`.
    pub offset: u64,
    /// `p_filesz`.
    pub filesz: u64,
    /// Whether `p_flags` has `PF_W`.
    pub writable: bool,
}

/// Which alignment to give the load bias of an ELF image.
pub fn align_elf(align: &Align, segments: &[Segment]) -> AlignAnswer {
    let segments: Vec<_> = segments
        .iter()
        .map(|segment| ffi::Segment {
            vaddr: segment.vaddr,
            offset: segment.offset,
            filesz: segment.filesz,
            flags: segment.writable.into(),
        })
        .collect();
    let mut answer = ffi::AlignAnswer::default();
    // SAFETY: `segments` outlives the call and its length is passed.
    unsafe {
        ffi::leaf_align_elf(
            &align.ffi(),
            segments.as_ptr(),
            segments.len() as u32,
            &mut answer,
        );
    }
    answer.into()
}
