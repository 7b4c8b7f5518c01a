// SPDX-License-Identifier: GPL-2.0-only
//! A small machine to referee, driven by lines of text, and what must and must
//! not be found in it.
//!
//! 4K pages; `x`, `y`, `z` are pages of one contiguous group in the lower half,
//! and `w` is the last of it; `u` and `v` are pages of another table; `k`, `l` and `m` are the
//! first, second and last page of a group of the kernel's; `a`, `b`, `c` are pages of memory, `p`
//! is what `block` maps at `u` if it names no page. A line is a CPU, then one of
//!
//! ```text
//! set VA PAGE[+ro][+xn][+cont][+old][+nc][+global]   inv VA   read VA   write VA   fetch VA   fault VA
//! group VA PAGE[+...]   nogroup VA         all entries of the group that begins at VA
//! dsb   dsbst   dsbld   dsbnsh   isb   user TASK   task N   asid N
//! tlbi VA   tlbiis VA   valeis VA   ttl LEVEL VA   range FIRST LAST   asidis N   all   allis
//! unlink VA   link VA   block VA [PAGE[+...]]   root N
//! fill PAGE N                              makes the page memory that holds N
//! ```
//!
//! and what litmus tests have besides: `load VA`, which reads its entry, `fail`, which is
//! `fault`, and
//!
//! ```text
//! flag   seen   dmb   svc   eret
//! ```

use super::finding::{Findings, Kind};
use super::steps::Steps;
use super::*;
use crate::arm64;
use crate::walk::testmem::Mem;

const L1: u64 = 0x1000;
const L2: u64 = 0x2000;
const L3: u64 = 0x3000;
const U3: u64 = 0x4000;
const K1: u64 = 0x5000;
const K2: u64 = 0x6000;
const K3: u64 = 0x7000;
const OTHER: u64 = 0x8000;

const KERNEL: u64 = 0xffff_ff80_0000_0000;

/// An entry: AF, nG, valid page, EL0, Inner Shareable.
const PAGE: u64 = 1 << 10 | 1 << 11 | 3 | 1 << 6 | 3 << 8;

pub(super) fn va(name: &str) -> u64 {
    match name {
        "x" => 16 << 12,
        "y" => 17 << 12,
        "z" => 18 << 12,
        "w" => 31 << 12,
        "u" => 1 << 21 | 16 << 12,
        "v" => 1 << 21 | 17 << 12,
        "k" => KERNEL + (16 << 12),
        "l" => KERNEL + (17 << 12),
        "m" => KERNEL + (31 << 12),
        _ => panic!("no address {name}"),
    }
}

fn pte(va: u64) -> u64 {
    let table = match va {
        KERNEL.. => K3,
        v if v >> 21 == 1 => U3,
        _ => L3,
    };
    table + ((va >> 12) & 511) * 8
}

/// Pages of memory that are congruent with `x`, `y`, `z` mod 64K.
fn page(name: &str) -> u64 {
    match name {
        "a" => 0x10_0000,
        "b" => 0x11_0000,
        "c" => 0x12_0000,
        "p" => 0x21_0000,
        "a1" => 0x10_1000,
        "a2" => 0x10_2000,
        "a15" => 0x10_f000,
        _ => panic!("no page {name}"),
    }
}

fn entry(text: &str, high: bool) -> u64 {
    let mut words = text.split('+');
    let mut value = PAGE | page(words.next().unwrap());
    if high {
        value &= !(1 << 11 | 1 << 6);
    }
    for word in words {
        match word {
            "ro" => value |= 1 << 7,
            "cont" => value |= 1 << 52,
            "old" => value &= !(1 << 10),
            "nc" => value |= 1 << 2,
            "tagged" => value |= 2 << 2,
            "global" => value &= !(1 << 11),
            "dbm" => value |= 1 << 51,
            "xn" => value |= 3 << 53,
            _ => panic!("no attribute {word}"),
        }
    }
    value
}

