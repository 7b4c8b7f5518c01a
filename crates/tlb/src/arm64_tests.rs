// SPDX-License-Identifier: GPL-2.0-only
//! Hand-made page tables for every granule, with known answers.

use super::*;
use crate::walk::testmem::Mem;

const TABLE: u64 = 3;
const PAGE: u64 = 3;
const BLOCK: u64 = 1;
const AF: u64 = 1 << 10;

/// TCR fields: T0SZ = T1SZ, TG0/TG1 for the granule, IPS = 48 bits.
fn tcr(granule: Granule, va_bits: u64) -> u64 {
    let (tg0, tg1) = match granule {
        Granule::K4 => (0, 2),
        Granule::K16 => (2, 1),
        Granule::K64 => (1, 3),
    };
    let tsz = 64 - va_bits;
    tsz | tsz << 16 | tg0 << 14 | tg1 << 30 | 5 << 32 | TCR_AS
}

fn mmu(granule: Granule, va_bits: u64, extra: u64, ttbr: u64) -> Mmu {
    Mmu::new(Regs {
        ttbr0: ttbr,
        ttbr1: ttbr,
        tcr: tcr(granule, va_bits) | extra,
        sctlr: 1,
        mair: 0,
        permissions: None,
    })
}

fn found(m: &Mmu, mem: &Mem, va: u64) -> Translation {
    match m.walk(mem, va) {
        Walk::Found(t) => t,
        other => panic!("{va:#x}: {other:?}"),
    }
}

/// Tables of `granule` at 0x100_0000 (first level), 0x200_0000, ..., each
/// led to by entry 1 of the one above.
fn tables(granule: Granule, levels: u64) -> Mem {
    let mut mem = Mem::default();
    for i in 1..=levels {
        mem.table(i << 24, 1 << granule.shift());
        if i < levels {
            mem.set(i << 24, 1, (i + 1) << 24 | TABLE);
        }
    }
    mem
}

/// (granule, entry size at level 1, 2 and 3)
const GRANULES: [(Granule, [u8; 3]); 3] = [
    (Granule::K4, [30, 21, 12]),
    (Granule::K16, [36, 25, 14]),
    (Granule::K64, [42, 29, 16]),
];

#[test]
fn pages_blocks_and_groups_of_each_granule() {
    // (granule, level, leaf with the contiguous bit) as in the Arm ARM.
    let cases = [
        (Granule::K4, 3, 16),
        (Granule::K4, 2, 25),
        (Granule::K4, 1, 34),
        (Granule::K16, 3, 21),
        (Granule::K16, 2, 30),
        (Granule::K64, 3, 21),
        (Granule::K64, 2, 34),
    ];
    for (granule, level, group) in cases {
        let sizes = GRANULES.iter().find(|g| g.0 == granule).unwrap().1;
        let unit = sizes[level - 1];
        // 48 bits: 4K and 16K start at level 0, 64K at level 1.
        let start = if granule == Granule::K64 { 1 } else { 0 };
        let depth = level as u64 - start + 1;
        let mut mem = tables(granule, depth);
        let mmu = mmu(granule, 48, 0, 1 << 24);
        // The path through the upper tables takes entry 1 everywhere.
        let upper: u64 = (start as usize..level)
            .map(|l| 1u64 << (granule.shift() + granule.stride() * (3 - l as u8)))
            .sum();
        let kind = if level == 3 { PAGE } else { BLOCK };
        let last = depth << 24;
        let pa = 1u64 << group;
        for (i, flags) in [(2u64, 0), (3, DESC_CONTIGUOUS)] {
            mem.set(last, i, (pa + (i << unit)) | kind | flags | AF);
            let t = found(&mmu, &mem, upper + (i << unit) + 0x234);
            let want = if flags == 0 { unit } else { group };
            let what = format!("{granule:?} level {level} flags {flags:#x}");
            assert_eq!((t.shift, t.unit_shift), (want, unit), "{what}");
            assert_eq!(t.pa, pa + (i << unit) + 0x234, "{what}");
            assert_eq!(u64::from(t.reads), depth, "{what}");
            assert!(t.global, "{what}");
        }
    }
}

#[test]
fn a_contiguous_bit_at_the_wrong_place_does_not_count() {
    let mut mem = tables(Granule::K4, 4);
    let m = mmu(Granule::K4, 48, 0, 1 << 24);
    let base = 1 << 39 | 1 << 30 | 1 << 21;
    // Page 5 of its group maps output page 6 of an aligned 64K block.
    mem.set(4 << 24, 5, 0x9_6000 | PAGE | DESC_CONTIGUOUS);
    assert_eq!(found(&m, &mem, base + 0x5000).shift, 12);
    mem.set(4 << 24, 5, 0x9_5000 | PAGE | DESC_CONTIGUOUS);
    assert_eq!(found(&m, &mem, base + 0x5000).shift, 16);
}

