// SPDX-License-Identifier: GPL-2.0-only
//! The referee's eyes: what it is told of a guest.
//!
//! vCPUs run in turn in one thread (`-accel tcg,thread=single`), so that what
//! the referee is told has one order. Should they not, the lock keeps it sound,
//! but findings may then be of orders that were not.
//!
//! x86 has no broadcast: each CPU invalidates by itself, and Linux leaves out
//! those that run kernel threads on a borrowed address space (lazy TLB). They
//! keep what they have until they flush it, which is all right as long as they
//! do not use it. A MOV to CR3 counts for the tables that it installs: it is
//! told of first, and then what it invalidates.
//!
//! An access that an old translation would have granted may fault in QEMU,
//! whose own TLB need not hold it any more. So the fault counts as a use: it is
//! seen when the kernel's handler reads FAR_EL1.

use crate::args::Args;
use crate::callers::callers;
use crate::ffi::{self, sys};
use crate::ram::Ram;
use crate::registers::Registers;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::insn_arm64::Event;
use wideleaf_tlb::mmu::Mmu;
use wideleaf_tlb::model::{Core, Mode};
use wideleaf_tlb::referee::finding::Findings;
use wideleaf_tlb::referee::{Access, At, Callers, Flush, Referee, Regime};
use wideleaf_tlb::walk::{PhysMem, Walk};

/// The referee, shared by all vCPUs.
pub struct Watch {
    referee: Mutex<Referee>,
    /// CPUs whose accesses are of interest, a bit each; kept beside, to be asked
    /// without the lock.
    busy: AtomicU64,
    /// Loads from page tables are of interest.
    loads: AtomicBool,
}

/// The most that one DC ZVA zeroes: DCZID_EL0.BS is at most 9, 2K.
const ZVA: u64 = 2048;