pub(super) struct World {
    pub referee: Referee,
    mem: Mem,
    tcr: u64,
    asids: Vec<u64>,
    roots: Vec<u64>,
    steps: Steps,
    /// Where the last access was made.
    pub accessed: u64,
}

impl World {
    pub fn new(referee: Referee) -> Self {
        Self::with_tcr(referee, 0)
    }

    pub fn with_tcr(referee: Referee, more: u64) -> Self {
        let mut mem = Mem::default();
        for table in [L1, L2, L3, U3, K1, K2, K3, OTHER] {
            mem.table(table, 4096);
        }
        for (table, child) in [(L1, L2), (L2, L3), (K1, K2), (K2, K3)] {
            mem.set(table, 0, child | 3);
        }
        mem.set(L2, 1, U3 | 3);
        let mut world = World {
            referee,
            mem,
            tcr: 25 | 25 << 16 | 2 << 30 | 1 << 36 | more,
            asids: vec![1; 4],
            roots: vec![L1; 4],
            steps: Steps {
                tasks: (0..4).map(|i| 100 + i).collect(),
                ..Steps::default()
            },
            accessed: 0,
        };
        for cpu in 0..world.referee.cpus.len() {
            world.registers(cpu);
        }
        world
    }

    fn registers(&mut self, cpu: usize) {
        let mmu = Mmu::Arm64(arm64::Mmu::new(arm64::Regs {
            ttbr0: self.roots[cpu] | self.asids[cpu] << 48,
            ttbr1: K1,
            tcr: self.tcr,
            sctlr: 1,
            // Normal, non-cacheable, Normal Tagged.
            mair: 0xf0_44ff,
            permissions: None,
        }));
        let at = self.steps.at(cpu);
        self.referee.set_registers(at, mmu, &self.mem);
    }

    fn store(&mut self, cpu: usize, pa: u64, value: u64) {
        self.mem.set(pa, 0, value);
        let at = self.steps.at(cpu);
        if self.referee.is_table(pa) {
            self.referee.stored(at, pa, 8, &self.mem);
        }
    }

    fn dsb(&mut self, cpu: usize, dsb: Dsb) {
        let at = self.steps.at(cpu);
        self.referee.dsb(at, dsb);
    }

    fn tlbi(&mut self, cpu: usize, what: Invalidate, broadcast: bool) {
        self.flush(cpu, what, broadcast, false, None);
    }

    fn flush(
        &mut self,
        cpu: usize,
        what: Invalidate,
        broadcast: bool,
        leaves_only: bool,
        level: Option<i8>,
    ) {
        let flush = Flush {
            what,
            leaves_only,
            level,
            broadcast,
        };
        self.referee.flush(cpu, &flush);
    }