#[test]
fn ng_decides_globality() {
    let mut mem = tables(Granule::K4, 4);
    let m = mmu(Granule::K4, 48, 0, 1 << 24);
    mem.set(4 << 24, 1, 0x8000 | PAGE | DESC_NG);
    mem.set(4 << 24, 2, 0x8000 | PAGE);
    let base = 1 << 39 | 1 << 30 | 1 << 21;
    assert!(!found(&m, &mem, base + 0x1000).global);
    assert!(found(&m, &mem, base + 0x2000).global);
}

#[test]
fn lva_64k_reaches_52_bits_and_high_output_addresses() {
    let mut mem = tables(Granule::K64, 3);
    // 52-bit VA: the first table has 1024 entries; IPS 52 bits.
    let regs = Regs {
        ttbr0: 1 << 24,
        tcr: (tcr(Granule::K64, 52) & !(7 << 32)) | 6 << 32,
        sctlr: 1,
        ..Regs::default()
    };
    let m = Mmu::new(regs);
    mem.set(1 << 24, 1023, 2 << 24 | TABLE);
    // Output bits 51:48 sit in descriptor bits 15:12.
    mem.set(3 << 24, 7, 0x1234_0000 | 0xa << 12 | PAGE);
    let va = 1023 << 42 | 1 << 29 | 7 << 16 | 0x42;
    let t = found(&m, &mem, va);
    assert_eq!((t.shift, t.pa, t.reads), (16, 0xa_0000_1234_0042, 3));
    // A 4T block at level 1 exists only with 52-bit output.
    mem.set(1 << 24, 3, BLOCK);
    assert_eq!(found(&m, &mem, 3 << 42).shift, 42);
    let small = Mmu::new(Regs {
        tcr: tcr(Granule::K64, 52),
        ..regs
    });
    assert!(matches!(
        small.walk(&mem, 3 << 42),
        Walk::Fault {
            span_shift: 42,
            reads: 1
        }
    ));
    // TTBR bits 5:2 are address bits 51:48.
    let high = Mmu::new(Regs {
        ttbr0: 1 << 24 | 0x5 << 2,
        ..regs
    });
    assert!(matches!(
        high.walk(&mem, 0),
        Walk::Unbacked {
            pa: 0x5_0000_0100_0000,
            reads: 0
        }
    ));
}

#[test]
fn lpa2_4k_has_a_level_minus_one() {
    let mut mem = tables(Granule::K4, 5);
    let m = mmu(Granule::K4, 52, TCR_DS, 1 << 24);
    // Output bits 51:50 sit in bits 9:8, bits 49:48 in place.
    mem.set(5 << 24, 9, 0x3_0000_0000_9000 | 2 << 8 | PAGE);
    let va = 1 << 48 | 1 << 39 | 1 << 30 | 1 << 21 | 9 << 12;
    let t = found(&m, &mem, va);
    assert_eq!((t.shift, t.reads), (12, 5));
    assert_eq!(t.pa, 0xb_0000_0000_9000);
    // A 512G block at level 0 needs DS.
    mem.set(2 << 24, 4, BLOCK);
    assert_eq!(found(&m, &mem, 1 << 48 | 4 << 39).shift, 39);
    let plain = mmu(Granule::K4, 48, 0, 2 << 24);
    assert!(matches!(plain.walk(&mem, 4 << 39), Walk::Fault { .. }));
}

#[test]
fn lpa2_16k_first_table_is_small() {
    let mut mem = tables(Granule::K16, 4);
    let m = mmu(Granule::K16, 52, TCR_DS, 1 << 24);
    // 52 bits: level 0 has 2^5 entries.
    mem.set(1 << 24, 31, 2 << 24 | TABLE);
    mem.set(4 << 24, 1, 0x4000 | PAGE);
    let va = 31 << 47 | 1 << 36 | 1 << 25 | 1 << 14;
    let t = found(&m, &mem, va);
    assert_eq!((t.shift, t.pa, t.reads), (14, 0x4000, 4));
    mem.set(2 << 24, 2, BLOCK);
    assert_eq!(found(&m, &mem, 31 << 47 | 2 << 36).shift, 36);
}

