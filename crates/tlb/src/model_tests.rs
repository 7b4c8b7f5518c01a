// SPDX-License-Identifier: GPL-2.0-only
//! Traces with known answers through a whole core.

use super::*;
use crate::profile::PROFILES;
use crate::tlb::Invalidate;
use crate::variant::variants;
use crate::walk::testmem::Mem;
use crate::{arm64, x86};

/// An arm64 4K-granule address space, 39 bits, ASID 1. From `BASE`: 4096 pages
/// in 4K leaves; then 1024 pages in 64K groups; then 64 blocks of 2M.
/// Non-global.
const BASE: u64 = 1 << 30;
const WIDE: u64 = BASE + (4096 << 12);
const BLOCKS: u64 = BASE + (64 << 21);
const NG: u64 = 1 << 11;
const CONT: u64 = 1 << 52;

fn arm_regs(asid: u64) -> arm64::Regs {
    arm64::Regs {
        ttbr0: asid << 48 | 0x1000,
        tcr: 25 | 25 << 16 | 2 << 30 | 5 << 32 | 1 << 36,
        sctlr: 1,
        ..Default::default()
    }
}

fn arm_mmu(asid: u64) -> Mmu {
    Mmu::Arm64(arm64::Mmu::new(arm_regs(asid)))
}

fn arm_mem() -> Mem {
    let mut m = Mem::default();
    m.table(0x1000, 4096);
    m.table(0x2000, 4096);
    m.set(0x1000, 1, 0x2000 | 3);
    for page in 0..4096 + 1024u64 {
        let table = 0x10_0000 + (page / 512) * 0x1000;
        m.set(0x2000, page / 512, table | 3);
        let cont = if page < 4096 { 0 } else { CONT };
        m.set(
            table,
            page % 512,
            (0x4000_0000 + (page << 12)) | 3 | NG | cont,
        );
    }
    for block in 0..64u64 {
        m.set(0x2000, 64 + block, (0x8000_0000 + (block << 21)) | 1 | NG);
    }
    m
}

fn arm_core() -> Core<Mem> {
    let profile = Profile::by_name("neoverse-v2").unwrap();
    let mut core = Core::new(profile, arm_mem(), arm_mmu(1));
    core.set_mode(Mode::User);
    core
}

fn user<M: PhysMem>(core: &Core<M>, phase: u8) -> report::Counts {
    let phases = core.phases();
    phases.into_iter().find(|p| p.phase == phase).unwrap().user
}

fn misses(t: &report::Tlb) -> (u64, u64, u64) {
    (t.accesses, t.l1_misses, t.l2_misses)
}

/// 48 pages fit L1, 49 in a cycle never hit it; eight pages of one set fit L2,
/// the ninth evicts.
#[test]
fn capacities_of_neoverse_v2_show() {
    let mut core = arm_core();
    for round in 0..3 {
        core.set_phase(round);
        (0..48).for_each(|p| core.access(Side::Instruction, BASE + (p << 12)));
    }
    assert_eq!(misses(&user(&core, 0).itlb), (48, 48, 48));
    assert_eq!(misses(&user(&core, 2).itlb), (48, 0, 0));
    // One page more: every access of a round misses L1 and hits L2.
    (0..49).for_each(|p| core.access(Side::Instruction, BASE + (p << 12)));
    core.set_phase(3);
    (0..49).for_each(|p| core.access(Side::Instruction, BASE + (p << 12)));
    assert_eq!(misses(&user(&core, 3).itlb), (49, 49, 0));
    // 256 sets of 8: the ninth page 256 pages apart evicts the first.
    core.set_phase(4);
    core.invalidate(&Invalidate::All);
    (0..9).for_each(|p| core.access(Side::Data, BASE + (p << 20)));
    core.set_phase(5);
    core.invalidate(&Invalidate::All);
    for _ in 0..2 {
        (0..8).for_each(|p| core.access(Side::Data, BASE + (p << 20)));
    }
    assert_eq!(misses(&user(&core, 5).dtlb), (16, 8, 8));
    let counts = user(&core, 4);
    assert_eq!(
        (counts.walks, counts.walk_reads),
        (9, 27),
        "39-bit: 3 reads a walk"
    );
}

#[test]
fn the_second_level_is_shared_by_instructions_and_data() {
    let mut core = arm_core();
    core.access(Side::Instruction, BASE);
    core.access(Side::Data, BASE);
    let counts = user(&core, 0);
    assert_eq!(misses(&counts.itlb), (1, 1, 1));
    assert_eq!(misses(&counts.dtlb), (1, 1, 0));
    assert_eq!(counts.walks, 1);
}

