// SPDX-License-Identifier: GPL-2.0-only
//! One vCPU: its model, and what its instructions mean to it.

use crate::event::{Event, Mail};
use crate::ffi::sys::qemu_plugin_meminfo_t;
use crate::function::Function;
use crate::inline::{ALWAYS, NO_PAGE};
use crate::plugin::Plugin;
use crate::ram::Ram;
use crate::registers::Registers;
use crate::watch::{Watch, Watched};
use wideleaf_tlb::insn_x86::Operand;
use wideleaf_tlb::mmu::Mmu;
use wideleaf_tlb::model::{Core, Mode, Side};
use wideleaf_tlb::referee::Flush;
use wideleaf_tlb::report::Coverage;
use wideleaf_tlb::tlb::Invalidate;
use wideleaf_tlb::walk::{PhysMem, Walk};
use wideleaf_tlb::{insn_arm64, insn_x86};

/// Marker code that asks for a coverage record.
const COVERAGE: u8 = 200;

/// Marker code that names the function whose calls are counted.
const FUNCTION: u8 = 201;

/// Marker code that begins or ends the record of pages executed from.
const RECORD: u8 = 202;

/// Marker code that asks which pages of a range are in that record.
const IDENTIFY: u8 = 203;

/// A vCPU with its model.
pub struct Vcpu {
    /// The model.
    pub core: Core<&'static Ram>,
    registers: Registers,
    index: u32,
    /// Registers that translation depends on may have changed.
    registers_stale: bool,
    /// Who runs may have changed.
    mode_stale: bool,
    /// The last page of code was in the upper half.
    was_high: bool,
    /// An address in the page of code that was looked up last.
    fetched: u64,
    /// Whose calls are counted.
    function: Function,
    /// What the referee needs to know of this vCPU.
    watched: Watched,
    /// x86: what the last MOV to CR3 invalidates, for the referee: the old
    /// tables are out of use by then.
    switch: Option<Invalidate>,
    /// Markers with a code that means nothing.
    pub unknown_markers: u64,
}

impl Vcpu {
    /// A vCPU before its first instruction.
    pub fn new(core: Core<&'static Ram>, registers: Registers, index: u32) -> Self {
        Vcpu {
            core,
            registers,
            index,
            registers_stale: true,
            mode_stale: true,
            was_high: true,
            fetched: 0,
            function: Function::default(),
            watched: Watched::default(),
            switch: None,
            unknown_markers: 0,
        }
    }

    /// Takes over what the inline counters counted since the last time. To be
    /// called before anything changes where counts belong: phase, mode, or
    /// what the instruction side looked up last.
    pub fn settle(&mut self, plugin: &Plugin) {
        let inline = plugin.inline(self.index);
        self.core.add_accesses(Side::Instruction, inline.fetches);
        self.core.add_instructions(inline.instructions);
        if self.function.runs() {
            self.core.add_function_instructions(inline.instructions);
        }
        inline.fetches = 0;
        inline.instructions = 0;
    }

    /// A block is about to run that begins in another page than before, or
    /// after something that makes a new lookup necessary.
    pub fn enter_block(&mut self, plugin: &Plugin, page: u64) {
        self.settle(plugin);
        self.take_mail(plugin);
        if self.registers_stale {
            self.read_registers(plugin);
        }
        let pc = self.registers.pc();
        let before = self.core.mode();
        self.update_mode(pc);
        if let Some(watch) = &plugin.referee {
            let user = self.core.mode() == Mode::User;
            if !user && let Some(sp) = self.registers.kernel_stack() {
                self.watched.runs_on(sp);
            }
            self.watched
                .block(watch, self.index, &self.core, pc, user, before);
        }
        self.fetch(pc);
        self.record_fetch(plugin, pc, page);
        self.follow(pc);
        // A page that could not be translated is tried again each time.
        let usable = page != ALWAYS
            && self.core.last_is_usable(Side::Instruction)
            && !self.function.wants(pc)
            && plugin
                .referee
                .as_ref()
                .is_none_or(|w| w.is_quiet(self.index));
        plugin.inline(self.index).page = if usable { page } else { NO_PAGE };
    }

    /// The block's last instruction goes on in the page after the one that the
    /// block began in.
    pub fn enter_next_page(&mut self, plugin: &Plugin) {
        self.settle(plugin);
        self.fetch((self.fetched >> 12 << 12).wrapping_add(0x1000));
        self.record_fetch(plugin, self.fetched, ALWAYS);
        plugin.inline(self.index).page = NO_PAGE;
    }

    fn fetch(&mut self, va: u64) {
        self.fetched = va;
        if !self.core.is_last(Side::Instruction, va) {
            self.core.look_up(Side::Instruction, va);
        }
    }

