// SPDX-License-Identifier: GPL-2.0-only
//! The few GLib calls that QEMU's register API needs beyond its own, and thin
//! wrappers. Symbols resolve against the QEMU that loads the plugin, which
//! links GLib.

use crate::disk::Access;
pub use qemu_plugin_sys as sys;
use std::ffi::{CStr, c_char, c_uint};

unsafe extern "C" {
    fn g_byte_array_new() -> *mut sys::GByteArray;
    fn g_byte_array_set_size(array: *mut sys::GByteArray, len: c_uint) -> *mut sys::GByteArray;
    fn g_array_free(array: *mut sys::GArray, free_segment: i32) -> *mut c_char;
}

/// Handle of a register.
pub type Handle = *mut sys::qemu_plugin_register;

/// Names and handles of the current vCPU's registers. Only from a vCPU init
/// callback.
pub fn registers() -> Vec<(String, Handle)> {
    // SAFETY: called in the vCPU's context; the array is ours to free, names
    // are static in QEMU and copied.
    unsafe {
        let array = sys::qemu_plugin_get_registers();
        if array.is_null() {
            return Vec::new();
        }
        let data = (*array).data.cast::<sys::qemu_plugin_reg_descriptor>();
        let all = (0..(*array).len as usize)
            .map(|i| {
                let d = *data.add(i);
                (
                    CStr::from_ptr(d.name).to_string_lossy().into_owned(),
                    d.handle,
                )
            })
            .collect();
        g_array_free(array, 1);
        all
    }
}

/// A buffer that register values are read into, kept so that reading does not
/// allocate.
pub struct RegisterBuffer(*mut sys::GByteArray);

impl RegisterBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        // SAFETY: no preconditions; never freed, one per vCPU.
        RegisterBuffer(unsafe { g_byte_array_new() })
    }

    /// The register's low 64 bits; `None` if QEMU cannot read it. Only from a
    /// callback registered with `QEMU_PLUGIN_CB_R_REGS`.
    pub fn read(&mut self, register: Handle) -> Option<u64> {
        // SAFETY: the buffer is a live GByteArray used by this vCPU only, the
        // handle came from QEMU.
        let bytes = unsafe {
            g_byte_array_set_size(self.0, 0);
            if sys::qemu_plugin_read_register(register, self.0) <= 0 {
                return None;
            }
            std::slice::from_raw_parts((*self.0).data, (*self.0).len as usize)
        };
        let mut word = [0; 8];
        let n = bytes.len().min(8);
        word[..n].copy_from_slice(&bytes[..n]);
        Some(u64::from_le_bytes(word))
    }
}

/// The access, if it was one of 32 bits to a device. Only from a callback for
/// memory, with what it was given.
pub fn device_access(info: sys::qemu_plugin_meminfo_t, va: u64) -> Option<Access> {
    // SAFETY: info and va are the callback's own, and the handle is not kept
    // over it. The union holds 32 bits if the type says so.
    unsafe {
        let at = sys::qemu_plugin_get_hwaddr(info, va);
        if at.is_null() || !sys::qemu_plugin_hwaddr_is_io(at) {
            return None;
        }
        let value = sys::qemu_plugin_mem_get_value(info);
        let is_word = value.type_ == sys::qemu_plugin_mem_value_type::QEMU_PLUGIN_MEM_VALUE_U32;
        is_word.then(|| Access {
            pa: sys::qemu_plugin_hwaddr_phys_addr(at),
            value: value.data.u32_.into(),
            store: sys::qemu_plugin_mem_is_store(info),
        })
    }
}

/// Physical address of the access, if it was to RAM. Only from a callback for
/// memory, with what it was given.
pub fn ram_address(info: sys::qemu_plugin_meminfo_t, va: u64) -> Option<u64> {
    // SAFETY: info and va are the callback's own, and the handle is not kept
    // over it.
    unsafe {
        let at = sys::qemu_plugin_get_hwaddr(info, va);
        let found = !at.is_null() && !sys::qemu_plugin_hwaddr_is_io(at);
        found.then(|| sys::qemu_plugin_hwaddr_phys_addr(at))
    }
}