#[test]
fn a_wide_leaf_is_one_entry_if_the_profile_says_so() {
    let sweep = |name: &str| {
        let mut profile = *Profile::by_name(name).unwrap();
        let mut core = Core::new(&profile, arm_mem(), arm_mmu(1));
        (0..64).for_each(|p| core.access(Side::Data, WIDE + (p << 12)));
        let folded = core.phases()[0].kernel.dtlb.clone();
        profile.contiguous = false;
        let mut core = Core::new(&profile, arm_mem(), arm_mmu(1));
        (0..64).for_each(|p| core.access(Side::Data, WIDE + (p << 12)));
        (folded, core.phases()[0].kernel.dtlb.clone())
    };
    let (folded, single) = sweep("neoverse-v2");
    assert_eq!(misses(&folded), (64, 4, 4));
    assert_eq!(folded.by_leaf["64K"].accesses, 64);
    assert_eq!(misses(&single), (64, 64, 64));
    assert_eq!(single.by_leaf["4K"].accesses, 64);
}

#[test]
fn asids_keep_entries_apart_and_survive_a_switch() {
    let mut core = arm_core();
    core.access(Side::Data, BASE);
    core.set_mmu(arm_mmu(2));
    core.access(Side::Data, BASE);
    core.set_mmu(arm_mmu(1));
    core.access(Side::Data, BASE);
    assert_eq!(misses(&user(&core, 0).dtlb), (3, 2, 2));
    core.invalidate(&Invalidate::Asid(2));
    core.access(Side::Data, BASE);
    assert_eq!(misses(&user(&core, 0).dtlb), (4, 2, 2));
    core.invalidate(&Invalidate::va(BASE, Some(1)));
    core.access(Side::Data, BASE);
    assert_eq!(misses(&user(&core, 0).dtlb), (5, 3, 3));
}

#[test]
fn accesses_over_a_page_edge_touch_both_pages_but_not_inside_a_leaf() {
    let mut core = arm_core();
    core.access_bytes(Side::Data, BASE + 0xffc, 8);
    assert_eq!(misses(&user(&core, 0).dtlb), (2, 2, 2));
    core.set_phase(1);
    core.access_bytes(Side::Data, WIDE + 0xffc, 8);
    assert_eq!(
        misses(&user(&core, 1).dtlb),
        (1, 1, 1),
        "both in one 64K leaf"
    );
    core.set_phase(2);
    core.access_bytes(Side::Data, BASE + 0xff8, 8);
    assert_eq!(user(&core, 2).dtlb.accesses, 1);
}

#[test]
fn nothing_counts_while_translation_is_off() {
    let mut regs = arm_regs(1);
    regs.sctlr = 0;
    let profile = Profile::by_name("neoverse-v2").unwrap();
    let mut core = Core::new(profile, arm_mem(), Mmu::Arm64(arm64::Mmu::new(regs)));
    core.access_bytes(Side::Data, 0xfff, 8);
    core.access(Side::Instruction, BASE);
    core.add_instructions(3);
    let counts = &core.phases()[0].kernel;
    assert_eq!((counts.instructions, counts.walks), (3, 0));
    assert_eq!(counts.dtlb, report::Tlb::default());
    core.set_mmu(arm_mmu(1));
    core.access(Side::Instruction, BASE);
    assert_eq!(misses(&core.phases()[0].kernel.itlb), (1, 1, 1));
}

#[test]
fn a_walk_that_finds_nothing_is_counted_and_reported_not_cached() {
    let mut core = arm_core();
    for _ in 0..2 {
        core.access(Side::Data, 5 << 30);
    }
    assert_eq!(misses(&user(&core, 0).dtlb), (2, 2, 2));
    assert_eq!(user(&core, 0).dtlb.by_leaf["none"].accesses, 2);
    let (failed, first) = core.failed_walks();
    assert_eq!((failed, first.unwrap().va), (2, 5 << 30));
}

