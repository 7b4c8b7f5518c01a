// SPDX-License-Identifier: GPL-2.0-only
//! x86-64 on several CPUs: flushes are each CPU's own, and Linux leaves out
//! CPUs that do not use an address space at the moment.
//!
//! Two processes, `a` and `b`, and `u`, which is `a` as user space sees it
//! under KPTI: another first table, the same ones below it for user space, none
//! for the kernel's half. `x` is a user page, `k` a kernel page. A line is a
//! CPU, then one of
//!
//! ```text
//! map PROCESS VA PAGE[+ro]   unmap PROCESS VA   read VA   write VA
//! cr3 PROCESS PCID [keep]    invlpg VA          user      task N
//! ```

use super::finding::Kind;
use super::steps::Steps;
use super::*;
use crate::tlb::Invalidate;
use crate::walk::testmem::Mem;
use crate::x86;

const X: u64 = 0x1000;
const K: u64 = 0xffff_8000_0000_1000;

/// Tables of a process: first, then for the user's half three more.
fn tables(process: &str) -> [u64; 4] {
    match process {
        "a" => [0x1_0000, 0x1_1000, 0x1_2000, 0x1_3000],
        "b" => [0x2_0000, 0x2_1000, 0x2_2000, 0x2_3000],
        "u" => [0x3_0000, 0x1_1000, 0x1_2000, 0x1_3000],
        _ => panic!("no process {process}"),
    }
}

const KERNEL: [u64; 3] = [0x4_1000, 0x4_2000, 0x4_3000];

/// Present, writable, user, accessed, dirty.
const ENTRY: u64 = 0x67;

const PCIDE: u64 = 1 << 17;

struct World {
    referee: Referee,
    mem: Mem,
    pcids: bool,
    /// Process and PCID of each CPU.
    spaces: Vec<(String, u64)>,
    steps: Steps,
}

impl World {
    fn new(pcids: bool) -> Self {
        let mut mem = Mem::default();
        for process in ["a", "b", "u"] {
            tables(process).iter().for_each(|t| mem.table(*t, 4096));
        }
        KERNEL.iter().for_each(|t| mem.table(*t, 4096));
        for process in ["a", "b", "u"] {
            let levels = tables(process);
            levels
                .windows(2)
                .for_each(|w| mem.set(w[0], 0, w[1] | ENTRY));
            if process != "u" {
                mem.set(levels[0], 256, KERNEL[0] | ENTRY);
            }
        }
        KERNEL
            .windows(2)
            .for_each(|w| mem.set(w[0], 0, w[1] | ENTRY));
        let mut world = World {
            referee: Referee::new(2, Regime::x86()),
            mem,
            pcids,
            spaces: vec![("a".into(), u64::from(pcids)); 2],
            steps: Steps {
                tasks: vec![100, 101],
                ..Steps::default()
            },
        };
        (0..2).for_each(|cpu| world.registers(cpu));
        world
    }

    fn registers(&mut self, cpu: usize) {
        let (process, pcid) = &self.spaces[cpu];
        let mmu = Mmu::X86(x86::Mmu::new(x86::Regs {
            cr0: 1 << 31,
            cr3: tables(process)[0] | pcid,
            cr4: 1 << 5 | 1 << 7 | if self.pcids { PCIDE } else { 0 },
            efer: 1 << 10,
        }));
        let at = self.steps.at(cpu);
        self.referee.set_registers(at, mmu, &self.mem);
    }

    fn flush(&mut self, cpu: usize, what: Invalidate) {
        let flush = Flush {
            what,
            leaves_only: false,
            level: None,
            broadcast: false,
        };
        self.referee.flush(cpu, &flush);
    }

    fn store(&mut self, cpu: usize, process: &str, va: u64, value: u64) {
        let table = if va == K {
            KERNEL[2]
        } else {
            tables(process)[3]
        };
        let pa = table + 8;
        self.mem.set(pa, 0, value);
        let at = self.steps.at(cpu);
        assert!(self.referee.is_table(pa), "{pa:#x} is no table");
        self.referee.stored(at, pa, 8, &self.mem);
    }

    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let cpu: usize = words[0].parse().unwrap();
        let va = |i: usize| match words[i] {
            "x" => X,
            "k" => K,
            other => panic!("no address {other}"),
        };
        match words[1] {
            "map" => {
                let (page, read_only) = match words[4].split_once('+') {
                    Some((page, "ro")) => (page, true),
                    _ => (words[4], false),
                };
                let pa = if page == "p" { 0x10_0000 } else { 0x20_0000 };
                let entry = pa | if read_only { ENTRY & !2 } else { ENTRY };
                self.store(cpu, words[2], va(3), entry);
            }
            "unmap" => self.store(cpu, words[2], va(3), 0),
            "read" => self.access(cpu, va(2), Access::Read),
            "write" => self.access(cpu, va(2), Access::Write),
            // What the plugin does: first the new tables, then the flush.
            "cr3" => {
                let pcid: u64 = words[3].parse().unwrap();
                self.spaces[cpu] = (words[2].into(), pcid);
                self.registers(cpu);
                match (words.get(4), self.pcids) {
                    (Some(&"keep"), true) => {}
                    (_, true) => self.flush(cpu, Invalidate::Asid(pcid as u16)),
                    (_, false) => self.flush(cpu, Invalidate::NonGlobal),
                }
            }
            "invlpg" => {
                let pcid = self.spaces[cpu].1 as u16;
                self.flush(cpu, Invalidate::va(va(2), Some(pcid)));
            }
            "user" => {
                let at = self.steps.at(cpu);
                self.referee.enter_user(at);
            }
            "task" => self.steps.tasks[cpu] = words[2].parse().unwrap(),
            other => panic!("no step {other}"),
        }
    }

    fn access(&mut self, cpu: usize, va: u64, access: Access) {
        let at = self.steps.at(cpu);
        self.referee.used(at, va, access, va != K, &self.mem);
    }
}

