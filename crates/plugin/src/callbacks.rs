// SPDX-License-Identifier: GPL-2.0-only
//! What QEMU calls while the guest runs, and the vCPUs that it is about.

use crate::event::Event;
use crate::ffi::sys;
use crate::inline::NO_PAGE;
use crate::plugin::Plugin;
use crate::registers::Registers;
use crate::turns::{MAX_VCPUS, Turns};
use crate::vcpu::Vcpu;
use crate::watch::Watch;
use crate::{disk, ffi};
use anyhow::{Result, bail};
use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed, Ordering::Release};
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::mmu::Mmu;
use wideleaf_tlb::model::{Core, Side};
use wideleaf_tlb::report::{Cpu, Report, SCHEMA};
use wideleaf_tlb::{arm64, x86};

/// The plugin, once it is installed.
pub static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Each entry is used by its vCPU's thread only, and by the exit callback
/// after the vCPUs have stopped.
static VCPUS: [AtomicPtr<Vcpu>; MAX_VCPUS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_VCPUS];

/// Makes the model of a vCPU.
///
/// # Errors
///
/// If there are too many, or what it needs is not there.
pub fn start_vcpu(plugin: &Plugin, index: u32) -> Result<()> {
    let Some(slot) = VCPUS.get(index as usize) else {
        bail!("vCPU {index}: at most {MAX_VCPUS} are modelled");
    };
    if !slot.load(Relaxed).is_null() {
        return Ok(());
    }
    let registers = Registers::find(plugin.arch())?;
    // Translation off until the first block reads the registers.
    let mmu = match plugin.arch() {
        Arch::Arm64 => Mmu::Arm64(arm64::Mmu::new(arm64::Regs::default())),
        Arch::X86_64 => Mmu::X86(x86::Mmu::new(x86::Regs::default())),
    };
    let profile = plugin.args.profile;
    let variants = plugin.args.sweep.clone();
    let core = Core::with_variants(profile, variants, plugin.ram()?, mmu);
    plugin.inline(index).page = NO_PAGE;
    let vcpu = Box::new(Vcpu::new(core, registers, index));
    slot.store(Box::into_raw(vcpu), Release);
    plugin.open_mailbox(index as usize);
    plugin.note_thread();
    Ok(())
}

/// What was counted; `None` if there was no vCPU, for a report of zeros would
/// look like a result. To be called when the vCPUs have stopped.
pub fn final_report(plugin: &Plugin) -> Option<Report> {
    let ran = !VCPUS[0].load(Relaxed).is_null();
    ran.then(|| report(plugin))
}

/// What all vCPUs counted. They must have stopped.
fn report(plugin: &Plugin) -> Report {
    let mut report = Report {
        schema: SCHEMA,
        profile: plugin.args.profile.into(),
        coverage: plugin.take_coverage(),
        touched: plugin.touches.take(),
        ..Report::default()
    };
    for (i, slot) in VCPUS.iter().enumerate() {
        // SAFETY: the vCPUs have stopped.
        let Some(vcpu) = (unsafe { slot.load(Relaxed).as_mut() }) else {
            continue;
        };
        vcpu.settle(plugin);
        report.vcpus += 1;
        let phases = vcpu.core.phases();
        report.add_phases(phases.clone());
        report.add_models(vcpu.core.models());
        report.cpus.push(Cpu {
            cpu: i as u32,
            phases,
        });
        warn(&mut report.warnings, i, vcpu);
    }
    report.referee = plugin.referee.as_ref().map(Watch::findings);
    if report.cpus.len() == 1 {
        report.cpus.clear();
    }
    if plugin.smp && plugin.runs_at_once() {
        let text = "vCPUs run at the same time: counts do not repeat, and the order of what \
                    they do is not known (-accel tcg,thread=single)";
        report.warnings.push(text.to_owned());
    }
    if let late @ 1.. = plugin.late_answers() {
        report.warnings.push(format!(
            "{late} times the disk did not answer in time: instructions repeat less well"
        ));
    }
    report
}

fn warn(warnings: &mut Vec<String>, index: usize, vcpu: &Vcpu) {
    if let (n, Some(first)) = vcpu.core.failed_walks() {
        warnings.push(format!(
            "vCPU {index}: {n} walks found no translation for accesses that succeeded, \
             counted as leaf \"none\"; the first: {first:x?}"
        ));
    }
    if vcpu.unknown_markers != 0 {
        let n = vcpu.unknown_markers;
        warnings.push(format!(
            "vCPU {index}: {n} markers with a code that is neither a phase (0 to 127) nor 200 to 203"
        ));
    }
}

