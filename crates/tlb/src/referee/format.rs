// SPDX-License-Identifier: GPL-2.0-only
//! Descriptors of both architectures in one form, and a walk that keeps what a
//! TLB would: permissions, memory type, access flag.
//!
//! Attributes in table descriptors (APTable, UXNTable, PXNTable; U/S and R/W of
//! x86's upper levels) are not combined into the leaf's: Linux does not change
//! them while a table is live.

use crate::arm64::Granule;
use crate::mmu::Mmu;
use crate::walk::PhysMem;
use crate::{arm64, x86};

/// What an access wants, and what an entry grants: a set of bits.
pub mod grant {
    /// Privileged read.
    pub const KERNEL_READ: u8 = 1;
    /// Privileged write.
    pub const KERNEL_WRITE: u8 = 2;
    /// Privileged fetch.
    pub const KERNEL_FETCH: u8 = 4;
    /// Read from EL0 or CPL 3.
    pub const USER_READ: u8 = 8;
    /// Write from EL0 or CPL 3.
    pub const USER_WRITE: u8 = 16;
    /// Fetch at EL0 or CPL 3.
    pub const USER_FETCH: u8 = 32;
}
use grant::*;

/// A descriptor's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desc {
    /// Not valid: nothing is cached of it.
    Invalid,
    /// The next table is at this physical address.
    Table(u64),
    /// A page or a block.
    Leaf(Leaf),
}

/// A page or block descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Physical address of the first byte.
    pub pa: u64,
    /// Size of the one descriptor, log2 of bytes.
    pub shift: u8,
    /// Size of the contiguous group that it says to be part of, else `shift`.
    pub group: u8,
    /// Bits of [`grant`]. What hardware may turn on by itself (dirty state) is
    /// granted.
    pub grants: u8,
    /// Memory type, security and shareability.
    pub attributes: u16,
    /// Valid in every address space.
    pub global: bool,
    /// A TLB may hold it: the access flag is set, or hardware may set it.
    pub cacheable: bool,
}

/// One table of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Bytes that one entry translates, log2.
    pub unit: u8,
    /// Entries, log2.
    pub index_bits: u8,
    /// Upper half of the address space.
    pub high: bool,
    /// The upper half of its entries translates the upper half of the address
    /// space: x86's first table.
    pub both: bool,
}

impl Shape {
    /// Bytes of the table.
    pub fn bytes(self) -> u64 {
        8 << self.index_bits
    }
}

const AF: u64 = 1 << 10;
const AP_EL0: u64 = 1 << 6;
const AP_READ_ONLY: u64 = 1 << 7;
const NG: u64 = 1 << 11;
const DBM: u64 = 1 << 51;
const CONTIGUOUS: u64 = 1 << 52;
const PXN: u64 = 1 << 53;
const UXN: u64 = 1 << 54;
/// TCR_EL1.HA and HD: hardware updates the access flag, the dirty state.
const TCR_HA: u64 = 1 << 39;
const TCR_HD: u64 = 1 << 40;

/// First table of a half: physical address and shape.
pub fn root(mmu: &Mmu, high: bool) -> Option<(u64, Shape)> {
    if !mmu.enabled() {
        return None;
    }
    match mmu {
        Mmu::Arm64(m) => {
            let (base, va_bits, level) = m.first_table(high)?;
            let granule = granule(m, high);
            let unit = granule.shift() + granule.stride() * (3 - level) as u8;
            let index_bits = va_bits - unit;
            Some((
                base,
                Shape {
                    unit,
                    index_bits,
                    high,
                    both: false,
                },
            ))
        }
        Mmu::X86(m) => {
            let unit = if m.levels() == 5 { 48 } else { 39 };
            Some((
                m.root(),
                Shape {
                    unit,
                    index_bits: 9,
                    high: false,
                    both: true,
                },
            ))
        }
    }
}

fn granule(m: &arm64::Mmu, high: bool) -> Granule {
    m.granule(if high { u64::MAX } else { 0 })
}

/// The shape of the tables that a table of `shape` leads to.
pub fn next(mmu: &Mmu, shape: Shape) -> Shape {
    let stride = match mmu {
        Mmu::Arm64(m) => granule(m, shape.high).stride(),
        Mmu::X86(_) => 9,
    };
    Shape {
        unit: shape.unit - stride,
        index_bits: stride,
        high: shape.high,
        both: false,
    }
}

