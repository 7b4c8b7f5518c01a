// SPDX-License-Identifier: GPL-2.0-only
//! Instrumenting a translated block.

use crate::callbacks;
use crate::event::Event;
use crate::ffi::sys;
use crate::inline::{ALWAYS, Inline, NOTHING};
use crate::plugin::Plugin;
use std::ffi::c_void;
use std::mem::offset_of;
use sys::qemu_plugin_cb_flags::{QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS};
use sys::qemu_plugin_cond::QEMU_PLUGIN_COND_NE;
use sys::qemu_plugin_mem_rw::QEMU_PLUGIN_MEM_RW;
use sys::qemu_plugin_op::{QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_INLINE_STORE_U64};
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::{insn_arm64, insn_x86};

/// The longest x86 instruction has 15 bytes.
const MAX_INSN: usize = 16;

/// An instruction of a block.
struct Insn {
    handle: *mut sys::qemu_plugin_insn,
    va: u64,
    len: usize,
    event: Option<Event>,
    /// The rest of the block may not run after it, or it may access memory.
    may_fault: bool,
    /// Its host address, if it may repeat: see [`Inline::repeating`].
    repeats: Option<u64>,
}

impl Insn {
    fn decode(arch: Arch, referee: bool, handle: *mut sys::qemu_plugin_insn) -> Self {
        let mut bytes = [0u8; MAX_INSN];
        // SAFETY: the handle is valid during translation, the buffer as long
        // as said.
        let (va, len) = unsafe {
            let len = sys::qemu_plugin_insn_data(handle, bytes.as_mut_ptr().cast(), MAX_INSN);
            (sys::qemu_plugin_insn_vaddr(handle), len)
        };
        let (event, may_fault) = match arch {
            Arch::Arm64 => {
                let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let event = insn_arm64::decode(word);
                let event = match referee {
                    true => event.or_else(|| insn_arm64::decode_for_referee(word)),
                    false => event,
                };
                let event = event.map(Event::Arm64);
                (event, insn_arm64::may_fault(word))
            }
            Arch::X86_64 => (insn_x86::decode(&bytes[..len], va).map(Event::X86), true),
        };
        let repeats = arch == Arch::X86_64 && insn_x86::repeats(&bytes[..len]);
        // SAFETY: the handle is valid during translation.
        let host = repeats.then(|| unsafe { sys::qemu_plugin_insn_haddr(handle) } as u64);
        Insn {
            handle,
            va,
            len,
            event,
            may_fault,
            repeats: host.filter(|&address| address != NOTHING),
        }
    }

    /// Does it lie across a 4K page end?
    fn straddles(&self) -> bool {
        (self.va & 0xfff) as usize + self.len > 0x1000
    }
}

/// Instruments the block `tb`.
pub fn block(plugin: &Plugin, tb: *mut sys::qemu_plugin_tb) {
    // SAFETY: tb is valid during translation, indices below its length.
    let insns: Vec<Insn> = unsafe {
        (0..sys::qemu_plugin_tb_n_insns(tb))
            .map(|i| {
                let insn = sys::qemu_plugin_tb_get_insn(tb, i);
                Insn::decode(plugin.arch(), plugin.referee.is_some(), insn)
            })
            .collect()
    };
    pages(plugin, &insns);
    // The referee asks who called the function that stores.
    let at_access = match plugin.referee {
        Some(_) => QEMU_PLUGIN_CB_R_REGS,
        None => QEMU_PLUGIN_CB_NO_REGS,
    };
    for insn in &insns {
        if let Some(event) = insn.event {
            let data = plugin.intern(event) as *const Event as *mut c_void;
            // SAFETY: the event lives for ever.
            unsafe {
                sys::qemu_plugin_register_vcpu_insn_exec_cb(
                    insn.handle,
                    Some(callbacks::on_event),
                    QEMU_PLUGIN_CB_R_REGS,
                    data,
                );
            }
        }
        if insn.may_fault {
            // SAFETY: the address travels as the data pointer and is not
            // dereferenced.
            unsafe {
                sys::qemu_plugin_register_vcpu_mem_cb(
                    insn.handle,
                    Some(callbacks::on_access),
                    at_access,
                    QEMU_PLUGIN_MEM_RW,
                    insn.va as *mut c_void,
                );
            }
        }
    }
    count_instructions(plugin, &insns);
}