#[test]
fn coverage_counts_bytes_by_leaf() {
    let core = arm_core();
    let half_page = BASE + 0x800;
    let got = core.coverage(half_page, BLOCKS + (3 << 21) + 0x1000 - half_page);
    let unmapped = (64 - 10) << 21;
    let want = [
        ("4K", (4096 << 12) - 0x800),
        ("64K", 1024 << 12),
        ("2M", (3 << 21) + 0x1000),
        ("unmapped", unmapped),
    ];
    assert_eq!(got, want.map(|(k, v)| (k.to_owned(), v)).into());
    let len = BLOCKS + (64 << 21) - BASE;
    assert_eq!(core.table_bytes(BASE, len), 12 << 12, "1, 1 and 10 tables");
    assert_eq!(core.table_bytes(BLOCKS, 1 << 21), 2 << 12);
    // Beyond what the tables can translate nothing is looked at page by page.
    assert_eq!(core.coverage(1 << 50, 1 << 50)["unmapped"], 1 << 50);
    assert_eq!(core.coverage(BASE, 0).len(), 0);
    let end = core.coverage(u64::MAX - 10, 100);
    assert_eq!(end["unmapped"], 10, "stops at the end of the address space");
}

/// A model written the plain way: lists in order of use, no shortcuts.
struct Plain {
    ways: usize,
    sets: Vec<Vec<(u64, u8)>>,
}

impl Plain {
    fn new(entries: usize, ways: usize) -> Self {
        Plain {
            ways,
            sets: vec![Vec::new(); entries / ways],
        }
    }

    fn touch(&mut self, va: u64, shift: u8) -> bool {
        let n = self.sets.len() as u64;
        let set = &mut self.sets[((va >> shift) % n) as usize];
        let key = (va >> shift, shift);
        let hit = set.iter().position(|k| *k == key);
        if let Some(i) = hit {
            set.remove(i);
        } else if set.len() == self.ways {
            set.remove(0);
        }
        set.push(key);
        hit.is_some()
    }
}

/// Numbers below what each call names, the same in every run.
fn generator(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % n
    }
}

/// Random traces over three leaf sizes, with repeats so that the shortcuts
/// act, agree with the plain model in every count; and the table sums.
#[test]
fn agrees_with_a_plain_model_and_sums() {
    let mut core = arm_core();
    let mut l1 = [Plain::new(48, 48), Plain::new(48, 48)];
    let mut l2 = Plain::new(2048, 8);
    let mut want = [[0u64; 3]; 2];
    let mut random = generator(42);
    for _ in 0..200_000 {
        let side = random(2) as usize;
        let (va, shift) = match random(10) {
            0..5 => (BASE + (random(60) << 12), 12),
            5..7 => (BASE + (random(4096) << 12), 12),
            7..9 => (WIDE + (random(1024) << 12), 16),
            _ => (BLOCKS + random(64 << 21), 21),
        };
        for _ in 0..1 + random(3) {
            core.access([Side::Instruction, Side::Data][side], va);
            want[side][0] += 1;
            if !l1[side].touch(va, shift) {
                want[side][1] += 1;
                want[side][2] += u64::from(!l2.touch(va, shift));
            }
        }
    }
    let counts = user(&core, 0);
    for (t, w) in [&counts.itlb, &counts.dtlb].into_iter().zip(want) {
        assert_eq!(misses(t), (w[0], w[1], w[2]));
        assert!(
            w[1] > 1000 && w[2] > 1000 && w[1] > w[2],
            "the trace is worth it"
        );
        let sum = |f: fn(&report::LeafCounts) -> u64| t.by_leaf.values().map(f).sum::<u64>();
        let hits_and_misses = (t.accesses - t.l1_misses) + t.l1_misses;
        assert_eq!(sum(|c| c.accesses), hits_and_misses);
        assert_eq!(sum(|c| c.l1_misses), t.l1_misses);
        assert_eq!(sum(|c| c.l2_misses), t.l2_misses);
    }
    assert_eq!(counts.walks, counts.itlb.l2_misses + counts.dtlb.l2_misses);
}

