// SPDX-License-Identifier: GPL-2.0-only
//! Instructions that do nothing, by which the guest tells the TLB plugin what it is doing.
//!
//! The plugin recognises them by their bytes when QEMU translates a block; real hardware and
//! an emulator without the plugin execute them as no-ops.
//!
//! - arm64: `movz xzr, #(0x5700 | code), lsl #48`. A move to the zero register is an architected
//!   no-op (Arm ARM DDI 0487, MOVZ; register 31 is XZR here), and compilers never emit it.
//! - x86-64: the 7-byte `nopl disp32(%rax)` (Intel SDM volume 2, NOP, `0F 1F /0`) with
//!   `disp32 = 0x574c0000 | code`. It computes no address and touches no memory.

use std::arch::asm;

/// Code of a coverage request; lower ones are phase numbers.
pub const COVERAGE: u8 = 200;

/// The instruction word for a code.
#[cfg(target_arch = "aarch64")]
const fn instruction(code: u8) -> u32 {
    0xd2e0_0000 | (0x5700 | code as u32) << 5 | 31
}

/// The displacement for a code.
#[cfg(target_arch = "x86_64")]
const fn instruction(code: u8) -> u32 {
    0x574c_0000 | code as u32
}

/// Enters phase `PHASE`, 1 to 127.
#[inline(always)]
pub fn enter<const PHASE: u8>() {
    const { assert!(PHASE > 0 && PHASE < 128, "phases are numbered 1 to 127") };
    mark::<PHASE>();
}

/// Leaves whatever phase there is.
#[inline(always)]
pub fn leave() {
    mark::<0>();
}

#[inline(always)]
fn mark<const CODE: u8>() {
    // SAFETY: a no-op by the architecture; see the module's description. Memory counts as
    // clobbered so that the compiler moves no access across the border of a phase.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(".inst {}", const instruction(CODE), options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80", ".long {}", const instruction(CODE),
             options(nostack, preserves_flags));
    }
}

/// Asks for a coverage record of `len` bytes at `start` in this process' address space, to be
/// known as `id`.
#[inline(always)]
pub fn coverage(start: u64, len: u64, id: u64) {
    // SAFETY: a no-op, as above; the plugin only reads the three registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(".inst {}", const instruction(COVERAGE), in("x0") start, in("x1") len, in("x2") id,
             options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80", ".long {}", const instruction(COVERAGE),
             in("rdi") start, in("rsi") len, in("rdx") id, options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    extern "C" fn enter_five() {
        enter::<5>();
    }

    #[inline(never)]
    extern "C" fn ask() -> u64 {
        coverage(0x1000, 0x2000, 7);
        42
    }

    /// Whether the bytes stand within the first ones of a function.
    fn contains(function: *const (), bytes: &[u8]) -> bool {
        // SAFETY: this crate's text is longer than what is read.
        let code = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), 96) };
        code.windows(bytes.len()).any(|window| window == bytes)
    }

    /// As the contract between guest and plugin has it, written out by hand.
    fn bytes(code: u8) -> Vec<u8> {
        if cfg!(target_arch = "aarch64") {
            (0xd2ea_e01f_u32 | u32::from(code) << 5)
                .to_le_bytes()
                .to_vec()
        } else {
            vec![0x0f, 0x1f, 0x80, code, 0x00, 0x4c, 0x57]
        }
    }

    #[test]
    fn a_phase_has_its_bytes_and_does_nothing() {
        enter_five();
        assert!(contains(enter_five as *const (), &bytes(5)));
        assert!(!contains(enter_five as *const (), &bytes(6)));
    }

    #[test]
    fn a_coverage_request_has_its_bytes_and_does_nothing() {
        assert_eq!(ask(), 42);
        assert!(contains(ask as *const (), &bytes(200)));
    }
}
