// SPDX-License-Identifier: GPL-2.0-only
//! Walking arm64 page tables: stage 1 of the EL1&0 regime, VMSAv8-64.
//!
//! References are to the Arm Architecture Reference Manual, DDI 0487, chapter
//! D8 "The AArch64 Virtual Memory System Architecture".
//!
//! The model follows what a TLB caches, not what an access may do: access
//! permissions and the access flag are not looked at, because the access that
//! asks has already succeeded in QEMU.

use crate::walk::{PhysMem, Translation, Walk};

/// The registers that say how EL1 and EL0 addresses are translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs {
    /// TTBR0_EL1.
    pub ttbr0: u64,
    /// TTBR1_EL1.
    pub ttbr1: u64,
    /// TCR_EL1.
    pub tcr: u64,
    /// SCTLR_EL1; only M (bit 0) matters.
    pub sctlr: u64,
    /// MAIR_EL1: memory types, of which only the referee wants to know.
    pub mair: u64,
    /// PIR_EL1 and PIRE0_EL1, if TCR2_EL1.PIE lets entries name permissions by their index there
    /// (FEAT_S1PIE). Only the referee wants to know.
    pub permissions: Option<[u64; 2]>,
}

/// log2 of a granule's size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granule {
    /// 4K.
    K4 = 12,
    /// 16K.
    K16 = 14,
    /// 64K.
    K64 = 16,
}

impl Granule {
    /// log2 of the granule's size in bytes.
    pub const fn shift(self) -> u8 {
        self as u8
    }

    /// VA bits that one level of table resolves: a table is one granule of
    /// 8-byte descriptors.
    pub(crate) const fn stride(self) -> u8 {
        self as u8 - 3
    }

    /// log2 of the descriptors in a contiguous group at `level`; 0 where the
    /// architecture defines none (D8.7.1, "The Contiguous bit").
    pub(crate) const fn contiguous_shift(self, level: i8) -> u8 {
        match (self, level) {
            (Granule::K4, 1..=3) => 4,
            (Granule::K16, 3) => 7,
            (Granule::K16, 2) => 5,
            (Granule::K64, 2..=3) => 5,
            _ => 0,
        }
    }
}

/// One half of the address space: what one TTBR translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Half {
    granule: Granule,
    /// Bits of virtual address translated, 64 - TxSZ.
    va_bits: u8,
    /// TCR_EL1.EPDx: walks are disabled.
    disabled: bool,
    /// Level of the first lookup, -1 ..= 3.
    start_level: i8,
    /// Physical address of the first table.
    base: u64,
}

/// The registers, decoded once per change so that walks need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmu {
    regs: Regs,
    halves: [Half; 2],
    /// TCR_EL1.DS: LPA2, 52-bit addresses with the 4K and 16K granules.
    ds: bool,
    /// TCR_EL1.IPS asks for 52-bit output addresses.
    ips52: bool,
    asid: u16,
}

const TCR_EPD0: u64 = 1 << 7;
const TCR_A1: u64 = 1 << 22;
const TCR_EPD1: u64 = 1 << 23;
const TCR_AS: u64 = 1 << 36;
const TCR_DS: u64 = 1 << 59;

const DESC_VALID: u64 = 1;
/// Bit 1: table at levels -1 to 2, page at level 3; clear: block.
const DESC_TABLE: u64 = 2;
const DESC_NG: u64 = 1 << 11;
const DESC_CONTIGUOUS: u64 = 1 << 52;
/// Bits 58:55 are software's (D8.3.2).
const SOFTWARE: u64 = 0xf << 55;

/// Bits `hi`..=`lo` of `value`, in place.
const fn bits_in_place(value: u64, hi: u32, lo: u32) -> u64 {
    value & (u64::MAX >> (63 - hi)) & (u64::MAX << lo)
}

impl Mmu {
    /// Decodes `regs` (D17.2 "TCR_EL1", "TTBR0_EL1").
    pub fn new(regs: Regs) -> Self {
        let tcr = regs.tcr;
        let ds = tcr & TCR_DS != 0;
        let ips52 = (tcr >> 32) & 7 >= 6;
        let granule0 = match (tcr >> 14) & 3 {
            1 => Granule::K64,
            2 => Granule::K16,
            _ => Granule::K4,
        };
        let granule1 = match (tcr >> 30) & 3 {
            1 => Granule::K16,
            3 => Granule::K64,
            _ => Granule::K4,
        };
        let half = |granule, txsz: u64, disabled, ttbr| {
            Half::new(granule, (txsz & 63) as u8, disabled, ttbr, ds, ips52)
        };
        let asid_ttbr = if tcr & TCR_A1 != 0 {
            regs.ttbr1
        } else {
            regs.ttbr0
        };
        let asid_mask = if tcr & TCR_AS != 0 { 0xffff } else { 0xff };
        Mmu {
            regs,
            halves: [
                half(granule0, tcr, tcr & TCR_EPD0 != 0, regs.ttbr0),
                half(granule1, tcr >> 16, tcr & TCR_EPD1 != 0, regs.ttbr1),
            ],
            ds,
            ips52,
            asid: (asid_ttbr >> 48) as u16 & asid_mask,
        }
    }

