// SPDX-License-Identifier: GPL-2.0-only
//! Walking x86-64 page tables: 4-level and 5-level paging.
//!
//! References are to the Intel 64 and IA-32 Architectures Software
//! Developer's Manual (SDM), volume 3, chapter 4 "Paging".

use crate::walk::{PhysMem, Translation, Walk};

/// The registers that say how addresses are translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs {
    /// CR0; only PG matters.
    pub cr0: u64,
    /// CR3: root table, and PCID if CR4.PCIDE.
    pub cr3: u64,
    /// CR4: PGE, PCIDE, LA57 and the bits whose change flushes.
    pub cr4: u64,
    /// IA32_EFER; only LMA matters.
    pub efer: u64,
}

const CR0_PG: u64 = 1 << 31;
const CR4_PSE: u64 = 1 << 4;
const CR4_PAE: u64 = 1 << 5;
const CR4_PGE: u64 = 1 << 7;
const CR4_LA57: u64 = 1 << 12;
const CR4_PCIDE: u64 = 1 << 17;
const CR4_SMEP: u64 = 1 << 20;
const EFER_LMA: u64 = 1 << 10;

const PTE_PRESENT: u64 = 1;
const PTE_PS: u64 = 1 << 7;
const PTE_GLOBAL: u64 = 1 << 8;
/// Bits 51:12 of an entry or of CR3: a physical address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Bits 58:52 and 11:9 of an entry are ignored by hardware (Intel SDM volume 3, 4.5.4).
const SOFTWARE: u64 = 0x7f << 52 | 7 << 9;

/// The registers with their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmu {
    regs: Regs,
}

impl Mmu {
    /// Takes the registers.
    pub fn new(regs: Regs) -> Self {
        Mmu { regs }
    }

    /// The registers this was made from.
    pub fn regs(&self) -> Regs {
        self.regs
    }

    /// Is 4- or 5-level paging on? 32-bit and PAE paging, which a kernel uses
    /// for a few hundred instructions of its start at most, are not modelled
    /// and count as off.
    pub fn enabled(&self) -> bool {
        self.regs.cr0 & CR0_PG != 0 && self.regs.efer & EFER_LMA != 0
    }

    /// The current PCID; 0 while CR4.PCIDE is clear (SDM 4.10.1).
    pub fn pcid(&self) -> u16 {
        if self.pcid_enabled() {
            (self.regs.cr3 & 0xfff) as u16
        } else {
            0
        }
    }

    /// CR4.PCIDE.
    pub fn pcid_enabled(&self) -> bool {
        self.regs.cr4 & CR4_PCIDE != 0
    }

    /// Physical address of the first table.
    pub fn root(&self) -> u64 {
        self.regs.cr3 & ADDRESS
    }

    /// Levels of tables, 4 or 5.
    pub fn levels(&self) -> u8 {
        if self.regs.cr4 & CR4_LA57 != 0 { 5 } else { 4 }
    }

    /// Is the translation of this leaf global?
    pub(crate) fn is_global(&self, entry: u64) -> bool {
        entry & PTE_GLOBAL != 0 && self.regs.cr4 & CR4_PGE != 0
    }

    /// Does the change from `self` to `new` drop every TLB entry, global ones
    /// included? SDM 4.10.4.1: MOV to CR0 that clears PG; MOV to CR4 that
    /// changes PGE, clears PCIDE or sets SMEP; a change of PSE, PAE or LA57
    /// changes the paging mode.
    pub fn change_flushes_all(&self, new: &Regs) -> bool {
        let old = &self.regs;
        let changed = old.cr4 ^ new.cr4;
        let modes = CR4_PGE | CR4_PSE | CR4_PAE | CR4_LA57;
        changed & modes != 0
            || old.cr4 & !new.cr4 & CR4_PCIDE != 0
            || new.cr4 & !old.cr4 & CR4_SMEP != 0
            || (old.cr0 ^ new.cr0) & CR0_PG != 0
    }