/// The plugin and the vCPU that a callback is for.
fn current(index: c_uint) -> Option<(&'static Plugin, &'static mut Vcpu)> {
    let plugin = PLUGIN.get()?;
    let index = plugin.turns.as_ref().map_or(index, Turns::current);
    let vcpu = VCPUS.get(index as usize)?.load(Relaxed);
    // SAFETY: set once to a leaked box; only this vCPU's thread, which runs
    // one callback at a time, turns it into a reference.
    Some((plugin, unsafe { vcpu.as_mut()? }))
}

/// A block begins, and vCPUs take turns: [`on_block`] with the host's register
/// that points to QEMU's state of the vCPU.
#[unsafe(naked)]
pub unsafe extern "C" fn on_turn(index: c_uint, page: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("mov rdx, rbp", "jmp {}", sym on_block);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("mov x2, x19", "b {}", sym on_block);
}

/// A block begins; `page` as in [`on_page`], `state` as in [`Turns::take`].
unsafe extern "C" fn on_block(_: c_uint, page: *mut c_void, state: usize) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(turns) = &plugin.turns else { return };
    let index = turns.take(state);
    if plugin.inline(index).page != page as u64
        && let Some((plugin, vcpu)) = current(index)
    {
        vcpu.enter_block(plugin, page as u64);
    }
    plugin.inline(index).fetches += 1;
}

/// So many instructions begin, and vCPUs take turns.
pub unsafe extern "C" fn on_count(_: c_uint, instructions: *mut c_void) {
    if let Some(plugin) = PLUGIN.get()
        && let Some(turns) = &plugin.turns
    {
        plugin.inline(turns.current()).instructions += instructions as u64;
    }
}

/// The instruction at `address` runs for the first time, or again after others.
pub unsafe extern "C" fn on_repeat(index: c_uint, address: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    let inline = plugin.inline(index);
    inline.repeating = address as u64;
    inline.instructions += 1;
    inline.fetches += 1;
}

/// The instruction at `address` runs, and vCPUs take turns: [`on_block`] has counted its block.
pub unsafe extern "C" fn on_repeat_in_turn(_: c_uint, address: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(turns) = &plugin.turns else { return };
    let inline = plugin.inline(turns.current());
    if inline.repeating == address as u64 {
        inline.fetches -= 1;
    } else {
        inline.repeating = address as u64;
        inline.instructions += 1;
    }
}

/// What runs now is `address`, an [`crate::inline::Inline::repeating`], and vCPUs take turns.
pub unsafe extern "C" fn on_repeating(_: c_uint, address: *mut c_void) {
    if let Some(plugin) = PLUGIN.get()
        && let Some(turns) = &plugin.turns
    {
        plugin.inline(turns.current()).repeating = address as u64;
    }
}

/// A block begins in another page than the last; `page` is its `Inline::page`.
pub unsafe extern "C" fn on_page(index: c_uint, page: *mut c_void) {
    if let Some((plugin, vcpu)) = current(index) {
        vcpu.enter_block(plugin, page as u64);
    }
}

/// An instruction that reaches into the next page begins.
pub unsafe extern "C" fn on_straddle(index: c_uint, _: *mut c_void) {
    if let Some((plugin, vcpu)) = current(index) {
        vcpu.enter_next_page(plugin);
        if let Some(turns) = &plugin.turns {
            plugin.inline(turns.current()).fetches += 1;
        }
    }
}

/// An instruction of interest begins; `event` is an [`Event`].
pub unsafe extern "C" fn on_event(index: c_uint, event: *mut c_void) {
    if let Some((plugin, vcpu)) = current(index) {
        // SAFETY: registered with a leaked Event.
        vcpu.event(plugin, unsafe { &*event.cast::<Event>() });
    }
}

/// Accesses this close to a page's end may cross it: QEMU makes none wider.
const WIDEST: u64 = 64;

/// A load or store has completed.
pub unsafe extern "C" fn on_access(
    index: c_uint,
    info: sys::qemu_plugin_meminfo_t,
    va: u64,
    pc: *mut c_void,
) {
    let Some((plugin, vcpu)) = current(index) else {
        return;
    };
    if let Some(watch) = &plugin.referee {
        vcpu.watch_access(watch, info, va, pc as u64);
    }
    if plugin.smp {
        vcpu.take_mail(plugin);
    }
    if va & 0xfff <= 0x1000 - WIDEST {
        vcpu.core.access(Side::Data, va);
    } else {
        // SAFETY: info is QEMU's own.
        let shift = unsafe { sys::qemu_plugin_mem_size_shift(info) };
        vcpu.core.access_bytes(Side::Data, va, 1 << shift);
    }
    if disk::may_be_register(va)
        && let Some(access) = ffi::device_access(info, va)
    {
        plugin.disk_access(access);
    }
}