    /// Runs a program; see the head of this file.
    pub fn run(&mut self, program: &str) -> &mut Self {
        for line in program.split([';', '\n']).map(str::trim) {
            if !line.is_empty() {
                self.step(line);
            }
        }
        self
    }

    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let cpu: usize = words[0].parse().unwrap();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        let asid = self.asids[cpu] as u16;
        let dsb = |full, stores, shareable| Dsb {
            full,
            stores,
            shareable,
        };
        match words[1] {
            "set" => {
                let at = va(words[2]);
                self.store(cpu, pte(at), entry(words[3], at >= KERNEL));
            }
            "group" => {
                let (at, page) = (va(words[2]), entry(words[3], va(words[2]) >= KERNEL));
                for offset in (0..1 << 16).step_by(1 << 12) {
                    self.store(cpu, pte(at + offset), page + offset);
                }
            }
            "nogroup" => {
                let at = va(words[2]);
                for offset in (0..1 << 16).step_by(1 << 12) {
                    self.store(cpu, pte(at + offset), 0);
                }
            }
            "inv" => self.store(cpu, pte(va(words[2])), 0),
            "unlink" => self.store(cpu, L2 + (va(words[2]) >> 21) * 8, 0),
            "link" => self.store(cpu, L2 + (va(words[2]) >> 21) * 8, U3 | 3),
            "block" => {
                // The block of 2M that the page lies in, not a page.
                let page = entry(words.get(3).copied().unwrap_or("p"), false);
                let block = page & !2 & !0x1f_f000;
                self.store(cpu, L2 + (va(words[2]) >> 21) * 8, block);
            }
            "read" => self.access(cpu, va(words[2]), Access::Read),
            "write" => self.access(cpu, va(words[2]), Access::Write),
            "fetch" => self.access(cpu, va(words[2]), Access::Fetch),
            "fault" | "fail" => {
                let at = self.steps.at(cpu);
                let va = va(words[2]);
                self.referee
                    .faulted(at, va, Access::Write, va < KERNEL, &self.mem);
            }
            "fill" => {
                self.mem.table(page(words[2]), 4096);
                self.mem.set(page(words[2]), 511, number(3));
            }
            "dsb" => self.dsb(cpu, dsb(true, true, true)),
            "dsbst" => self.dsb(cpu, dsb(false, true, true)),
            "dsbld" => self.dsb(cpu, dsb(false, false, true)),
            "dsbnsh" => self.dsb(cpu, dsb(true, true, false)),
            "isb" | "svc" | "eret" => self.referee.synchronise(cpu),
            "load" => self.referee.loaded(cpu, pte(va(words[2]))),
            // Memory of no interest, and an order that it alone has.
            "flag" | "seen" | "dmb" => {}
            "user" => {
                self.referee.synchronise(cpu);
                let at = self.steps.at(cpu);
                self.referee.enter_user(at);
            }
            "task" => {
                self.referee.switched_from(self.steps.tasks[cpu]);
                self.steps.tasks[cpu] = number(2);
            }
            "asid" => {
                self.asids[cpu] = number(2);
                self.registers(cpu);
            }
            "root" => {
                self.roots[cpu] = if number(2) == 0 { L1 } else { OTHER };
                self.registers(cpu);
            }
            "tlbi" => self.tlbi(cpu, Invalidate::va(va(words[2]), Some(asid)), false),
            "tlbiis" => self.tlbi(cpu, Invalidate::va(va(words[2]), Some(asid)), true),
            "vaais" => self.tlbi(cpu, Invalidate::va(va(words[2]), None), true),
            "valeis" => {
                let what = Invalidate::va(va(words[2]), Some(asid));
                self.flush(cpu, what, true, true, None);
            }
            "ttl" => {
                let what = Invalidate::va(va(words[3]), Some(asid));
                self.flush(cpu, what, true, false, Some(number(2) as i8));
            }
            "range" => {
                let what = Invalidate::Range {
                    start: va(words[2]),
                    last: va(words[3]) | 0xfff,
                    asid: Some(asid),
                    globals: true,
                };
                self.tlbi(cpu, what, true);
            }
            "asidis" => self.tlbi(cpu, Invalidate::Asid(number(2) as u16), true),
            "all" => self.tlbi(cpu, Invalidate::All, false),
            "allis" => self.tlbi(cpu, Invalidate::All, true),
            other => panic!("no step {other}"),
        }
    }

    fn access(&mut self, cpu: usize, va: u64, access: Access) {
        let at = self.steps.at(cpu);
        self.accessed = at.pc;
        self.referee.used(at, va, access, va < KERNEL, &self.mem);
    }

    pub fn findings(&self) -> Findings {
        self.referee.findings()
    }
}

/// What a program is found guilty of, after its first line, the set-up, was
/// run and flushed.
fn kinds_at(bbm: u8, set_up: &str, program: &str) -> Vec<Kind> {
    let mut world = World::new(Referee::new(4, Regime::arm64(bbm)));
    world
        .run(set_up)
        .run("0 dsb; 0 allis; 0 dsb; 0 isb")
        .run(program);
    world.findings().list.iter().map(|f| f.kind).collect()
}

