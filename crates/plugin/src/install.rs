// SPDX-License-Identifier: GPL-2.0-only
//! Installation: what QEMU calls when it loads the plugin, starts a vCPU,
//! translates a block and ends.

use crate::callbacks::{PLUGIN, final_report, start_vcpu};
use crate::ffi::sys;
use crate::inline::Inline;
use crate::plugin::Plugin;
use crate::{args, output, translate};
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use wideleaf_kit::arch::Arch;

unsafe extern "C" fn on_vcpu_init(_: sys::qemu_plugin_id_t, index: c_uint) {
    let started = PLUGIN.get().map(|plugin| start_vcpu(plugin, index));
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
    let Some(report) = final_report(plugin) else {
        return;
    };
    if let Err(e) = output::write(&plugin.args.out, &report) {
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

/// Makes [`PLUGIN`] be there.
///
/// # Safety
///
/// `argv` must point to `argc` C strings.
unsafe fn prepare(info: &sys::qemu_info_t, argc: c_int, argv: *const *const c_char) -> Result<()> {
    if !info.system_emulation {
        bail!("made for system emulation (qemu-system-*), not for user mode");
    }
    // SAFETY: both are C strings as promised by the caller.
    let (target, strings) = unsafe {
        let strings: Vec<String> = (0..argc as usize)
            .map(|i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned())
            .collect();
        (CStr::from_ptr(info.target_name).to_string_lossy(), strings)
    };
    let arch = Arch::of_machine(&target)
        .with_context(|| format!("guest architecture {target}: only aarch64 and x86_64"))?;
    let args = args::parse(arch, strings.iter().map(String::as_str))?;
    // SAFETY: system emulation was checked; no other preconditions.
    let (vcpus, board) = unsafe {
        (
            info.__bindgen_anon_1.system.max_vcpus,
            sys::qemu_plugin_scoreboard_new(size_of::<Inline>()),
        )
    };
    let plugin = Plugin::new(args, arch, vcpus, board);
    PLUGIN.set(plugin).map_err(|_| anyhow!("loaded twice"))
}