    /// The registers this was made from.
    pub fn regs(&self) -> Regs {
        self.regs
    }

    /// Is stage 1 translation on (SCTLR_EL1.M)?
    pub fn enabled(&self) -> bool {
        self.regs.sctlr & 1 != 0
    }

    /// The current ASID (TCR_EL1.A1 chooses the TTBR, TCR_EL1.AS the width).
    pub fn asid(&self) -> u16 {
        self.asid
    }

    /// Is LPA2 (TCR_EL1.DS) in effect? It changes the address field of the
    /// range TLBI instructions.
    pub fn ds(&self) -> bool {
        self.ds
    }

    /// Does TTBR1 translate `va`? Bit 55 decides, whether the top byte is
    /// ignored (TBI) or not (D8.2.2).
    pub fn is_high(va: u64) -> bool {
        va & (1 << 55) != 0
    }

    /// First table of a half: its address, bits of virtual address that it and
    /// those below translate, and the level; `None` if walks are disabled.
    pub(crate) fn first_table(&self, high: bool) -> Option<(u64, u8, i8)> {
        let half = &self.halves[usize::from(high)];
        (!half.disabled).then_some((half.base, half.va_bits, half.start_level))
    }

    /// log2 of the bytes that the table which is read after `depth` others translates, and its
    /// size in bytes.
    pub(crate) fn table(&self, va: u64, depth: u8) -> (u8, u64) {
        let half = &self.halves[usize::from(Self::is_high(va))];
        let granule = half.granule;
        let above = (4 - half.start_level) as u8 - depth;
        let shift = granule.shift() + granule.stride() * above;
        (shift.min(half.va_bits), 1 << granule.shift())
    }

    /// The granule that translates `va`.
    pub fn granule(&self, va: u64) -> Granule {
        self.halves[usize::from(Self::is_high(va))].granule
    }

    /// `va` without its tag: bits 63:56 become copies of bit 55, as TLBs
    /// compare addresses when TBI is on. With TBI off an address for which
    /// this makes a difference faults, so that it can be done always.
    #[inline]
    pub fn untag(va: u64) -> u64 {
        (((va << 8) as i64) >> 8) as u64
    }

    /// Output address field of a table, block or page descriptor (D8.3.1):
    /// bits 47:granule; 64K granule with 52-bit output: bits 15:12 hold bits
    /// 51:48; LPA2: bits 49:48 in place, bits 9:8 hold bits 51:50.
    pub(crate) fn output(&self, granule: Granule, desc: u64) -> u64 {
        let low = u32::from(granule.shift());
        match granule {
            Granule::K64 if self.ips52 => bits_in_place(desc, 47, low) | ((desc >> 12) & 0xf) << 48,
            Granule::K64 => bits_in_place(desc, 47, low),
            _ if self.ds => bits_in_place(desc, 49, low) | ((desc >> 8) & 3) << 50,
            _ => bits_in_place(desc, 47, low),
        }
    }

    /// A descriptor without its output address and what only software reads. The few bits of that which lie elsewhere than
    /// 49:granule are the same in all pages of a group that does not end at 2^48 or 2^50 bytes.
    fn attributes(granule: Granule, desc: u64) -> u64 {
        let address = bits_in_place(u64::MAX, 49, u32::from(granule.shift()));
        desc & !(address | SOFTWARE)
    }

    /// May `level` hold a block (D8.3.1, table "block descriptor formats")?
    pub(crate) fn block_allowed(&self, granule: Granule, level: i8) -> bool {
        match granule {
            Granule::K4 => level == 1 || level == 2 || (level == 0 && self.ds),
            Granule::K16 => level == 2 || (level == 1 && self.ds),
            Granule::K64 => level == 2 || (level == 1 && self.ips52),
        }
    }