fn kinds(set_up: &str, program: &str) -> Vec<Kind> {
    kinds_at(0, set_up, program)
}

const BLOCK: &str = "0 unlink u; 0 dsb; 0 allis; 0 dsb; 0 isb; 0 block u";
const FLUSH: &str = "0 dsbst; 0 tlbiis x; 0 dsb";

macro_rules! cases {
    ($($name:ident: $set_up:expr, $program:expr => [$($kind:ident),*];)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(kinds($set_up, &$program), [$(Kind::$kind),*] as [Kind; _]);
        })*
    };
}

cases! {
    an_unmapped_page_that_is_flushed_is_silent:
        "0 set x a", format!("0 inv x; {FLUSH}; 0 user; 0 fault x") => [];
    an_unmapped_page_that_is_not_flushed_is_stale:
        "0 set x a", "0 inv x; 0 user; 0 fault x" => [StaleGrant];
    before_the_return_to_user_space_the_flush_may_still_come:
        "0 set x a", "0 inv x; 0 fault x; 1 read x" => [];
    another_task_returning_changes_nothing:
        "0 set x a", "0 inv x; 1 user; 1 read x" => [];
    a_flush_without_the_first_barrier_covers_nothing:
        "0 set x a", "0 inv x; 0 tlbiis x; 0 dsb; 0 user; 0 fault x" => [StaleGrant];
    a_flush_without_the_last_barrier_is_not_complete:
        "0 set x a", "0 inv x; 0 dsbst; 0 tlbiis x; 0 user; 0 fault x" => [StaleGrant];
    a_store_barrier_does_not_complete_a_flush:
        "0 set x a", "0 inv x; 0 dsbst; 0 tlbiis x; 0 dsbst; 0 user; 0 fault x" => [StaleGrant];
    a_load_barrier_orders_no_store:
        "0 set x a", "0 inv x; 0 dsbld; 0 tlbiis x; 0 dsb; 0 user; 0 fault x" => [StaleGrant];
    a_local_flush_leaves_other_cpus:
        "0 set x a", "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 user; 1 fault x" => [StaleGrant];
    a_local_flush_is_enough_for_its_own_cpu:
        "0 set x a", "0 inv x; 0 dsb; 0 tlbi x; 0 dsb; 0 user; 0 fault x" => [];
    a_local_barrier_completes_the_local_part_only:
        "0 set x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 dsbnsh; 0 user; 0 fault x; 1 fault x" => [StaleGrant];
    whoever_read_the_entry_may_flush_it:
        "0 set x a", "0 inv x; 1 load x; 1 dsb; 1 tlbiis x; 1 dsb; 0 user; 0 fault x" => [];
    whoever_did_not_may_not:
        "0 set x a", "0 inv x; 1 dsb; 1 tlbiis x; 1 dsb; 0 user; 0 fault x" => [StaleGrant];
    whoever_read_it_too_late_may_not:
        "0 set x a", "0 inv x; 1 dsb; 1 load x; 1 tlbiis x; 1 dsb; 0 user; 0 fault x" => [StaleGrant];
    whoever_faults_has_read_it:
        "0 set x a", "0 inv x; 1 fault x; 1 dsb; 1 tlbiis x; 1 dsb; 0 user; 0 fault x" => [];
    another_page_s_flush_does_not_help:
        "0 set x a", "0 inv x; 0 dsb; 0 tlbiis y; 0 dsb; 0 user; 0 fault x" => [StaleGrant];
    another_asid_s_flush_does_not_help:
        "0 set x a", "0 inv x; 0 dsb; 0 asidis 2; 0 dsb; 0 user; 0 fault x" => [StaleGrant];
    the_asid_s_flush_does:
        "0 set x a", "0 inv x; 0 dsb; 0 asidis 1; 0 dsb; 0 user; 0 fault x" => [];
    a_flush_of_all_does:
        "0 set x a", "0 inv x; 0 dsb; 0 allis; 0 dsb; 0 user; 0 fault x" => [];
    a_range_that_ends_before_the_page_does_not:
        "0 set y a", "0 inv y; 0 dsb; 0 range x x; 0 dsb; 0 user; 0 fault y" => [StaleGrant];
    a_range_with_the_page_does:
        "0 set y a", "0 inv y; 0 dsb; 0 range x z; 0 dsb; 0 user; 0 fault y" => [];
    the_wrong_level_hint_does_not:
        "0 set x a", "0 inv x; 0 dsb; 0 ttl 2 x; 0 dsb; 0 user; 0 fault x" => [StaleGrant];
    the_right_level_hint_does:
        "0 set x a", "0 inv x; 0 dsb; 0 ttl 3 x; 0 dsb; 0 user; 0 fault x" => [];
    leaf_only_flushes_do_for_leaves:
        "0 set x a", "0 inv x; 0 dsb; 0 valeis x; 0 dsb; 0 user; 0 fault x" => [];

    fewer_rights_without_flush_are_stale_for_writes:
        "0 set x a", "0 set x a+ro; 0 user; 0 fault x" => [StaleGrant];
    fewer_rights_without_flush_are_not_stale_for_reads:
        "0 set x a", "0 set x a+ro; 0 user; 0 read x" => [];
    more_rights_need_no_flush:
        "0 set x a+ro", "0 set x a; 0 user; 0 write x" => [];
    ageing_needs_no_flush:
        "0 set x a", "0 set x a+old; 0 user; 0 fault x" => [];
    what_was_not_accessed_is_not_cached:
        "0 set x a+old", "0 inv x; 0 user; 0 set x b; 0 read x" => [];
    a_stale_translation_elsewhere_is_found_at_once:
        "0 set x a", "0 inv x; 0 set x b; 0 read x" => [NoFlush, StaleTranslation];
    a_read_only_page_may_give_way_to_its_copy:
        "0 set x a+ro", "0 fill a 7; 0 fill b 7; 0 inv x; 0 set x b+ro; 0 read x; 1 fetch x" => [];
    a_page_that_can_be_written_may_not:
        "0 set x a", "0 fill a 7; 0 fill b 7; 0 inv x; 0 set x b+ro; 0 read x" => [NoFlush, StaleTranslation];
    a_page_with_other_contents_is_no_copy:
        "0 set x a+ro", "0 fill a 7; 0 fill b 8; 0 inv x; 0 set x b+ro; 0 read x" => [NoFlush, StaleTranslation];
    a_copy_that_was_written_is_none_any_more:
        "0 set x a+ro", "0 fill a 7; 0 fill b 7; 0 inv x; 0 set x b+ro; 0 fill b 8; 1 read x" => [StaleTranslation];
    a_copy_takes_away_what_it_does_not_grant:
        "0 set x a+ro", "0 fill a 7; 0 fill b 7; 0 inv x; 0 set x b+ro+xn; 0 user; 1 fetch x" => [StaleGrant];
    a_new_asid_has_no_old_entries:
        "0 set x a", "0 inv x; 0 user; 0 asid 2; 0 fault x" => [];
    and_the_old_one_still_has:
        "0 set x a", "0 inv x; 0 user; 0 asid 2; 0 asid 1; 0 fault x" => [StaleGrant];

    another_page_without_break: "0 set x a", "0 set x b" => [NoBreak];
    another_page_with_break: "0 set x a", format!("0 inv x; {FLUSH}; 0 set x b") => [];
    another_page_without_flush: "0 set x a", "0 inv x; 0 dsb; 0 set x b" => [NoFlush];
    another_page_before_the_flush_is_complete:
        "0 set x a", "0 inv x; 0 dsb; 0 tlbiis x; 0 set x b" => [NoFlush];
    the_same_page_again_without_flush: "0 set x a", "0 inv x; 0 set x a" => [];
    another_memory_type_without_break: "0 set x a", "0 set x a+nc" => [NoBreak];
    tagged_where_it_was_not: "0 set x a", "0 set x a+tagged" => [];
    global_where_it_was_not: "0 set x a", "0 set x a+global" => [NoBreak];
    rights_without_break: "0 set x a", "0 set x a+ro" => [];
    the_other_cpu_s_flush_counts:
        "0 set x a", "0 inv x; 0 dsb; 1 tlbiis x; 1 dsb; 0 set x b" => [];

    the_contiguous_bit_without_break: "0 set x a", "0 set x a+cont" => [NoBreak];
    the_contiguous_bit_without_flush: "0 set x a", "0 inv x; 0 set x a+cont" => [SizeConflict];
    the_contiguous_bit_beside_one_without:
        "0 set x a; 0 set y a1", format!("0 inv x; {FLUSH}; 0 set x a+cont") => [Contiguous];
    a_group_folded_by_the_book:
        "0 set x a; 0 set y a1",
        "0 inv x; 0 inv y; 0 dsb; 0 range x y; 0 dsb; 0 set x a+cont; 0 set y a1+cont" => [];
    a_group_folded_with_half_a_flush:
        "0 set x a; 0 set y a1",
        "0 inv x; 0 inv y; 0 dsb; 0 tlbiis x; 0 dsb; 0 set x a+cont; 0 set y a1+cont" => [SizeConflict];
    a_group_that_is_not_in_order:
        "0 set x a+cont", "0 set y a2+cont" => [Contiguous];
    a_group_with_two_memory_types:
        "0 set x a+cont", "0 set y a1+cont+nc" => [Contiguous];
    a_group_with_different_rights:
        "0 set x a+cont", "0 set y a1+cont+ro" => [];

    a_block_over_a_table_without_break: "0 set u b", "0 block u" => [NoBreak];
    a_block_over_a_table_without_flush:
        "0 set u b", "0 unlink u; 0 dsb; 0 block u" => [SizeConflict];
    a_block_over_a_table_with_a_leaf_flush:
        "0 set u b", "0 unlink u; 0 dsb; 0 valeis u; 0 dsb; 0 block u" => [SizeConflict];
    a_block_over_a_table_by_the_book:
        "0 set u b", "0 unlink u; 0 dsb; 0 tlbiis u; 0 dsb; 0 block u" => [];
    a_table_is_no_leaf_of_its_level:
        "0 set x a", "0 unlink u; 0 dsb; 0 ttl 2 u; 0 dsb; 0 block u" => [SizeConflict];
    a_table_is_on_the_way_to_leaves_below:
        "0 set x a", "0 unlink u; 0 dsb; 0 ttl 3 u; 0 dsb; 0 block u" => [];
    a_table_over_a_block_without_break: BLOCK, "0 link u" => [NoBreak];
    a_table_over_a_block_without_flush: BLOCK, "0 unlink u; 0 link u" => [SizeConflict];
    the_pages_below_a_removed_table_are_stale_too:
        "0 set u b", "0 unlink u; 0 user; 0 fault u" => [StaleGrant];
    a_removed_table_that_is_written_is_reuse:
        "0 set x a", "0 unlink u; 0 set u b" => [TableReuse];
    a_removed_table_that_is_cleared_is_not:
        "0 set u b", "0 unlink u; 0 inv u" => [];

    a_kernel_page_without_barriers: "", "0 set k a; 0 read k" => [Unsynchronised];
    a_kernel_page_without_isb: "", "0 set k a; 0 dsbst; 0 read k" => [Unsynchronised];
    a_kernel_page_without_dsb: "", "0 set k a; 0 isb; 0 read k" => [Unsynchronised];
    a_kernel_page_with_both: "", "0 set k a; 0 dsbst; 0 isb; 0 read k" => [];
    another_kernel_page_meanwhile: "0 set l b", "0 set k a; 0 read l" => [];
    user_pages_may_fault_once_more: "", "0 set x a; 0 read x" => [];
    kernel_pages_are_stale_in_every_space:
        "0 set k a", "0 inv k; 0 user; 1 asid 7; 1 fault k" => [StaleGrant];
    kernel_pages_need_every_asid_flushed:
        "0 set k a", "0 inv k; 0 dsb; 0 vaais k; 0 dsb; 0 isb; 0 user; 1 fault k" => [];
    after_the_flush_the_kernel_has_to_synchronise:
        "0 set k a", "0 inv k; 0 dsb; 0 vaais k; 0 dsb; 0 set k b; 0 dsb; 0 read k" => [StaleTranslation, Unsynchronised];
}