    /// Walks the tables for `va` (SDM 4.5.4).
    pub fn walk(&self, mem: &impl PhysMem, va: u64) -> Walk {
        let levels = self.levels();
        let mut table = self.root();
        for depth in 0..levels {
            let shift = 12 + 9 * (levels - 1 - depth);
            let reads = depth;
            let pa = table + ((va >> shift) & 0x1ff) * 8;
            let Some(entry) = mem.read_u64(pa) else {
                return Walk::Unbacked { pa, reads };
            };
            let reads = reads + 1;
            let large = entry & PTE_PS != 0 && (shift == 21 || shift == 30);
            if entry & PTE_PRESENT == 0 {
                return Walk::Fault {
                    span_shift: shift,
                    reads,
                };
            }
            if shift == 12 || large {
                let offset = (1u64 << shift) - 1;
                let global = entry & PTE_GLOBAL != 0 && self.regs.cr4 & CR4_PGE != 0;
                return Walk::Found(Translation {
                    shift,
                    unit_shift: shift,
                    pa: (entry & ADDRESS & !offset) | (va & offset),
                    global,
                    attributes: entry & !(ADDRESS | SOFTWARE),
                    reads,
                });
            }
            table = entry & ADDRESS;
        }
        unreachable!("the last level always returns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::testmem::Mem;

    const P: u64 = PTE_PRESENT;
    const RW: u64 = 2;

    fn mmu(cr4: u64) -> Mmu {
        Mmu::new(Regs {
            cr0: CR0_PG,
            cr3: 0x1000,
            cr4,
            efer: EFER_LMA,
        })
    }

    /// PML4 at 0x1000, PDPT 0x2000, PD 0x3000, PT 0x4000; entry 3 of each
    /// upper table leads down.
    fn tables() -> Mem {
        let mut m = Mem::default();
        for t in [0x1000, 0x2000, 0x3000, 0x4000, 0x5000] {
            m.table(t, 4096);
        }
        m.set(0x1000, 3, 0x2000 | P | RW);
        m.set(0x2000, 3, 0x3000 | P | RW);
        m.set(0x3000, 3, 0x4000 | P | RW);
        m
    }

    const BASE: u64 = 3 << 39 | 3 << 30 | 3 << 21;

    #[test]
    fn page_of_4k_takes_four_reads() {
        let mut m = tables();
        m.set(0x4000, 5, 0xabcd_e000 | P | 1 << 63);
        assert_eq!(
            mmu(CR4_PGE).walk(&m, BASE + 0x5123),
            Walk::Found(Translation {
                shift: 12,
                unit_shift: 12,
                pa: 0xabcd_e123,
                global: false,
                attributes: P | 1 << 63,
                reads: 4
            })
        );
    }

    #[test]
    fn pmd_leaf_takes_three_reads_and_g_needs_pge() {
        let mut m = tables();
        // Bit 12 of a 2M entry is PAT, not address.
        m.set(0x3000, 4, 0x4020_0000 | P | PTE_PS | PTE_GLOBAL | 1 << 12);
        let va = 3 << 39 | 3 << 30 | 4 << 21 | 0x12345;
        let found = |global| {
            Walk::Found(Translation {
                shift: 21,
                unit_shift: 21,
                pa: 0x4021_2345,
                global,
                attributes: P | PTE_PS | PTE_GLOBAL,
                reads: 3,
            })
        };
        assert_eq!(mmu(CR4_PGE).walk(&m, va), found(true));
        assert_eq!(mmu(0).walk(&m, va), found(false));
    }

    #[test]
    fn pud_leaf_takes_two_reads() {
        let mut m = tables();
        m.set(0x2000, 7, 0x8000_0000 | P | PTE_PS);
        let Walk::Found(t) = mmu(0).walk(&m, 3 << 39 | 7 << 30 | 0x2000_0001) else {
            panic!("not found");
        };
        assert_eq!((t.shift, t.pa, t.reads), (30, 0xa000_0001, 2));
    }

    #[test]
    fn la57_adds_a_level_above() {
        let mut m = tables();
        m.set(0x5000, 2, 0x1000 | P);
        m.set(0x4000, 5, 0xabcd_e000 | P);
        let mut regs = mmu(CR4_LA57).regs();
        regs.cr3 = 0x5000;
        let Walk::Found(t) = Mmu::new(regs).walk(&m, 2 << 48 | BASE | 5 << 12) else {
            panic!("not found");
        };
        assert_eq!((t.shift, t.pa, t.reads), (12, 0xabcd_e000, 5));
        // Without LA57 the same root is read as a PML4 and leads nowhere.
        regs.cr4 = 0;
        let none = Mmu::new(regs).walk(&m, BASE | 5 << 12);
        assert_eq!(
            none,
            Walk::Fault {
                span_shift: 39,
                reads: 1
            }
        );
    }

    #[test]
    fn faults_say_how_much_is_unmapped_and_holes_in_ram_where() {
        let mut m = tables();
        let fault = |span_shift, reads| Walk::Fault { span_shift, reads };
        assert_eq!(mmu(0).walk(&m, 0), fault(39, 1));
        assert_eq!(mmu(0).walk(&m, 3 << 39), fault(30, 2));
        assert_eq!(mmu(0).walk(&m, BASE), fault(12, 4));
        m.set(0x3000, 9, 0xfee0_0000 | P);
        assert_eq!(
            mmu(0).walk(&m, 3 << 39 | 3 << 30 | 9 << 21),
            Walk::Unbacked {
                pa: 0xfee0_0000,
                reads: 3
            }
        );
    }

    #[test]
    fn only_long_mode_paging_counts_and_pcid_needs_its_enable() {
        let mut r = mmu(0).regs();
        r.cr3 = 0x1005;
        assert!(Mmu::new(r).enabled());
        assert_eq!(Mmu::new(r).pcid(), 0);
        r.cr4 = CR4_PCIDE;
        assert_eq!(Mmu::new(r).pcid(), 5);
        r.efer = 0;
        assert!(!Mmu::new(r).enabled());
        r.efer = EFER_LMA;
        r.cr0 = 0;
        assert!(!Mmu::new(r).enabled());
    }

    #[test]
    fn flush_rules_of_control_registers() {
        let old = mmu(CR4_PGE | CR4_PCIDE);
        let with = |cr4| Regs { cr4, ..old.regs() };
        assert!(old.change_flushes_all(&with(CR4_PCIDE)), "PGE cleared");
        assert!(old.change_flushes_all(&with(CR4_PGE)), "PCIDE cleared");
        assert!(old.change_flushes_all(&with(CR4_PGE | CR4_PCIDE | CR4_SMEP)));
        assert!(!old.change_flushes_all(&with(CR4_PGE | CR4_PCIDE | 1 << 9)));
        assert!(!mmu(CR4_PGE).change_flushes_all(&with(CR4_PGE | CR4_PCIDE)));
    }
}