fn kinds(pcids: bool, program: &str) -> Vec<Kind> {
    let mut world = World::new(pcids);
    program.split(';').for_each(|line| world.step(line.trim()));
    let findings = world.referee.findings();
    findings.list.iter().map(|f| f.kind).collect()
}

macro_rules! cases {
    ($($name:ident: $pcids:expr, $program:expr => [$($kind:ident),*];)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(kinds($pcids, $program), [$(Kind::$kind),*] as [Kind; _]);
        })*
    };
}

cases! {
    a_flush_is_the_cpu_s_own:
        false, "0 map a x p; 0 unmap a x; 0 invlpg x; 0 user; 0 read x; 1 read x" => [StaleGrant];
    a_flush_on_each_cpu_is_enough:
        false, "0 map a x p; 0 unmap a x; 0 invlpg x; 1 invlpg x; 0 user; 1 read x" => [];
    until_the_other_cpu_was_told_it_may_go_on:
        false, "0 map a x p; 0 unmap a x; 1 read x; 1 user; 1 read x; 1 invlpg x" => [];
    another_page_while_the_other_cpu_has_the_old_one:
        false, "0 map a x p; 0 unmap a x; 0 invlpg x; 0 map a x q; 1 read x" => [StaleTranslation];
    more_rights_need_no_flush:
        false, "0 map a x p+ro; 0 map a x p; 0 user; 1 write x" => [];
    fewer_rights_do:
        false, "0 map a x p; 0 map a x p+ro; 0 invlpg x; 0 user; 1 read x; 1 write x" => [StaleGrant];
    kernel_pages_are_in_every_space:
        false, "0 map a k p; 1 cr3 b 0; 0 unmap a k; 0 invlpg k; 0 user; 1 read k" => [StaleGrant];
    a_switch_flushes_what_is_not_global:
        false, "0 map a x p; 0 unmap a x; 0 user; 1 cr3 b 0; 1 cr3 a 0; 1 read x" => [];

    // A kernel thread borrows the space that was there, and is not told.
    a_lazy_cpu_may_keep_what_it_does_not_use:
        false, "0 map a x p; 0 map a k p; 1 task 7; 0 unmap a x; 0 invlpg x; 0 user; 1 read k" => [];
    a_lazy_cpu_flushes_before_it_goes_on:
        false, "0 map a x p; 0 unmap a x; 0 invlpg x; 0 user; 1 cr3 a 0; 1 read x" => [];
    a_lazy_cpu_that_does_not_is_found:
        true, "0 map a x p; 0 unmap a x; 0 invlpg x; 0 user; 1 cr3 a 1 keep; 1 read x" => [StaleGrant];

    a_space_under_its_pcid_is_kept:
        true, "0 map a x p; 1 cr3 b 2 keep; 0 unmap a x; 0 user; 1 read x; 1 cr3 a 1 keep; 1 read x" => [StaleGrant];
    and_is_flushed_on_the_way_back:
        true, "0 map a x p; 1 cr3 b 2 keep; 0 unmap a x; 0 user; 1 cr3 a 1; 1 read x" => [];
    a_pcid_that_another_space_gets_is_flushed:
        true, "0 map a x p; 1 cr3 b 1; 0 unmap a x; 0 user; 1 read x" => [];
    a_pcid_that_another_space_gets_with_what_was_there:
        true, "0 map a x p; 1 cr3 b 1 keep; 0 unmap a x; 0 user; 1 read x" => [StaleGrant];

    kpti_has_two_pcids_to_flush:
        true, "0 cr3 u 9 keep; 0 cr3 a 1 keep; 0 map a x p; 0 unmap a x; 0 invlpg x; 0 cr3 u 9 keep; \
               0 user; 0 read x" => [StaleGrant];
    kpti_flushes_the_second_on_the_way_out:
        true, "0 cr3 u 9 keep; 0 cr3 a 1 keep; 0 map a x p; 0 unmap a x; 0 invlpg x; 0 cr3 u 9; \
               0 user; 0 read x" => [];
}

#[test]
fn a_lazy_cpu_does_not_keep_the_others_busy() {
    let mut world = World::new(false);
    for line in ["0 map a x p", "0 unmap a x"] {
        world.step(line);
    }
    assert_eq!(world.referee.busy(), 0b11);
    world.step("0 invlpg x");
    assert_eq!(world.referee.busy(), 0b10);
    world.step("1 invlpg x");
    assert_eq!(world.referee.busy(), 0);
}