#[test]
fn a_cpu_that_promises_bbm_may_change_the_contiguous_bit_and_then_sizes() {
    for program in [
        "0 set x a+cont",
        "0 inv x; 0 set x a+cont",
        "0 set y a1+cont",
    ] {
        for bbm in [1, 2] {
            assert_eq!(kinds_at(bbm, "0 set x a", program), [], "{program}");
        }
        assert_ne!(kinds_at(0, "0 set x a", program), [], "{program}");
    }
    assert_ne!(kinds_at(1, "0 set u p", "0 block u"), []);
    assert_eq!(kinds_at(2, "0 set u p", "0 block u"), []);
    assert_eq!(kinds_at(2, "0 set x a", "0 set x b"), [Kind::NoBreak]);
}

#[test]
fn a_cleared_table_is_forgotten_after_the_flush() {
    let mut w = World::new(Referee::new(1, Regime::arm64(0)));
    w.run("0 set u b; 0 unlink u; 0 dsb; 0 range u u; 0 dsb; 0 isb");
    assert!(!w.referee.is_table(U3), "free to become anything");
    assert!(w.referee.is_quiet(0));
    w.run("0 link u");
    assert!(w.referee.is_table(U3));
}

#[test]
fn a_flushed_table_is_not_walked_before_the_isb_either() {
    let mut w = World::new(Referee::new(1, Regime::arm64(0)));
    w.run("0 set u b; 0 unlink u; 0 dsb; 0 allis; 0 dsb; 0 set u c; 0 user; 0 fault u");
    assert_eq!(w.findings().list, []);
    assert!(w.referee.is_quiet(0));
}