/// The level of an entry that translates `1 << unit` bytes, as arm64 numbers
/// them: 3 is the last.
pub fn level(mmu: &Mmu, high: bool, unit: u8) -> i8 {
    match mmu {
        Mmu::Arm64(m) => {
            let g = granule(m, high);
            3 - ((unit - g.shift()) / g.stride()) as i8
        }
        Mmu::X86(_) => 3 - ((unit - 12) / 9) as i8,
    }
}

/// Size of the contiguous group at this level, log2 of bytes; `unit` if there
/// is none.
pub fn group(mmu: &Mmu, high: bool, unit: u8) -> u8 {
    match mmu {
        Mmu::Arm64(m) => unit + granule(m, high).contiguous_shift(level(mmu, high, unit)),
        Mmu::X86(_) => unit,
    }
}

/// Decodes an entry of a table of `shape`.
pub fn decode(mmu: &Mmu, shape: Shape, word: u64) -> Desc {
    match mmu {
        Mmu::Arm64(m) => arm64_desc(m, mmu, shape, word),
        Mmu::X86(m) => x86_desc(m, shape, word),
    }
}

fn arm64_desc(m: &arm64::Mmu, mmu: &Mmu, shape: Shape, word: u64) -> Desc {
    let granule = granule(m, shape.high);
    let level = level(mmu, shape.high, shape.unit);
    if word & 1 == 0 {
        return Desc::Invalid;
    }
    let table = word & 2 != 0;
    if level < 3 && table {
        return Desc::Table(m.output(granule, word));
    }
    if (level == 3) != table || (level < 3 && !m.block_allowed(granule, level)) {
        return Desc::Invalid;
    }
    let tcr = m.regs().tcr;
    let dirties = tcr & TCR_HD != 0;
    let grants = match m.regs().permissions {
        Some(permissions) => indexed_grants(word, dirties, permissions),
        None => direct_grants(word, dirties),
    };
    let contiguous = word & CONTIGUOUS != 0;
    Desc::Leaf(Leaf {
        pa: m.output(granule, word) >> shape.unit << shape.unit,
        shift: shape.unit,
        group: match contiguous {
            true => group(mmu, shape.high, shape.unit),
            false => shape.unit,
        },
        grants,
        attributes: attributes(m, word),
        global: word & NG == 0,
        cacheable: word & AF != 0 || tcr & TCR_HA != 0,
    })
}

/// The access that AP, PXN and UXN grant. `dirties`: hardware makes an entry with DBM dirty by itself.
fn direct_grants(word: u64, dirties: bool) -> u8 {
    let read_only = word & AP_READ_ONLY != 0 && (word & DBM == 0 || !dirties);
    let el0 = word & AP_EL0 != 0;
    let bit = |on, bit| if on { bit } else { 0 };
    KERNEL_READ
        | bit(!read_only, KERNEL_WRITE)
        | bit(word & PXN == 0, KERNEL_FETCH)
        | bit(el0, USER_READ)
        | bit(el0 && !read_only, USER_WRITE)
        | bit(word & UXN == 0, USER_FETCH)
}

/// The access that PIR_EL1 and PIRE0_EL1 grant at the index that the entry names (FEAT_S1PIE). AP\[2\] is
/// nDirty then. Overlays (FEAT_S1POE) take more away, and are not looked at.
fn indexed_grants(word: u64, dirties: bool, [kernel, user]: [u64; 2]) -> u8 {
    const READ: u8 = KERNEL_READ;
    const WRITE: u8 = KERNEL_WRITE;
    const FETCH: u8 = KERNEL_FETCH;
    let bit = |from: u32, to: u32| (word >> from & 1) << to;
    let index = bit(54, 3) | bit(53, 2) | bit(51, 1) | bit(6, 0);
    let clean = word & AP_READ_ONLY != 0 && !dirties;
    let granted = |register: u64| {
        // As Linux' asm/sysreg.h has them (PIE_R and others).
        let all = match register >> (index * 4) & 15 {
            1 | 8 | 9 => READ,
            2 => FETCH,
            3 | 10 => READ | FETCH,
            5 | 6 | 12 => READ | WRITE,
            7 | 14 => READ | WRITE | FETCH,
            _ => 0,
        };
        if clean { all & !WRITE } else { all }
    };
    granted(kernel) | granted(user) << 3
}