    /// Walks the tables for `va`.
    pub fn walk(&self, mem: &impl PhysMem, va: u64) -> Walk {
        let va = Self::untag(va);
        let half = &self.halves[usize::from(Self::is_high(va))];
        let Some(mut table) = half.first_table(va) else {
            // Nor is anything else in this aligned block: the half is one itself.
            return Walk::Fault {
                span_shift: half.va_bits,
                reads: 0,
            };
        };
        let granule = half.granule;
        let input = va & (u64::MAX >> (64 - half.va_bits));
        for (reads, level) in (0..).zip(half.start_level..=3) {
            let unit_shift = granule.shift() + granule.stride() * (3 - level) as u8;
            let index_mask = if level == half.start_level {
                u64::MAX >> (64 - (half.va_bits - unit_shift))
            } else {
                (1 << granule.stride()) - 1
            };
            let pa = table + ((input >> unit_shift) & index_mask) * 8;
            let Some(desc) = mem.read_u64(pa) else {
                return Walk::Unbacked { pa, reads };
            };
            let reads = reads + 1;
            let fault = Walk::Fault {
                span_shift: unit_shift,
                reads,
            };
            let is_table = desc & DESC_TABLE != 0;
            if desc & DESC_VALID == 0 {
                return fault;
            }
            if level < 3 && is_table {
                table = self.output(granule, desc);
                continue;
            }
            // At level 3 bit 1 must be set; above, blocks have their levels.
            if (level == 3) != is_table || (level < 3 && !self.block_allowed(granule, level)) {
                return fault;
            }
            let unit = self.output(granule, desc) & !((1 << unit_shift) - 1);
            let shift = half.leaf_shift(level, unit_shift, va, unit, desc);
            return Walk::Found(Translation {
                shift,
                unit_shift,
                pa: unit | (va & ((1 << unit_shift) - 1)),
                global: desc & DESC_NG == 0,
                attributes: Self::attributes(granule, desc),
                reads,
            });
        }
        unreachable!("level 3 always returns")
    }
}

impl Half {
    fn new(granule: Granule, txsz: u8, disabled: bool, ttbr: u64, ds: bool, ips52: bool) -> Self {
        // 52-bit input needs LVA with the 64K granule, LPA2 with the others;
        // out-of-range TxSZ is IMPLEMENTATION DEFINED, clamped here (D8.2.3).
        let wide = ds || granule == Granule::K64;
        let va_bits = (64 - txsz).clamp(granule.shift() + 4, if wide { 52 } else { 48 });
        let stride = granule.stride();
        let levels = (va_bits - granule.shift()).div_ceil(stride);
        let start_level = 4 - levels as i8;
        // Size of the first table decides the alignment of its address; with
        // 52-bit output addresses at least 64 bytes, and TTBR bits 5:2 hold
        // address bits 51:48 (D17.2 "TTBR0_EL1", BADDR).
        let first_bits = va_bits - granule.shift() - stride * (levels - 1);
        let out52 = ds || (granule == Granule::K64 && ips52);
        let base = if out52 {
            let align = u32::from(first_bits + 3).max(6);
            bits_in_place(ttbr, 47, align) | ((ttbr >> 2) & 0xf) << 48
        } else {
            bits_in_place(ttbr, 47, u32::from(first_bits + 3))
        };
        Half {
            granule,
            va_bits,
            disabled,
            start_level,
            base,
        }
    }

    /// Size of the leaf that `desc` at `level` belongs to: the contiguous
    /// group's if the bit is set and the group can be a legal one, which one
    /// descriptor tells by its output address standing at the same place in
    /// an aligned block as its virtual address does (D8.7.1). Whether the
    /// other descriptors of the group agree is not read here: hardware does
    /// not read them either.
    fn leaf_shift(&self, level: i8, unit_shift: u8, va: u64, pa: u64, desc: u64) -> u8 {
        let group = unit_shift + self.granule.contiguous_shift(level);
        let within = (1u64 << group) - (1u64 << unit_shift);
        let legal = group <= self.va_bits && (va ^ pa) & within == 0;
        if desc & DESC_CONTIGUOUS != 0 && legal {
            group
        } else {
            unit_shift
        }
    }

    /// Address of the first table, `None` where `va` is not translated: the
    /// half is switched off or the address is outside of it.
    fn first_table(&self, va: u64) -> Option<u64> {
        let above = (va as i64) >> self.va_bits;
        (!self.disabled && (above == 0 || above == -1)).then_some(self.base)
    }
}

#[cfg(test)]
#[path = "arm64_tests.rs"]
mod tests;