/// One lookup at the block's start, and one more if its last instruction
/// straddles into another page: QEMU ends blocks at 4K page ends, but an x86
/// instruction may lie across one.
///
/// The block's own virtual address must not be used for this. QEMU translates
/// position-independently (CF_PCREL) and finds blocks by *physical* address:
/// the same block runs in every process that maps the page, and in the kernel's
/// identity map and its image alike, each at another address than at the time
/// of translation. So the inline comparison is of the physical page, for which
/// the host address stands, and the callback reads the program counter, which
/// CF_PCREL keeps up to date at the start of every block.
fn pages(plugin: &Plugin, insns: &[Insn]) {
    let (Some(first), Some(last)) = (insns.first(), insns.last()) else {
        return;
    };
    // SAFETY: the scoreboard lives for ever; the page number travels as the
    // data pointer and is not dereferenced.
    unsafe {
        let page = match sys::qemu_plugin_insn_haddr(first.handle) as u64 >> 12 {
            0 => ALWAYS, // not in RAM
            host_page => host_page,
        };
        if plugin.turns.is_some() {
            // It compares and counts by itself.
            sys::qemu_plugin_register_vcpu_insn_exec_cb(
                first.handle,
                Some(callbacks::on_turn),
                QEMU_PLUGIN_CB_R_REGS,
                page as *mut c_void,
            );
        } else {
            sys::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                first.handle,
                Some(callbacks::on_page),
                QEMU_PLUGIN_CB_R_REGS,
                QEMU_PLUGIN_COND_NE,
                plugin.board(offset_of!(Inline, page)),
                page,
                page as *mut c_void,
            );
            if first.repeats.is_none() {
                add(plugin, first, offset_of!(Inline, fetches), 1);
            }
        }
        if last.straddles() {
            sys::qemu_plugin_register_vcpu_insn_exec_cb(
                last.handle,
                Some(callbacks::on_straddle),
                QEMU_PLUGIN_CB_NO_REGS,
                std::ptr::null_mut(),
            );
            if plugin.turns.is_none() {
                add(plugin, last, offset_of!(Inline, fetches), 1);
            }
        }
    }
}

fn add(plugin: &Plugin, insn: &Insn, counter: usize, n: u64) {
    operate(plugin, insn, QEMU_PLUGIN_INLINE_ADD_U64, counter, n);
}

fn operate(plugin: &Plugin, insn: &Insn, op: sys::qemu_plugin_op, member: usize, operand: u64) {
    // SAFETY: the scoreboard lives for ever, the offset is of a u64 in it.
    unsafe {
        sys::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
            insn.handle,
            op,
            plugin.board(member),
            operand,
        );
    }
}

/// Says what runs now: `address`, which may repeat, or [`NOTHING`] that does.
fn set_repeating(plugin: &Plugin, insn: &Insn, address: u64) {
    match plugin.turns {
        // SAFETY: the address travels as the data pointer and is not dereferenced.
        Some(_) => unsafe {
            sys::qemu_plugin_register_vcpu_insn_exec_cb(
                insn.handle,
                Some(callbacks::on_repeating),
                QEMU_PLUGIN_CB_NO_REGS,
                address as *mut c_void,
            );
        },
        None => operate(
            plugin,
            insn,
            QEMU_PLUGIN_INLINE_STORE_U64,
            offset_of!(Inline, repeating),
            address,
        ),
    }
}

/// Counts an instruction that begins a block and lies at `address`, unless it ran last as well.
fn count_once(plugin: &Plugin, insn: &Insn, address: u64) {
    // SAFETY: the address travels as the data pointer and is not dereferenced, the scoreboard
    // lives for ever.
    unsafe {
        match plugin.turns {
            Some(_) => sys::qemu_plugin_register_vcpu_insn_exec_cb(
                insn.handle,
                Some(callbacks::on_repeat_in_turn),
                QEMU_PLUGIN_CB_NO_REGS,
                address as *mut c_void,
            ),
            None => sys::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                insn.handle,
                Some(callbacks::on_repeat),
                QEMU_PLUGIN_CB_NO_REGS,
                QEMU_PLUGIN_COND_NE,
                plugin.board(offset_of!(Inline, repeating)),
                address,
                address as *mut c_void,
            ),
        }
    }
}

/// Counts instructions exactly with few additions: a block can be left early
/// only by an instruction that faults, so one addition does for each run up
/// to and including such an instruction. An event starts a run of its own,
/// because it may change where counts belong. What repeats ends a block, and the block that it
/// begins is that instruction, come back to repeat itself.
fn count_instructions(plugin: &Plugin, insns: &[Insn]) {
    let Some(first) = insns.first() else { return };
    let counted = match first.repeats {
        Some(address) => {
            count_once(plugin, first, address);
            1
        }
        None => {
            if plugin.arch() == Arch::X86_64 {
                set_repeating(plugin, first, NOTHING);
            }
            0
        }
    };
    let mut start = counted;
    for i in counted..insns.len() {
        let next_is_event = insns.get(i + 1).is_none_or(|n| n.event.is_some());
        if insns[i].may_fault || insns[i].event.is_some() || next_is_event {
            let n = i + 1 - start;
            match plugin.turns {
                // SAFETY: the number travels as the data pointer and is not
                // dereferenced.
                Some(_) => unsafe {
                    sys::qemu_plugin_register_vcpu_insn_exec_cb(
                        insns[start].handle,
                        Some(callbacks::on_count),
                        QEMU_PLUGIN_CB_NO_REGS,
                        n as *mut c_void,
                    );
                },
                None => add(
                    plugin,
                    &insns[start],
                    offset_of!(Inline, instructions),
                    n as u64,
                ),
            }
            start = i + 1;
        }
        if let Some(address) = insns[i].repeats {
            set_repeating(plugin, &insns[i], address);
        }
    }
}