#[test]
fn short_addresses_start_lower() {
    // 39 bits with 4K start at level 1 (three reads), 36 bits with 16K at
    // level 2, 42 bits with 64K at level 2.
    for (granule, bits, levels) in [
        (Granule::K4, 39, 3),
        (Granule::K16, 36, 2),
        (Granule::K64, 42, 2),
    ] {
        let mut mem = tables(granule, levels);
        let m = mmu(granule, bits, 0, 1 << 24);
        mem.set(levels << 24, 0, PAGE);
        let va: u64 = (1..levels)
            .map(|l| 1 << (granule.shift() + granule.stride() * (levels - l) as u8))
            .sum();
        assert_eq!(u64::from(found(&m, &mem, va).reads), levels);
    }
}

#[test]
fn the_high_half_uses_ttbr1_its_size_and_its_granule() {
    let mut mem = tables(Granule::K64, 3);
    mem.set(3 << 24, 4, 0x40_0000 | PAGE);
    let m = Mmu::new(Regs {
        ttbr0: 0xdead_0000,
        ttbr1: 1 << 24,
        // T1SZ for 48 bits and TG1 64K; T0SZ for 39 bits and TG0 4K.
        tcr: 25 | 16 << 16 | 3 << 30 | 5 << 32,
        sctlr: 1,
        mair: 0,
        permissions: None,
    });
    let high = 0xffff_0000_0000_0000 | 1 << 42 | 1 << 29 | 4 << 16;
    assert_eq!(found(&m, &mem, high).pa, 0x40_0000);
    assert_eq!(m.granule(high), Granule::K64);
    assert_eq!(m.granule(0), Granule::K4);
    // A tagged pointer is the same address.
    assert_eq!(
        found(&m, &mem, high & !(0xff << 56) | 0x3c << 56).pa,
        0x40_0000
    );
    // The low half goes elsewhere, and nothing is there.
    assert!(matches!(m.walk(&mem, 0), Walk::Unbacked { .. }));
    // Between the halves nothing is translated and nothing is read.
    let gap = m.walk(&mem, 0xff7f_0000_0000_0000);
    assert!(matches!(gap, Walk::Fault { reads: 0, .. }), "{gap:?}");
    assert!(matches!(
        m.walk(&mem, 1 << 39),
        Walk::Fault { reads: 0, .. }
    ));
}

#[test]
fn epd_disables_a_half() {
    let mut mem = tables(Granule::K4, 4);
    mem.set(4 << 24, 0, PAGE);
    let va = 1 << 39 | 1 << 30 | 1 << 21;
    let high = va | 0xffff << 48;
    let epd0 = mmu(Granule::K4, 48, TCR_EPD0, 1 << 24);
    assert!(matches!(epd0.walk(&mem, va), Walk::Fault { reads: 0, .. }));
    assert_eq!(found(&epd0, &mem, high).reads, 4);
    let epd1 = mmu(Granule::K4, 48, TCR_EPD1, 1 << 24);
    assert!(matches!(
        epd1.walk(&mem, high),
        Walk::Fault { reads: 0, .. }
    ));
    assert_eq!(found(&epd1, &mem, va).reads, 4);
}

#[test]
fn faults_say_how_much_is_unmapped() {
    let mem = tables(Granule::K16, 4);
    let m = mmu(Granule::K16, 48, 0, 1 << 24);
    let fault = |span_shift, reads| Walk::Fault { span_shift, reads };
    assert_eq!(m.walk(&mem, 0), fault(47, 1));
    assert_eq!(m.walk(&mem, 1 << 47), fault(36, 2));
    assert_eq!(m.walk(&mem, 1 << 47 | 1 << 36), fault(25, 3));
    assert_eq!(m.walk(&mem, 1 << 47 | 1 << 36 | 1 << 25), fault(14, 4));
    // Level 3 with bit 1 clear is reserved, hence invalid.
    let mut mem = mem;
    mem.set(4 << 24, 3, BLOCK);
    assert_eq!(
        m.walk(&mem, 1 << 47 | 1 << 36 | 1 << 25 | 3 << 14),
        fault(14, 4)
    );
}

#[test]
fn asid_comes_from_the_ttbr_that_a1_names_and_as_wide_as_as_says() {
    let regs = Regs {
        ttbr0: 0x1234 << 48,
        ttbr1: 0xabcd << 48,
        tcr: tcr(Granule::K4, 48),
        sctlr: 0,
        mair: 0,
        permissions: None,
    };
    assert_eq!(Mmu::new(regs).asid(), 0x1234);
    let with = |tcr| Mmu::new(Regs { tcr, ..regs });
    assert_eq!(with(regs.tcr | TCR_A1).asid(), 0xabcd);
    assert_eq!(with(regs.tcr & !TCR_AS).asid(), 0x34);
    assert!(!Mmu::new(regs).enabled());
    assert!(Mmu::new(Regs { sctlr: 1, ..regs }).enabled());
}
