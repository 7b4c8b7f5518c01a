// SPDX-License-Identifier: GPL-2.0-only
//! AArch64 instructions that the model must know of, from their encodings
//! (Arm ARM DDI 0487, C4.1 and C5.5 for TLBI).

use crate::arm64::{Granule, Mmu};
use crate::referee::Dsb;
use crate::tlb::Invalidate;

/// What an instruction means to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Wideleaf's marker: `movz xzr, #0x57NN, lsl #48`, a NOP on hardware.
    Marker(u8),
    /// Writes a register that the translation depends on. The new value
    /// counts from the next instruction on.
    TranslationRegister,
    /// May change the exception level without leaving the code's half of the
    /// address space: ERET and SVC.
    ExceptionLevel,
    /// TLB maintenance.
    Tlbi(Tlbi),
    /// DC ZVA and its tag-setting forms: zeroes the block at the address in
    /// this register.
    ZeroBlock(u8),
    /// Start of a copy or fill of FEAT_MOPS (CPYP, CPYFP, SETP), by numbers of
    /// the registers with the addresses and the length.
    Bulk {
        /// Destination.
        dst: u8,
        /// Source, if it is a copy.
        src: Option<u8>,
        /// Bytes.
        len: u8,
    },
    /// DSB. This and what follows only the referee asks for, see
    /// [`decode_for_referee`].
    Dsb(Dsb),
    /// ISB.
    Isb,
    /// Reads FAR_EL1: a fault is being handled.
    FaultAddress,
    /// Writes SP_EL0 from this register; Linux keeps `current` there.
    Task(u8),
}

/// A TLBI instruction for the EL1&0 regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tlbi {
    /// What it removes.
    pub op: TlbiOp,
    /// Inner or Outer Shareable: other cores' TLBs too.
    pub broadcast: bool,
    /// The forms that spare entries for tables (VALE1 and the like).
    pub leaves_only: bool,
    /// Number of the register with the operand; 31 = none.
    pub rt: u8,
}

/// What a TLBI removes, as the model sees it: it holds leaves only, and does
/// not use the TTL hint, which would allow the hardware to look at one level
/// only, never more. The referee uses both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlbiOp {
    /// VMALLE1, ALLE1, VMALLS12E1.
    All,
    /// ASIDE1.
    Asid,
    /// VAE1, VALE1.
    Va,
    /// VAAE1, VAALE1.
    VaAllAsids,
    /// RVAE1, RVALE1.
    Range,
    /// RVAAE1, RVAALE1.
    RangeAllAsids,
}

impl Event {
    /// Does it come from [`decode_for_referee`]?
    pub fn is_for_referee_only(&self) -> bool {
        use Event::*;
        matches!(self, Dsb(_) | Isb | FaultAddress | Task(_))
    }
}