/// Each variant counts what a core that is built by it alone counts, and the profile what it counts
/// without variants: over pages, groups and blocks, page edges, maintenance, and address spaces.
#[test]
fn variants_beside_a_profile_change_no_count_and_are_exact() {
    for profile in PROFILES.iter().filter(|p| p.name.starts_with("neoverse")) {
        let variants = variants(profile);
        let alone = |variant: &Variant| {
            let mut core = Core::new(profile, arm_mem(), arm_mmu(1));
            core.levels = Levels::new(&variant.design);
            wander(&mut core);
            core.phases()
        };
        let mut core = Core::with_variants(profile, variants.clone(), arm_mem(), arm_mmu(1));
        wander(&mut core);
        let mut plain = Core::new(profile, arm_mem(), arm_mmu(1));
        wander(&mut plain);
        assert_eq!(core.phases(), plain.phases(), "{}", profile.name);
        let phases = core.phases();
        for (variant, model) in variants.iter().zip(core.models()) {
            assert_eq!(variant.name, model.name);
            for ((phase, missed), alone) in phases.iter().zip(&model.phases).zip(alone(variant)) {
                assert_eq!(phase.phase, missed.phase);
                let got = missed.user.in_place_of(&phase.user);
                let key = |c: &report::Counts| {
                    let tlb = |t: &report::Tlb| (t.l1_misses, t.l2_misses);
                    (tlb(&c.itlb), tlb(&c.dtlb), c.walks, c.walk_reads)
                };
                assert_eq!(
                    key(&got),
                    key(&alone.user),
                    "{} {}",
                    profile.name,
                    model.name
                );
            }
        }
    }
}

/// Accesses of all kinds in two phases.
fn wander(core: &mut Core<Mem>) {
    core.set_mode(Mode::User);
    let mut random = generator(7);
    for step in 0..12_000 {
        core.set_phase((step / 6_000) as u8);
        let side = [Side::Instruction, Side::Data][random(2) as usize];
        let va = match random(12) {
            0..5 => BASE + (random(60) << 12),
            5..7 => BASE + (random(4096) << 12),
            7..10 => WIDE + (random(1024) << 12),
            _ => BLOCKS + random(64 << 21) / 8 * 8,
        };
        match random(400) {
            0 => drop(core.invalidate(&Invalidate::va(va, Some(1)))),
            1 => core.set_mmu(arm_mmu(1 + random(2))),
            2..50 => core.access_bytes(side, va | 0xffc, 8),
            _ => core.access(side, va),
        }
    }
}

/// x86: a global page outlives a CR3 load, others do not; 1G pages are 2M
/// fragments in Zen 4's L2 but whole in its L1.
#[test]
fn x86_globals_and_smashed_pages() {
    let mut m = Mem::default();
    for t in [0x1000, 0x2000, 0x3000, 0x4000] {
        m.table(t, 4096);
    }
    m.set(0x1000, 0, 0x2000 | 3);
    m.set(0x2000, 0, 0x3000 | 3);
    m.set(0x2000, 1, 0x4000_0000 | 3 | 1 << 7);
    m.set(0x3000, 0, 0x4000 | 3);
    m.set(0x4000, 1, 0x1000 | 3);
    m.set(0x4000, 2, 0x2000 | 3 | 1 << 8);
    let mmu = Mmu::X86(x86::Mmu::new(x86::Regs {
        cr0: 1 << 31,
        cr3: 0x1000,
        cr4: 1 << 5 | 1 << 7,
        efer: 1 << 10,
    }));
    let mut core = Core::new(Profile::by_name("zen4").unwrap(), m, mmu);
    let touch = |core: &mut Core<Mem>, phase, pages: &[u64]| {
        core.set_phase(phase);
        pages.iter().for_each(|va| core.access(Side::Data, *va));
        misses(&core.phases().last().unwrap().kernel.dtlb)
    };
    assert_eq!(touch(&mut core, 1, &[0x1000, 0x2000]), (2, 2, 2));
    core.invalidate(&Invalidate::NonGlobal);
    assert_eq!(touch(&mut core, 2, &[0x1000, 0x2000]), (2, 1, 1));
    let gig = [0x4000_0000, 0x4000_0000 + (5 << 21)];
    assert_eq!(touch(&mut core, 3, &gig), (2, 1, 1), "one L1 entry");
    // The code side has its own L2.
    core.access(Side::Instruction, gig[0]);
    assert_eq!(misses(&core.phases()[2].kernel.itlb), (1, 1, 1));
}

#[test]
fn every_profile_makes_a_core_and_says_where_it_is_from() {
    for p in PROFILES {
        let mut core = Core::new(p, arm_mem(), arm_mmu(1));
        core.access(Side::Data, BASE);
        assert_eq!(core.phases()[0].kernel.dtlb.l1_misses, 1, "{}", p.name);
        for (level, a) in p.arrays() {
            assert!(a.source.len() > 20, "{} {level}", p.name);
            assert!(a.sizes.is_sorted(), "{} {level}", p.name);
        }
    }
    let error = Profile::by_name("pentium").unwrap_err().to_string();
    for p in PROFILES {
        assert!(error.contains(p.name), "{error}");
    }
}