    /// Tells the record of pages that `va` is executed; `page` as in [`Vcpu::enter_block`].
    fn record_fetch(&self, plugin: &Plugin, va: u64, page: u64) {
        let touches = &plugin.touches;
        if touches.wanted()
            && self.core.mode() == Mode::User
            && (page == ALWAYS || touches.is_new(page))
            && let Some(pa) = self.physical(va)
        {
            touches.fetch(pa);
        }
    }

    /// Where in memory the byte at `va` is, by the page tables; `None` if unmapped.
    fn physical(&self, va: u64) -> Option<u64> {
        match self.core.mmu().walk(self.core.mem(), va) {
            Walk::Found(t) => Some(t.pa),
            Walk::Fault { .. } | Walk::Unbacked { .. } => None,
        }
    }

    /// Tells the function of a block, if it wants to know.
    fn follow(&mut self, pc: u64) {
        if !self.function.wants(pc) {
            return;
        }
        let sp = self.registers.stack();
        if self
            .function
            .block(pc, sp, || self.registers.return_address())
        {
            self.core.count_call();
        }
    }

    fn read_registers(&mut self, plugin: &Plugin) {
        self.registers_stale = false;
        let mmu = self.registers.mmu();
        if let (Mmu::X86(old), Mmu::X86(new)) = (self.core.mmu(), &mmu)
            && old.change_flushes_all(&new.regs())
        {
            self.x86_invalidate(plugin, Invalidate::All);
        }
        if let Some(watch) = &plugin.referee
            && *self.core.mmu() != mmu
        {
            self.watched
                .registers(watch, self.index, mmu, self.core.mem());
        }
        self.core.set_mmu(mmu);
        if let Some(op) = self.switch.take() {
            self.x86_tell(plugin, op);
        }
    }

    fn x86_invalidate(&mut self, plugin: &Plugin, op: Invalidate) {
        self.core.invalidate(&op);
        self.x86_tell(plugin, op);
    }

    fn x86_tell(&mut self, plugin: &Plugin, op: Invalidate) {
        if let Some(watch) = &plugin.referee {
            let flush = Flush {
                what: op,
                leaves_only: false,
                level: None,
                broadcast: false,
            };
            watch.flush(self.index, &flush);
        }
    }

    /// A load or store has completed, and the referee looks on. `pc` is where
    /// its instruction was when it was translated.
    pub fn watch_access(&mut self, watch: &Watch, info: qemu_plugin_meminfo_t, va: u64, pc: u64) {
        let pc = self.fetched & !0xfff | pc & 0xfff;
        let (core, registers) = (&self.core, &mut self.registers);
        self.watched
            .access(watch, self.index, core, registers, info, (va, pc));
    }

    /// See the crate's documentation for the rule. Bit 63 tells the halves of
    /// a code address apart: tags do not occur in it.
    fn update_mode(&mut self, va: u64) {
        let high = va >> 63 != 0;
        if high {
            self.core.set_mode(Mode::Kernel);
        } else if self.was_high || self.mode_stale {
            let mode = self.registers.mode();
            self.core.set_mode(mode);
        }
        self.mode_stale = false;
        self.was_high = high;
    }

    /// An instruction of interest is about to run.
    pub fn event(&mut self, plugin: &Plugin, event: &Event) {
        if let Event::Arm64(insn_arm64::Event::ZeroBlock(register)) = *event {
            let va = self.registers.general(register);
            self.touch(va);
            if let Some(watch) = &plugin.referee {
                self.watched.zeroes(watch, self.index, &self.core, va);
            }
            return;
        }
        if let (Some(watch), Event::Arm64(event)) = (&plugin.referee, event) {
            self.watched
                .event(watch, self.index, &self.core, &mut self.registers, event);
            if event.is_for_referee_only() {
                return;
            }
        }
        self.settle(plugin);
        match *event {
            Event::Arm64(e) => self.arm64_event(plugin, e),
            Event::X86(e) => self.x86_event(plugin, e),
        }
        plugin.inline(self.index).page = NO_PAGE;
    }

    fn arm64_event(&mut self, plugin: &Plugin, event: insn_arm64::Event) {
        use insn_arm64::Event::*;
        match event {
            Marker(code) => self.marker(plugin, code),
            TranslationRegister => self.registers_stale = true,
            ExceptionLevel => self.mode_stale = true,
            // At EL0 a TLBI is undefined and does nothing.
            Tlbi(tlbi) if self.core.mode() == Mode::Kernel => {
                let xt = self.registers.general(tlbi.rt);
                let Mmu::Arm64(mmu) = self.core.mmu() else {
                    return;
                };
                let op = tlbi.op.invalidate(xt, mmu);
                self.core.invalidate(&op);
                self.core.count_invalidation();
                if let Some(watch) = &plugin.referee {
                    let flush = Flush {
                        what: op,
                        leaves_only: tlbi.leaves_only,
                        level: tlbi.level(xt),
                        broadcast: tlbi.broadcast,
                    };
                    watch.flush(self.index, &flush);
                }
                if tlbi.broadcast {
                    plugin.tell_others(self.index, Mail::Invalidate(op));
                }
            }
            Tlbi(_) | ZeroBlock(_) | Dsb(_) | Isb | FaultAddress | Task(_) => {}
            Bulk { dst, src, len } => {
                let len = self.registers.general(len);
                for register in src.into_iter().chain([dst]) {
                    let start = self.registers.general(register);
                    self.touch_pages(start, len);
                }
            }
        }
    }