#[test]
fn loads_are_wanted_until_the_store_is_visible() {
    let mut w = World::new(Referee::new(2, Regime::arm64(0)));
    w.run("0 set x a; 0 dsb");
    assert!(!w.referee.wants_loads());
    w.run("0 inv x");
    assert!(w.referee.wants_loads());
    w.run("0 dsb");
    assert!(!w.referee.wants_loads());
}

#[test]
fn a_root_is_forgotten_once_it_is_empty_and_unused() {
    let mut w = World::new(Referee::new(1, Regime::arm64(0)));
    w.run("0 root 1; 0 asid 2");
    assert!(w.referee.is_table(L1), "entries may be cached");
    w.store(0, L1, 0);
    assert!(!w.referee.is_table(L1));
}

#[test]
fn the_report_is_the_same_in_each_run() {
    const ROOTS: u64 = 8;
    let report = || {
        let mut w = World::new(Referee::new(1, Regime::arm64(0)));
        for root in 0..ROOTS {
            let base = 0x20_0000 + (root << 12);
            w.mem.table(base, 4096);
            w.mem.set(base, 1, L2 | 3);
            w.roots[0] = base;
            w.registers(0);
        }
        w.findings().list
    };
    let first = report();
    assert_eq!(first.len() as u64, ROOTS);
    // Of those that the ASID stood for before, the one that came first.
    let old = format!("table at {L1:#x}");
    assert!(first.iter().all(|f| f.old == old), "{first:#?}");
    assert_eq!(report(), first);
}