/// Bits 20:5 of MSR, MRS and SYS: op0 (its low bit), op1, CRn, CRm, op2.
const fn system(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
    ((op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5) & 0xf_ffe0
}

const SCTLR_EL1: u32 = system(3, 0, 1, 0, 0);
const TTBR0_EL1: u32 = system(3, 0, 2, 0, 0);
const TTBR1_EL1: u32 = system(3, 0, 2, 0, 1);
const TCR_EL1: u32 = system(3, 0, 2, 0, 2);

/// Decodes one instruction.
pub fn decode(word: u32) -> Option<Event> {
    // MOVZ (64-bit) hw=3, Rd=31.
    if word & 0xffe0_001f == 0xd2e0_001f {
        let imm = (word >> 5) & 0xffff;
        return (imm >> 8 == 0x57).then_some(Event::Marker(imm as u8));
    }
    // ERET, ERETAA, ERETAB; SVC.
    if matches!(word, 0xd69f_03e0 | 0xd69f_0bff | 0xd69f_0fff) || word & 0xffe0_001f == 0xd400_0001
    {
        return Some(Event::ExceptionLevel);
    }
    // MSR (register), op0 = 3.
    if word & 0xfff8_0000 == 0xd518_0000 {
        let register = word & 0xf_ffe0;
        let known = [SCTLR_EL1, TTBR0_EL1, TTBR1_EL1, TCR_EL1];
        return known
            .contains(&register)
            .then_some(Event::TranslationRegister);
    }
    // SYS (op0 = 1).
    if word & 0xfff8_0000 == 0xd508_0000 {
        // DC ZVA, GVA, GZVA: op1 3, CRn 7, CRm 4, op2 1, 3, 4.
        if word & 0xffff_ff00 == 0xd50b_7400 && matches!((word >> 5) & 7, 1 | 3 | 4) {
            return Some(Event::ZeroBlock((word & 31) as u8));
        }
        return tlbi(word).map(Event::Tlbi);
    }
    bulk(word)
}

/// Decodes what [`decode`] has no use for, but the referee has.
pub fn decode_for_referee(word: u32) -> Option<Event> {
    let crm = (word >> 8) & 15;
    match word & 0xffff_f0ff {
        // Options 0 and 4 are SSBB and PSSBB.
        0xd503_309f if crm & 3 != 0 => Some(Event::Dsb(Dsb {
            full: crm & 3 == 3,
            stores: crm & 3 != 1,
            shareable: crm >> 2 != 1,
        })),
        // The nXS forms of FEAT_XS: CRm 2, 6, 10, 14; never of stores only.
        0xd503_303f if crm & 3 == 2 => Some(Event::Dsb(Dsb {
            full: true,
            stores: true,
            shareable: crm >> 2 != 1,
        })),
        0xd503_30df => Some(Event::Isb),
        _ => match word & 0xffff_ffe0 {
            0xd538_6000 => Some(Event::FaultAddress),
            0xd518_4100 => Some(Event::Task((word & 31) as u8)),
            _ => None,
        },
    }
}

/// Memory copy and set (C4.1, "Memory Copy and Memory Set"), prologues only:
/// they see the whole range, the main and epilogue parts what is left.
fn bulk(word: u32) -> Option<Event> {
    if word & 0xfb20_0c00 != 0x1900_0400 {
        return None;
    }
    let register = |low: u32| ((word >> low) & 31) as u8;
    let (dst, len, rs) = (register(0), register(5), register(16));
    let src = match ((word >> 22) & 3, (word >> 14) & 3) {
        (0, _) => Some(rs),
        (3, 0) => None,
        _ => return None,
    };
    Some(Event::Bulk { dst, src, len })
}

fn tlbi(word: u32) -> Option<Tlbi> {
    let field = |low: u32, bits: u32| (word >> low) & ((1 << bits) - 1);
    let (op1, crn, crm, op2) = (field(16, 3), field(12, 4), field(8, 4), field(5, 3));
    // CRn 9 are the nXS forms of FEAT_XS.
    if crn != 8 && crn != 9 {
        return None;
    }
    let op = match (op1, crm, op2) {
        (0, 1 | 3 | 7, 0) => TlbiOp::All,
        (0, 1 | 3 | 7, 1 | 5) => TlbiOp::Va,
        (0, 1 | 3 | 7, 2) => TlbiOp::Asid,
        (0, 1 | 3 | 7, 3 | 7) => TlbiOp::VaAllAsids,
        (0, 2 | 5 | 6, 1 | 5) => TlbiOp::Range,
        (0, 2 | 5 | 6, 3 | 7) => TlbiOp::RangeAllAsids,
        // ALLE1 and VMALLS12E1, issued from EL2.
        (4, 1 | 3 | 7, 4 | 6) => TlbiOp::All,
        _ => return None,
    };
    Some(Tlbi {
        op,
        broadcast: crm != 6 && crm != 7,
        leaves_only: op1 == 0 && op2 >= 5,
        rt: (word & 31) as u8,
    })
}

impl TlbiOp {
    /// What is removed when the operand register holds `xt`, under `mmu`.
    pub fn invalidate(self, xt: u64, mmu: &Mmu) -> Invalidate {
        let wide = mmu.regs().tcr & (1 << 36) != 0;
        let asid = (xt >> 48) as u16 & if wide { 0xffff } else { 0xff };
        // VA[55:12] in bits 43:0.
        let va = Mmu::untag(xt << 12);
        match self {
            TlbiOp::All => Invalidate::All,
            TlbiOp::Asid => Invalidate::Asid(asid),
            TlbiOp::Va => page(va, Some(asid), mmu),
            TlbiOp::VaAllAsids => page(va, None, mmu),
            TlbiOp::Range => range(xt, Some(asid), mmu),
            TlbiOp::RangeAllAsids => range(xt, None, mmu),
        }
    }
}

impl Tlbi {
    /// The level that the operand limits this to, if any: TTL in bits 47:44, of
    /// ranges in bits 38:37.
    pub fn level(&self, xt: u64) -> Option<i8> {
        match self.op {
            TlbiOp::All | TlbiOp::Asid => None,
            TlbiOp::Va | TlbiOp::VaAllAsids => {
                let ttl = (xt >> 44) & 15;
                (ttl >= 4).then_some((ttl & 3) as i8)
            }
            TlbiOp::Range | TlbiOp::RangeAllAsids => match (xt >> 37) & 3 {
                0 => None,
                level => Some(level as i8),
            },
        }
    }
}

/// By address: all of the granule that the address is in, because with 16K
/// and 64K the low bits of the operand's address are RES0.
fn page(va: u64, asid: Option<u16>, mmu: &Mmu) -> Invalidate {
    Invalidate::va(
        va >> mmu.granule(va).shift() << mmu.granule(va).shift(),
        asid,
    )
}

/// FEAT_TLBIRANGE operand: ASID 63:48, TG 47:46, SCALE 45:44, NUM 43:39, TTL
/// 38:37, BaseADDR 36:0. The range is (NUM + 1) * 2^(5 * SCALE + 1) granules.
/// BaseADDR counts granules, with LPA2 64K units.
fn range(xt: u64, asid: Option<u16>, mmu: &Mmu) -> Invalidate {
    let granule = match (xt >> 46) & 3 {
        2 => Granule::K16,
        3 => Granule::K64,
        // 0 is reserved; hardware then does nothing in particular.
        _ => Granule::K4,
    };
    let unit = if mmu.ds() { 16 } else { granule.shift() };
    let base = sign_extend(xt & 0x1f_ffff_ffff, 37) << unit;
    let pages = (((xt >> 39) & 31) + 1) << (5 * ((xt >> 44) & 3) + 1);
    Invalidate::Range {
        start: base,
        last: base.saturating_add((pages << granule.shift()) - 1),
        asid,
        globals: true,
    }
}

fn sign_extend(value: u64, bits: u32) -> u64 {
    ((value << (64 - bits)) as i64 >> (64 - bits)) as u64
}

/// Can this instruction raise an exception when it is executed, so that the
/// rest of a translated block may not run? False only where that is certain:
/// integer data processing. Branches end a block anyway.
pub fn may_fault(word: u32) -> bool {
    // C4.1, op0 = bits 28:25: 100x immediate, x101 register.
    !matches!((word >> 25) & 15, 0b1000 | 0b1001 | 0b0101 | 0b1101)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm64::Regs;

    /// Encodings as `aarch64-linux-gnu-as` makes them.
    #[test]
    fn recognises_what_the_assembler_makes() {
        let any = |op, broadcast, rt, leaves_only| {
            Some(Event::Tlbi(Tlbi {
                op,
                broadcast,
                leaves_only,
                rt,
            }))
        };
        let tlbi = |op, broadcast, rt| any(op, broadcast, rt, false);
        let leaves = |op, broadcast, rt| any(op, broadcast, rt, true);
        let cases = [
            (
                0xd2ea_e03f,
                Some(Event::Marker(1)),
                "movz xzr, #0x5701, lsl #48",
            ),
            (
                0xd2ea_f91f,
                Some(Event::Marker(200)),
                "movz xzr, #0x57c8, lsl #48",
            ),
            (0xd2ea_c03f, None, "movz xzr, #0x5601, lsl #48"),
            (0xd2ea_e020, None, "movz x0, #0x5701, lsl #48"),
            (
                0xd518_2000,
                Some(Event::TranslationRegister),
                "msr ttbr0_el1, x0",
            ),
            (
                0xd518_2021,
                Some(Event::TranslationRegister),
                "msr ttbr1_el1, x1",
            ),
            (
                0xd518_2042,
                Some(Event::TranslationRegister),
                "msr tcr_el1, x2",
            ),
            (
                0xd518_1003,
                Some(Event::TranslationRegister),
                "msr sctlr_el1, x3",
            ),
            (0xd538_2000, None, "mrs x0, ttbr0_el1"),
            (0xd518_a200, None, "msr mair_el1, x0"),
            (0xd69f_03e0, Some(Event::ExceptionLevel), "eret"),
            (0xd400_0001, Some(Event::ExceptionLevel), "svc #0"),
            (0xd508_871f, tlbi(TlbiOp::All, false, 31), "tlbi vmalle1"),
            (0xd508_831f, tlbi(TlbiOp::All, true, 31), "tlbi vmalle1is"),
            (0xd508_811f, tlbi(TlbiOp::All, true, 31), "tlbi vmalle1os"),
            (0xd508_8325, tlbi(TlbiOp::Va, true, 5), "tlbi vae1is, x5"),
            (0xd508_87a5, leaves(TlbiOp::Va, false, 5), "tlbi vale1, x5"),
            (
                0xd508_8341,
                tlbi(TlbiOp::Asid, true, 1),
                "tlbi aside1is, x1",
            ),
            (
                0xd508_8362,
                tlbi(TlbiOp::VaAllAsids, true, 2),
                "tlbi vaae1is, x2",
            ),
            (
                0xd508_83e2,
                leaves(TlbiOp::VaAllAsids, true, 2),
                "tlbi vaale1is, x2",
            ),
            (
                0xd508_8223,
                tlbi(TlbiOp::Range, true, 3),
                "tlbi rvae1is, x3",
            ),
            (
                0xd508_86a3,
                leaves(TlbiOp::Range, false, 3),
                "tlbi rvale1, x3",
            ),
            (
                0xd508_8264,
                tlbi(TlbiOp::RangeAllAsids, true, 4),
                "tlbi rvaae1is, x4",
            ),
            (
                0xd508_85e4,
                leaves(TlbiOp::RangeAllAsids, true, 4),
                "tlbi rvaale1os, x4",
            ),
            (0xd508_9325, tlbi(TlbiOp::Va, true, 5), "tlbi vae1isnxs, x5"),
            (0xd50c_839f, tlbi(TlbiOp::All, true, 31), "tlbi alle1is"),
            (0xd508_7521, None, "ic ivau-like SYS"),
            (0xd503_201f, None, "nop"),
            (0xd50b_7423, Some(Event::ZeroBlock(3)), "dc zva, x3"),
            (0xd50b_7a23, None, "dc cvac, x3"),
            (
                0x19c2_0420,
                Some(Event::Bulk {
                    dst: 0,
                    src: None,
                    len: 1,
                }),
                "setp [x0]!, x1!, x2",
            ),
            (0x19c2_4420, None, "setm [x0]!, x1!, x2"),
            (
                0x1903_0420,
                Some(Event::Bulk {
                    dst: 0,
                    src: Some(3),
                    len: 1,
                }),
                "cpyfp [x0]!, [x3]!, x1!",
            ),
            (0x1983_0420, None, "cpyfe [x0]!, [x3]!, x1!"),
        ];
        for (word, want, text) in cases {
            assert_eq!(decode(word), want, "{text}");
        }
    }

    fn mmu(tcr: u64) -> Mmu {
        Mmu::new(Regs {
            tcr,
            ..Regs::default()
        })
    }

    #[test]
    fn operands_of_single_page_forms() {
        // TG0 and TG1 4K, 16-bit ASIDs.
        let m = mmu(2 << 30 | 1 << 36);
        let xt = 0x1234 << 48 | 0x7_f000_0000 >> 12;
        assert_eq!(
            TlbiOp::Va.invalidate(xt, &m),
            Invalidate::va(0x7_f000_0000, Some(0x1234))
        );
        // TTL in bits 47:44 is no part of the address; kernel addresses are
        // extended from bit 55.
        let high = 0xffff_8000_1234_5000u64;
        let xt = 3 << 44 | (high >> 12) & 0xfff_ffff_ffff;
        assert_eq!(
            TlbiOp::VaAllAsids.invalidate(xt, &m),
            Invalidate::va(high, None)
        );
        assert_eq!(
            TlbiOp::Asid.invalidate(0x1234 << 48, &mmu(0)),
            Invalidate::Asid(0x34),
            "8-bit ASIDs"
        );
    }

    #[test]
    fn operands_of_ranges() {
        let range = |start, len: u64, asid| Invalidate::Range {
            start,
            last: start + (len - 1),
            asid,
            globals: true,
        };
        // 4K: SCALE 1, NUM 3: 4 * 2^6 = 256 pages = 1M at page 0x12345.
        let xt = 7 << 48 | 1 << 46 | 1 << 44 | 3 << 39 | 0x12345;
        let m = mmu(1 << 36);
        assert_eq!(
            TlbiOp::Range.invalidate(xt, &m),
            range(0x1234_5000, 1 << 20, Some(7))
        );
        // 64K: SCALE 0, NUM 0: 2 pages.
        let xt = 3 << 46 | 0x10;
        assert_eq!(
            TlbiOp::RangeAllAsids.invalidate(xt, &m),
            range(0x10_0000, 0x2_0000, None)
        );
        // LPA2: BaseADDR in units of 64K though the granule is 4K.
        let m = mmu(1 << 36 | 1 << 59);
        let xt = 1 << 46 | 0x10;
        assert_eq!(
            TlbiOp::Range.invalidate(xt, &m),
            range(0x10_0000, 0x2000, Some(0))
        );
        // A kernel address: BaseADDR is signed; the largest range may reach
        // the end of the address space and must not wrap.
        let xt = 1 << 46 | 3 << 44 | 31 << 39 | 0x1f_ffff_ffff;
        let got = TlbiOp::RangeAllAsids.invalidate(xt, &mmu(0));
        assert_eq!(
            got,
            Invalidate::Range {
                start: 0xffff_ffff_ffff_f000,
                last: u64::MAX,
                asid: None,
                globals: true
            }
        );
    }

    /// Encodings as `aarch64-linux-gnu-as` makes them.
    #[test]
    fn what_only_the_referee_asks_for() {
        let dsb = |full, stores, shareable| {
            Some(Event::Dsb(Dsb {
                full,
                stores,
                shareable,
            }))
        };
        let cases = [
            (0xd503_3f9f, dsb(true, true, true), "dsb sy"),
            (0xd503_3b9f, dsb(true, true, true), "dsb ish"),
            (0xd503_3a9f, dsb(false, true, true), "dsb ishst"),
            (0xd503_399f, dsb(false, false, true), "dsb ishld"),
            (0xd503_379f, dsb(true, true, false), "dsb nsh"),
            (0xd503_369f, dsb(false, true, false), "dsb nshst"),
            (0xd503_309f, None, "ssbb"),
            (0xd503_3bbf, None, "dmb ish"),
            (0xd503_3fdf, Some(Event::Isb), "isb"),
            (0xd538_6003, Some(Event::FaultAddress), "mrs x3, far_el1"),
            (0xd518_4101, Some(Event::Task(1)), "msr sp_el0, x1"),
            (0xd538_4101, None, "mrs x1, sp_el0"),
        ];
        for (word, want, text) in cases {
            assert_eq!(decode_for_referee(word), want, "{text}");
        }
    }

    #[test]
    fn level_hints() {
        let tlbi = |op| Tlbi {
            op,
            broadcast: true,
            leaves_only: false,
            rt: 0,
        };
        let va = tlbi(TlbiOp::Va);
        assert_eq!(va.level(0x1234), None);
        // 64K granule, level 3; 4K granule, level 2.
        assert_eq!(va.level(0xf << 44), Some(3));
        assert_eq!(va.level(6 << 44), Some(2));
        let range = tlbi(TlbiOp::Range);
        assert_eq!(range.level(0), None);
        assert_eq!(range.level(3 << 37), Some(3));
        assert_eq!(tlbi(TlbiOp::Asid).level(u64::MAX), None);
    }

    #[test]
    fn only_integer_arithmetic_cannot_fault() {
        let cases = [
            (0x9100_0400, false, "add x0, x0, #1"),
            (0x8b01_0000, false, "add x0, x0, x1"),
            (0xd2ea_e03f, false, "movz"),
            (0x9ac0_0820, false, "udiv"),
            (0xf940_0000, true, "ldr x0, [x0]"),
            (0xa9bf_7bfd, true, "stp x29, x30, [sp, #-16]!"),
            (0x1e60_4020, true, "fmov d0, d1"),
            (0xd538_2000, true, "mrs"),
            (0x1400_0000, true, "b"),
        ];
        for (word, want, text) in cases {
            assert_eq!(may_fault(word), want, "{text}");
        }
    }
}