    /// A data access that QEMU makes in a helper, past the memory callback,
    /// and that is about to happen. If nothing is mapped it faults and is made
    /// again.
    fn touch(&mut self, va: u64) -> bool {
        let mapped = self.core.is_last(Side::Data, va)
            || matches!(self.core.mmu().walk(self.core.mem(), va), Walk::Found(_));
        if mapped {
            self.core.access(Side::Data, va);
        }
        mapped
    }

    /// Touches each 4K page of `len` bytes at `start`, as far as mapped.
    fn touch_pages(&mut self, start: u64, len: u64) {
        let mut va = start;
        let end = start.saturating_add(len);
        while va < end && self.touch(va) {
            va = (va | 0xfff).saturating_add(1);
        }
    }

    fn x86_event(&mut self, plugin: &Plugin, event: insn_x86::Event) {
        use insn_x86::Event::*;
        match event {
            Marker(code) => self.marker(plugin, code),
            PrivilegeLevel => self.mode_stale = true,
            // The others fault at CPL 3.
            _ if self.core.mode() == Mode::User => {}
            TranslationRegister => self.registers_stale = true,
            MovCr3(register) => {
                let value = self.registers.general(register);
                let Mmu::X86(mmu) = self.core.mmu() else {
                    return;
                };
                self.switch = insn_x86::mov_cr3(value, mmu.pcid_enabled());
                if let Some(op) = &self.switch {
                    self.core.invalidate(op);
                    self.core.count_invalidation();
                }
                self.registers_stale = true;
            }
            Invlpg(operand) => {
                let va = self.address(&operand);
                let pcid = self.core.mmu().asid();
                self.core.count_invalidation();
                self.x86_invalidate(plugin, Invalidate::va(va, Some(pcid)));
            }
            Invpcid { kind, descriptor } => {
                let kind = self.registers.general(kind);
                let at = self.address(&descriptor);
                let words = [self.load(at), self.load(at.wrapping_add(8))];
                if let [Some(low), Some(high)] = words
                    && let Some(op) = insn_x86::invpcid(kind, [low, high])
                {
                    self.core.count_invalidation();
                    self.x86_invalidate(plugin, op);
                }
            }
        }
    }

    fn address(&mut self, operand: &Operand) -> u64 {
        let registers = std::cell::RefCell::new(&mut self.registers);
        operand.address(
            |n| registers.borrow_mut().general(n),
            |n| registers.borrow_mut().segment_base(n),
        )
    }

    /// The word at `va`, read through the page tables; `None` if unmapped.
    fn load(&self, va: u64) -> Option<u64> {
        self.core.mem().read_u64(self.physical(va)?)
    }

    /// A marker counts at EL0 and CPL 3 only: kernel text is free to contain
    /// the same NOP.
    fn marker(&mut self, plugin: &Plugin, code: u8) {
        if self.core.mode() != Mode::User {
            return;
        }
        match code {
            0..128 => {
                self.core.set_phase(code);
                plugin.tell_others(self.index, Mail::Phase(code));
            }
            COVERAGE => {
                let [start, len, id] = self.registers.arguments();
                plugin.add_coverage(Coverage {
                    id,
                    phase: self.core.phase(),
                    start,
                    len,
                    leaves: self.core.coverage(start, len),
                    table_bytes: self.core.table_bytes(start, len),
                });
            }
            FUNCTION => {
                let [address, ..] = self.registers.arguments();
                self.function = Function::at(address);
                plugin.tell_others(self.index, Mail::Function(address));
            }
            RECORD => {
                let [on, ..] = self.registers.arguments();
                plugin.touches.switch(on != 0);
            }
            IDENTIFY => {
                let [start, len, id] = self.registers.arguments();
                let pages = (0..len.div_ceil(0x1000)).filter_map(|page| {
                    Some((page, self.physical(start.wrapping_add(page << 12))?))
                });
                plugin.touches.identify(id, pages);
            }
            _ => self.unknown_markers += 1,
        }
    }

    /// Does what other vCPUs asked for.
    pub fn take_mail(&mut self, plugin: &Plugin) {
        for mail in plugin.mail(self.index) {
            self.settle(plugin);
            plugin.inline(self.index).page = NO_PAGE;
            match mail {
                Mail::Invalidate(op) => {
                    self.core.invalidate(&op);
                }
                Mail::Phase(phase) => self.core.set_phase(phase),
                Mail::Function(address) => self.function = Function::at(address),
            }
        }
    }
}