#[test]
fn a_barrier_orders_translations_where_the_cpu_promises_it() {
    let kinds = |ets2, set_up, program| {
        let mut w = World::new(Referee::new(2, Regime::arm64(0)).ets2(ets2));
        w.run(set_up)
            .run("0 dsb; 0 allis; 0 dsb; 0 isb")
            .run(program);
        let list = w.findings().list;
        list.iter().map(|f| f.kind).collect::<Vec<_>>()
    };
    let stale = [Kind::StaleTranslation];
    // A copy on write whose page the kernel reads before it returns from the exception.
    let data = "0 set x a+ro+xn";
    let copied = "0 inv x; 0 dsb; 0 valeis x; 0 dsb; 0 set x b+xn; 0 read x";
    assert_eq!(kinds(false, data, copied), stale);
    assert_eq!(kinds(true, data, copied), []);
    let returned = "0 inv x; 0 dsb; 0 valeis x; 0 dsb; 0 set x b+xn; 0 eret; 0 read x";
    assert_eq!(kinds(false, data, returned), []);
    // Not so for what could be fetched, and not without the barrier.
    assert_eq!(kinds(true, "0 set x a+ro", copied), stale);
    let unfinished = "0 inv x; 0 dsb; 0 valeis x; 0 set x b+xn; 0 read x";
    assert_ne!(kinds(true, data, unfinished), []);
}