impl Watch {
    /// For `cpus` vCPUs of `arch` that promise what `args` say. `strict`:
    /// [`Referee::strict`].
    pub fn new(cpus: usize, args: &Args, arch: Arch, strict: bool) -> Self {
        let regime = match arch {
            Arch::Arm64 => Regime::arm64(args.bbm),
            Arch::X86_64 => Regime::x86(),
        };
        let referee = Referee::new(cpus, regime).ets2(args.ets2);
        Watch {
            referee: Mutex::new(if strict { referee.strict() } else { referee }),
            busy: AtomicU64::new(0),
            loads: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Referee> {
        self.referee.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the referee, and looks whether accesses are of interest.
    fn tell<T>(&self, f: impl FnOnce(&mut Referee) -> T) -> T {
        let mut referee = self.lock();
        let result = f(&mut referee);
        self.note(&referee);
        result
    }

    fn note(&self, referee: &Referee) {
        self.busy.store(referee.busy(), Relaxed);
        self.loads.store(referee.wants_loads(), Relaxed);
    }

    /// Is no access of `cpu` of interest at the moment?
    #[inline]
    pub fn is_quiet(&self, cpu: u32) -> bool {
        self.busy.load(Relaxed) >> cpu & 1 == 0
    }

    /// A TLB invalidation.
    pub fn flush(&self, cpu: u32, flush: &Flush) {
        self.tell(|r| r.flush(cpu as usize, flush));
    }

    /// What was found.
    pub fn findings(&self) -> Findings {
        self.lock().findings()
    }
}

/// What is kept of one vCPU for the referee.
#[derive(Debug, Default)]
pub struct Watched {
    /// What tells tasks apart. arm64: the kernel's `current`, when it was last
    /// set. x86: the kernel stack.
    current: u64,
    /// DC ZVA is about to zero memory here.
    zeroed: Option<u64>,
    /// Where code runs.
    pc: u64,
}

/// x86-64 Linux' `CPU_ENTRY_AREA_PGD` (Documentation/arch/x86/x86_64/mm.rst).
const ENTRY_AREA: std::ops::Range<u64> = 0xffff_fe00_0000_0000..0xffff_fe80_0000_0000;

/// x86-64 Linux' `THREAD_SIZE`. With KASAN it is twice as much, and a task
/// counts as two: less is found then.
const STACK: u64 = 16 << 10;

type TheCore = Core<&'static Ram>;

/// The callers of the function that runs; none are known on x86.
fn callers_of(core: &TheCore, registers: &mut Registers) -> Callers {
    let read = |va| match core.mmu().walk(core.mem(), va) {
        Walk::Found(t) => core.mem().read_u64(t.pa),
        _ => None,
    };
    registers
        .frame()
        .map_or_else(Callers::default, |frame| callers(frame, read))
}

impl Watched {
    fn at(&self, cpu: u32, pc: u64) -> At {
        At {
            cpu: cpu as usize,
            pc,
            task: self.current,
            ..At::default()
        }
    }

    /// New translation registers.
    pub fn registers(&self, watch: &Watch, cpu: u32, mmu: Mmu, mem: &&'static Ram) {
        let at = self.at(cpu, self.pc);
        watch.tell(|r| r.set_registers(at, mmu, mem));
    }

    /// x86: the kernel runs on this stack. Linux changes entries on those of
    /// tasks, which are aligned to their size, and goes back to user space by
    /// way of a small one of the CPU's (`cpu_entry_area`).
    pub fn runs_on(&mut self, sp: u64) {
        if !ENTRY_AREA.contains(&sp) {
            self.current = sp & !(STACK - 1);
        }
    }

    /// Code goes on at `pc`.
    pub fn block(
        &mut self,
        watch: &Watch,
        cpu: u32,
        core: &TheCore,
        pc: u64,
        user: bool,
        before: Mode,
    ) {
        self.pc = pc;
        self.settle(watch, cpu, core);
        let at = self.at(cpu, pc);
        if user && before == Mode::Kernel {
            watch.tell(|r| r.enter_user(at));
        }
        if !watch.is_quiet(cpu) {
            self.look(watch, core, at, pc, Access::Fetch, user);
        }
    }

    fn look(&self, watch: &Watch, core: &TheCore, at: At, va: u64, access: Access, user: bool) {
        let asid = core.mmu().asid();
        let va = match core.mmu() {
            Mmu::Arm64(_) => wideleaf_tlb::arm64::Mmu::untag(va),
            Mmu::X86(_) => va,
        };
        let mut referee = watch.lock();
        if referee.may_concern(at.cpu, va, asid) {
            referee.used(at, va, access, user, core.mem());
            watch.note(&referee);
        }
    }

    /// A load or store to the first address of `(va, pc)` has completed.
    pub fn access(
        &mut self,
        watch: &Watch,
        cpu: u32,
        core: &TheCore,
        registers: &mut Registers,
        info: sys::qemu_plugin_meminfo_t,
        (va, pc): (u64, u64),
    ) {
        self.settle(watch, cpu, core);
        let user = core.mode() == Mode::User;
        // SAFETY: info is QEMU's own.
        let store = unsafe { sys::qemu_plugin_mem_is_store(info) };
        if !watch.is_quiet(cpu) {
            let access = if store { Access::Write } else { Access::Read };
            let at = self.at(cpu, pc);
            self.look(watch, core, at, va, access, user);
        }
        if user || !(store || watch.loads.load(Relaxed)) {
            return;
        }
        let Some(pa) = ffi::ram_address(info, va) else {
            return;
        };
        if !store {
            watch.loaded(cpu, pa);
        } else {
            // SAFETY: info is QEMU's own.
            let len = 1 << unsafe { sys::qemu_plugin_mem_size_shift(info) };
            let at = || At {
                callers: callers_of(core, registers),
                ..self.at(cpu, pc)
            };
            watch.stored(at, pa, len, core.mem());
        }
    }

    /// DC ZVA begins at `va`.
    pub fn zeroes(&mut self, watch: &Watch, cpu: u32, core: &TheCore, va: u64) {
        self.settle(watch, cpu, core);
        if let Walk::Found(t) = core.mmu().walk(core.mem(), va) {
            self.zeroed = Some(t.pa & !(ZVA - 1));
        }
    }

    /// What an instruction did that tells nobody when it is done.
    fn settle(&mut self, watch: &Watch, cpu: u32, core: &TheCore) {
        if let Some(pa) = self.zeroed.take() {
            watch.stored(|| self.at(cpu, self.pc), pa, ZVA, core.mem());
        }
    }

    /// An instruction of interest begins.
    pub fn event(
        &mut self,
        watch: &Watch,
        cpu: u32,
        core: &TheCore,
        registers: &mut Registers,
        event: &Event,
    ) {
        self.settle(watch, cpu, core);
        let index = cpu as usize;
        match *event {
            Event::Dsb(dsb) => {
                let at = self.at(cpu, self.pc);
                watch.tell(|r| r.dsb(at, dsb));
            }
            // SVC and ERET synchronise too.
            Event::Isb | Event::ExceptionLevel => watch.tell(|r| r.synchronise(index)),
            Event::Task(register) => {
                let value = registers.general(register);
                // Before a return to user space it takes the user's stack, and on the way back in
                // the task's again.
                if value >> 63 != 0 && value != self.current {
                    let before = std::mem::replace(&mut self.current, value);
                    watch.tell(|r| r.switched_from(before));
                }
            }
            Event::FaultAddress if !watch.is_quiet(cpu) || watch.loads.load(Relaxed) => {
                if let Some(fault) = registers.fault() {
                    self.fault(watch, cpu, core, fault);
                }
            }
            _ => {}
        }
    }

    /// A fault is being handled; [`Registers::fault`].
    fn fault(&self, watch: &Watch, cpu: u32, core: &TheCore, [far, esr, elr]: [u64; 3]) {
        // ESR_EL1.EC (Arm ARM DDI 0487, D17 "ESR_EL1"): aborts of instructions
        // and data, from a lower level and from the same. WnR is bit 6.
        let (fetch, user) = match (esr >> 26) & 63 {
            0x20 => (true, true),
            0x21 => (true, false),
            0x24 => (false, true),
            0x25 => (false, false),
            _ => return,
        };
        let access = match (fetch, esr & 1 << 6 != 0) {
            (true, _) => Access::Fetch,
            (_, true) => Access::Write,
            (_, false) => Access::Read,
        };
        let at = self.at(cpu, elr);
        let va = wideleaf_tlb::arm64::Mmu::untag(far);
        watch.tell(|r| r.faulted(at, va, access, user, core.mem()));
    }
}

impl Watch {
    fn loaded(&self, cpu: u32, pa: u64) {
        let mut referee = self.lock();
        if referee.is_table(pa) {
            referee.loaded(cpu as usize, pa);
        }
    }

    fn stored(&self, at: impl FnOnce() -> At, pa: u64, len: u64, mem: &&'static Ram) {
        let mut referee = self.lock();
        // The last byte too: a store may begin before a table.
        if referee.is_table(pa) || referee.is_table(pa + len - 1) {
            referee.stored(at(), pa, len, mem);
            self.note(&referee);
        }
    }
}
