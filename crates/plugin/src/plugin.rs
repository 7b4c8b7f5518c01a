// SPDX-License-Identifier: GPL-2.0-only
//! Installation, global state, and the callbacks that QEMU calls.

use crate::args::{self, Args};
use crate::disk::{self, Disks};
use crate::ffi::sys;
use crate::ram::Ram;
use crate::registers::Registers;
use crate::vcpu::{Event, Inline, Mail, NO_PAGE, Vcpu};
use crate::{ffi, output, translate};
use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use wideleaf_tlb::core::{Core, Mmu, Side};
use wideleaf_tlb::profile::Arch;
use wideleaf_tlb::report::{Coverage, Report, SCHEMA};
use wideleaf_tlb::{arm64, x86};

/// Most vCPUs that are modelled.
const MAX_VCPUS: usize = 64;

/// What exists once.
pub struct Plugin {
    args: Args,
    arch: Arch,
    /// More than one vCPU: mail must be looked for.
    smp: bool,
    board: *mut sys::qemu_plugin_scoreboard,
    ram: OnceLock<&'static Ram>,
    coverage: Mutex<Vec<Coverage>>,
    events: Mutex<HashSet<&'static Event>>,
    disks: Mutex<Disks>,
    mailboxes: [Mailbox; MAX_VCPUS],
}

// SAFETY: the scoreboard pointer is only handed to QEMU, whose functions may
// be called from any vCPU thread; everything else is Sync by itself.
unsafe impl Sync for Plugin {}
// SAFETY: as above.
unsafe impl Send for Plugin {}

#[derive(Default)]
struct Mailbox {
    pending: AtomicBool,
    mail: Mutex<Vec<Mail>>,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Each entry is used by its vCPU's thread only, and by the exit callback
/// after the vCPUs have stopped.
static VCPUS: [AtomicPtr<Vcpu>; MAX_VCPUS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_VCPUS];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plugin {
    /// Instruction set of the guest.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The `u64` at `offset` of the scoreboard's entries.
    pub fn board(&self, offset: usize) -> sys::qemu_plugin_u64 {
        sys::qemu_plugin_u64 {
            score: self.board,
            offset,
        }
    }

    /// What `vcpu`'s code counts by itself. Looked up each time, because QEMU
    /// moves the scoreboard when vCPUs are added.
    #[expect(
        clippy::mut_from_ref,
        reason = "memory of QEMU's, used by one vCPU thread"
    )]
    pub fn inline(&self, vcpu: u32) -> &mut Inline {
        // SAFETY: the entry exists for every initialised vCPU, has the size of
        // Inline, and no reference to it is kept over a call.
        unsafe { &mut *sys::qemu_plugin_scoreboard_find(self.board, vcpu).cast::<Inline>() }
    }

    /// A copy of `event` that lives for ever; equal events share one.
    pub fn intern(&self, event: Event) -> &'static Event {
        let mut events = lock(&self.events);
        if let Some(known) = events.get(&event) {
            return known;
        }
        let new: &'static Event = Box::leak(Box::new(event));
        events.insert(new);
        new
    }

    /// Appends a coverage record.
    pub fn add_coverage(&self, coverage: Coverage) {
        lock(&self.coverage).push(coverage);
    }

    /// Sends `mail` to all vCPUs but `from`.
    pub fn tell_others(&self, from: u32, mail: Mail) {
        if !self.smp {
            return;
        }
        for (i, mailbox) in self.mailboxes.iter().enumerate() {
            let running = !VCPUS[i].load(Relaxed).is_null();
            if running && i != from as usize {
                lock(&mailbox.mail).push(mail);
                mailbox.pending.store(true, Release);
            }
        }
    }

    /// Takes the mail for `vcpu`.
    pub fn mail(&self, vcpu: u32) -> Vec<Mail> {
        let mailbox = &self.mailboxes[vcpu as usize];
        if !self.smp || !mailbox.pending.swap(false, Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&mailbox.mail))
    }

    fn ram(&self) -> Result<&'static Ram, String> {
        if let Some(ram) = self.ram.get() {
            return Ok(ram);
        }
        let ram = Ram::map(&self.args.ram, self.args.ram_base, self.arch)?;
        Ok(self.ram.get_or_init(|| Box::leak(Box::new(ram))))
    }

    fn start_vcpu(&self, index: u32) -> Result<(), String> {
        let Some(slot) = VCPUS.get(index as usize) else {
            return Err(format!("vCPU {index}: at most {MAX_VCPUS} are modelled"));
        };
        if !slot.load(Relaxed).is_null() {
            return Ok(());
        }
        let registers = Registers::find(self.arch)?;
        // Translation off until the first block reads the registers.
        let mmu = match self.arch {
            Arch::Arm64 => Mmu::Arm64(arm64::Mmu::new(arm64::Regs::default())),
            Arch::X86_64 => Mmu::X86(x86::Mmu::new(x86::Regs::default())),
        };
        let core = Core::new(self.args.profile, self.ram()?, mmu);
        self.inline(index).page = NO_PAGE;
        let vcpu = Box::new(Vcpu::new(core, registers, index));
        slot.store(Box::into_raw(vcpu), Release);
        Ok(())
    }

    fn report(&self) -> Report {
        let mut report = Report {
            schema: SCHEMA,
            profile: self.args.profile.into(),
            coverage: std::mem::take(&mut *lock(&self.coverage)),
            ..Report::default()
        };
        for (i, slot) in VCPUS.iter().enumerate() {
            // SAFETY: the vCPUs have stopped.
            let Some(vcpu) = (unsafe { slot.load(Relaxed).as_mut() }) else {
                continue;
            };
            vcpu.settle(self);
            report.vcpus += 1;
            report.add_phases(vcpu.core.phases());
            warn(&mut report.warnings, i, vcpu);
        }
        if self.smp {
            let text = "more than one vCPU: counts do not repeat exactly";
            report.warnings.push(text.to_owned());
        }
        if let late @ 1.. = lock(&self.disks).late {
            report.warnings.push(format!(
                "{late} times the disk did not answer in time: instructions repeat less well"
            ));
        }
        report
    }
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
            "vCPU {index}: {n} markers with a code that is neither a phase (0 to 127) nor 200"
        ));
    }
}