#[test]
fn hardware_access_and_dirty_updates_count() {
    const HA: u64 = 1 << 39;
    const HD: u64 = 1 << 40;
    let kinds = |tcr, set_up, program| {
        let mut w = World::with_tcr(Referee::new(1, Regime::arm64(0)), tcr);
        w.run(set_up)
            .run("0 dsb; 0 allis; 0 dsb; 0 isb")
            .run(program);
        let list = w.findings().list;
        list.iter().map(|f| f.kind).collect::<Vec<_>>()
    };
    let stale = [Kind::StaleGrant];
    let program = "0 inv x; 0 user; 0 fault x";
    assert_eq!(kinds(0, "0 set x a+old", program), []);
    assert_eq!(kinds(HA, "0 set x a+old", program), stale);
    // Clean, but the hardware would have made it dirty: a write was granted.
    let program = "0 set x a+ro; 0 user; 0 fault x";
    assert_eq!(kinds(0, "0 set x a+ro+dbm", program), []);
    assert_eq!(kinds(HA | HD, "0 set x a+ro+dbm", program), stale);
}

#[test]
fn findings_say_who_what_and_where() {
    let mut w = World::new(Referee::new(4, Regime::arm64(0)));
    w.run("0 set x a; 0 dsb; 0 allis; 0 dsb; 1 inv x; 1 user; 2 fault x");
    let findings = w.findings();
    let f = &findings.list[0];
    assert_eq!((f.va, f.asid, f.count), (va("x"), Some(1), 1));
    assert_eq!((f.change.cpu, f.usage.cpu), (1, 2));
    assert!(f.change.code.pc < f.usage.code.pc && f.change.code.pc != 0);
    assert!(
        f.old.contains("4K at 0x100000") && f.old.contains("user rw"),
        "{}",
        f.old
    );
    assert_eq!(f.new, "invalid");
    assert!(findings.table_writes >= 2 && findings.most_stale == 1);
}

#[test]
fn dc_zva_to_a_table_is_a_change() {
    let mut w = World::new(Referee::new(1, Regime::arm64(0)));
    w.run("0 set x a; 0 dsb; 0 allis; 0 dsb");
    let at = w.steps.at(0);
    w.mem.set(pte(va("x")), 0, 0);
    w.referee.stored(at, L3, 4096, &w.mem);
    w.run("0 user; 0 fault x");
    assert_eq!(w.findings().list[0].kind, Kind::StaleGrant);
}