/// The memory type that AttrIndx (bits 4:2) chooses from MAIR_EL1, with NS (5)
/// and SH (9:8; with LPA2 these are address bits) above. Normal Tagged counts
/// as Normal: to tag or not is no change of memory type or cacheability.
fn attributes(m: &arm64::Mmu, word: u64) -> u16 {
    const NORMAL: u64 = 0xff;
    const NORMAL_TAGGED: u64 = 0xf0;
    let kind = match m.regs().mair >> ((word >> 2 & 7) * 8) & 0xff {
        NORMAL_TAGGED => NORMAL,
        kind => kind,
    };
    let shareability = if m.ds() { 0 } else { word >> 8 & 3 };
    (kind | (word >> 5 & 1) << 8 | shareability << 9) as u16
}

fn x86_desc(m: &x86::Mmu, shape: Shape, word: u64) -> Desc {
    const WRITE: u64 = 2;
    const USER: u64 = 4;
    const PS: u64 = 1 << 7;
    const XD: u64 = 1 << 63;
    const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
    if word & 1 == 0 {
        return Desc::Invalid;
    }
    let leaf = shape.unit == 12 || (word & PS != 0 && (shape.unit == 21 || shape.unit == 30));
    if !leaf {
        return Desc::Table(word & ADDRESS);
    }
    let bit = |on, bit| if on { bit } else { 0 };
    let (write, user, fetch) = (word & WRITE != 0, word & USER != 0, word & XD == 0);
    Desc::Leaf(Leaf {
        pa: (word & ADDRESS) >> shape.unit << shape.unit,
        shift: shape.unit,
        group: shape.unit,
        grants: KERNEL_READ
            | bit(write, KERNEL_WRITE)
            | bit(fetch, KERNEL_FETCH)
            | bit(user, USER_READ)
            | bit(user && write, USER_WRITE)
            | bit(user && fetch, USER_FETCH),
        attributes: 0,
        global: m.is_global(word),
        // SDM 4.10.2.3: cached only once the accessed flag is set, but the
        // walk that caches sets it.
        cacheable: true,
    })
}

/// Walks for `va`: the last entry read, the table's shape and the entry's
/// physical address.
pub fn walk(mmu: &Mmu, mem: &impl PhysMem, va: u64) -> Option<(Desc, Shape, u64)> {
    let high = is_high(mmu, va);
    let (mut base, mut shape) = root(mmu, high)?;
    loop {
        let index = (va >> shape.unit) & ((1 << shape.index_bits) - 1);
        let pa = base + index * 8;
        let desc = decode(mmu, shape, mem.read_u64(pa)?);
        let Desc::Table(below) = desc else {
            return Some((desc, shape, pa));
        };
        base = below;
        shape = next(mmu, shape);
    }
}

/// Is `va` in the half that TTBR1 translates? On x86 one root translates both.
pub fn is_high(mmu: &Mmu, va: u64) -> bool {
    matches!(mmu, Mmu::Arm64(_)) && arm64::Mmu::is_high(va)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(word: u64, permissions: Option<[u64; 2]>) -> u8 {
        let mmu = Mmu::Arm64(arm64::Mmu::new(arm64::Regs {
            tcr: 25 | 25 << 16 | 2 << 30,
            sctlr: 1,
            permissions,
            ..Default::default()
        }));
        let shape = Shape {
            unit: 12,
            index_bits: 9,
            high: false,
            both: false,
        };
        match decode(&mmu, shape, word | AF | 3) {
            Desc::Leaf(leaf) => leaf.grants,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn permissions_are_those_of_the_index_where_entries_name_one() {
        // Index 1 (AP[1]): the kernel may read and write, user space all. 14 (UXN, PXN, DBM): the
        // kernel may read and write, user space nothing.
        let pie = Some([12 << 56 | 12 << 4, 14 << 4]);
        let shared = AP_EL0;
        assert_eq!(
            grants(shared, pie),
            KERNEL_READ | KERNEL_WRITE | USER_READ | USER_WRITE | USER_FETCH
        );
        let kernel = UXN | PXN | DBM;
        assert_eq!(grants(kernel, pie), KERNEL_READ | KERNEL_WRITE);
        assert_eq!(grants(kernel | AP_READ_ONLY, pie), KERNEL_READ, "clean");
        assert_eq!(grants(0, pie), 0, "index 0 grants nothing");
        // Without, the bits speak for themselves.
        assert_eq!(grants(kernel, None), KERNEL_READ | KERNEL_WRITE);
        assert_ne!(grants(0, None), 0);
    }
}