/// The plugin and the vCPU that a callback is for.
fn current(index: c_uint) -> Option<(&'static Plugin, &'static mut Vcpu)> {
    let vcpu = VCPUS.get(index as usize)?.load(Relaxed);
    // SAFETY: set once to a leaked box; only this vCPU's thread, which runs
    // one callback at a time, turns it into a reference.
    Some((PLUGIN.get()?, unsafe { vcpu.as_mut()? }))
}

/// A block begins in another page than the last; `page` is its [`Inline::page`].
pub unsafe extern "C" fn on_page(index: c_uint, page: *mut c_void) {
    if let Some((plugin, vcpu)) = current(index) {
        vcpu.enter_block(plugin, page as u64);
    }
}

/// An instruction that reaches into the next page begins.
pub unsafe extern "C" fn on_straddle(index: c_uint, _: *mut c_void) {
    if let Some((plugin, vcpu)) = current(index) {
        vcpu.enter_next_page(plugin);
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
    _: *mut c_void,
) {
    let Some((plugin, vcpu)) = current(index) else {
        return;
    };
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
        && let Some(&ram) = plugin.ram.get()
    {
        lock(&plugin.disks).access(access, ram);
    }
}

unsafe extern "C" fn on_vcpu_init(_: sys::qemu_plugin_id_t, index: c_uint) {
    let started = PLUGIN.get().map(|p| p.start_vcpu(index));
    if let Some(Err(e)) = started {
        // Nothing to return an error to, and counts without this vCPU would
        // be wrong.
        eprintln!("wideleaf-plugin: {e}");
        std::process::exit(1);
    }
}

unsafe extern "C" fn on_translate(_: sys::qemu_plugin_id_t, tb: *mut sys::qemu_plugin_tb) {
    if let Some(plugin) = PLUGIN.get() {
        translate::block(plugin, tb);
    }
}

unsafe extern "C" fn on_exit(_: sys::qemu_plugin_id_t, _: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // Without a vCPU nothing ran; a report of zeros would look like a result.
    if VCPUS[0].load(Relaxed).is_null() {
        return;
    }
    if let Err(e) = output::write(&plugin.args.out, &plugin.report()) {
        eprintln!("wideleaf-plugin: {e}");
    }
}

/// Called by QEMU when it loads the plugin. Returns 0, or -1 after a message.
///
/// # Safety
///
/// `info` and `argv` must be what QEMU's plugin loader passes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: sys::qemu_plugin_id_t,
    info: *const sys::qemu_info_t,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as promised by the caller.
    let prepared = unsafe { prepare(&*info, argc, argv) };
    if let Err(e) = prepared {
        eprintln!("wideleaf-plugin: {e}");
        return -1;
    }
    // SAFETY: the id is the one given; the callbacks have the right types.
    unsafe {
        sys::qemu_plugin_register_vcpu_init_cb(id, Some(on_vcpu_init));
        sys::qemu_plugin_register_vcpu_tb_trans_cb(id, Some(on_translate));
        sys::qemu_plugin_register_atexit_cb(id, Some(on_exit), std::ptr::null_mut());
    }
    0
}

/// Makes [`PLUGIN`].
///
/// # Safety
///
/// `argv` must point to `argc` C strings.
unsafe fn prepare(
    info: &sys::qemu_info_t,
    argc: c_int,
    argv: *const *const c_char,
) -> Result<(), String> {
    if !info.system_emulation {
        return Err("made for system emulation (qemu-system-*), not for user mode".into());
    }
    // SAFETY: both are C strings as promised by the caller.
    let (target, strings) = unsafe {
        let strings: Vec<String> = (0..argc as usize)
            .map(|i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned())
            .collect();
        (CStr::from_ptr(info.target_name).to_string_lossy(), strings)
    };
    let arch = Arch::from_qemu_target(&target)
        .ok_or_else(|| format!("guest architecture {target}: only aarch64 and x86_64"))?;
    let args = args::parse(arch, strings.iter().map(String::as_str))?;
    // SAFETY: system emulation was checked; no other preconditions.
    let (vcpus, board) = unsafe {
        (
            info.__bindgen_anon_1.system.max_vcpus,
            sys::qemu_plugin_scoreboard_new(size_of::<Inline>()),
        )
    };
    let plugin = Plugin {
        args,
        arch,
        smp: vcpus > 1,
        board,
        ram: OnceLock::new(),
        coverage: Mutex::default(),
        events: Mutex::default(),
        disks: Mutex::default(),
        mailboxes: std::array::from_fn(|_| Mailbox::default()),
    };
    PLUGIN.set(plugin).map_err(|_| "loaded twice".to_owned())
}
