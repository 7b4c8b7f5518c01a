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

use std::arch::{asm, global_asm};

/// Code of a coverage request; those below 128 are phase numbers.
pub const COVERAGE: u8 = 200;

/// Code that names the function whose calls are counted.
const FUNCTION: u8 = 201;

/// Code that begins or ends the record of pages executed from.
const RECORD: u8 = 202;

/// Code that asks which pages of a range are in that record.
const IDENTIFY: u8 = 203;

/// Bytes from one phase's function to the next one's, on both architectures.
const STEP: usize = 8;

// A function for each phase number and for 0, which leaves: the marker, then a return. All lie in
// one page, so that leaving has brought in what entering needs.
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.wideleaf_marker, \"ax\", @progbits",
    ".p2align 10",
    ".globl wideleaf_marker_phases",
    ".hidden wideleaf_marker_phases",
    ".type wideleaf_marker_phases, @function",
    "wideleaf_marker_phases:",
    ".set wideleaf_marker_phase, 0",
    ".rept 128",
    ".inst 0xd2eae01f | (wideleaf_marker_phase << 5)",
    "ret",
    ".set wideleaf_marker_phase, wideleaf_marker_phase + 1",
    ".endr",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.wideleaf_marker, \"ax\", @progbits",
    ".p2align 10",
    ".globl wideleaf_marker_phases",
    ".hidden wideleaf_marker_phases",
    ".type wideleaf_marker_phases, @function",
    "wideleaf_marker_phases:",
    ".set wideleaf_marker_phase, 0",
    ".rept 128",
    ".byte 0x0f, 0x1f, 0x80",
    ".long 0x574c0000 + wideleaf_marker_phase",
    "ret",
    ".set wideleaf_marker_phase, wideleaf_marker_phase + 1",
    ".endr",
    ".popsection",
);

unsafe extern "C" {
    fn wideleaf_marker_phases();
}

/// Enters phase `phase`, 1 to 127.
#[inline(always)]
pub fn enter(phase: u8) {
    assert!(phase > 0 && phase < 128, "phases are numbered 1 to 127");
    mark(phase);
}

/// Leaves whatever phase there is.
#[inline(always)]
pub fn leave() {
    mark(0);
}

#[inline(always)]
fn mark(phase: u8) {
    let start = wideleaf_marker_phases as *const () as usize + usize::from(phase) * STEP;
    // SAFETY: the phase's own function begins there; it does nothing.
    unsafe { std::mem::transmute::<usize, extern "C" fn()>(start)() }
}

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

/// The code of a coverage request and of a breakpoint after it, for another process to run.
#[must_use]
pub fn coverage_code() -> Vec<u8> {
    #[cfg(target_arch = "aarch64")]
    let code = [instruction(COVERAGE), BRK].map(u32::to_le_bytes).concat();
    #[cfg(target_arch = "x86_64")]
    let code = {
        let mut code = vec![0x0f, 0x1f, 0x80];
        code.extend(instruction(COVERAGE).to_le_bytes());
        code.push(INT3);
        code
    };
    code
}

#[cfg(target_arch = "aarch64")]
const BRK: u32 = 0xd420_0000;

#[cfg(target_arch = "x86_64")]
const INT3: u8 = 0xcc;

/// The instruction for a code, with what the plugin is to read.
#[inline(always)]
fn tell<const CODE: u8>(arguments: [u64; 3]) {
    let [first, second, third] = arguments;
    // SAFETY: a no-op, as above; the plugin only reads the three registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(".inst {}", const instruction(CODE), in("x0") first, in("x1") second, in("x2") third,
             options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80", ".long {}", const instruction(CODE),
             in("rdi") first, in("rsi") second, in("rdx") third, options(nostack, preserves_flags));
    }
}

/// Asks for a coverage record of `len` bytes at `start` in this process' address space, to be
/// known as `id`.
#[inline(always)]
pub fn coverage(start: u64, len: u64, id: u64) {
    tell::<COVERAGE>([start, len, id]);
}

/// Has the calls of the kernel's function at `address` counted from now on, and of no other.
#[inline(always)]
pub fn count_calls(address: u64) {
    tell::<FUNCTION>([address, 0, 0]);
}

/// Begins a record of the pages of memory that user mode executes from, in the order of their
/// first fetch; what was recorded before is forgotten.
#[inline(always)]
pub fn begin_record() {
    tell::<RECORD>([1, 0, 0]);
}

/// Ends the record.
#[inline(always)]
pub fn end_record() {
    tell::<RECORD>([0, 0, 0]);
}

/// Asks which pages of `len` bytes at `start` in this process' address space are in the record; the
/// answer is to be known as `id`.
#[inline(always)]
pub fn identify(start: u64, len: u64, id: u64) {
    tell::<IDENTIFY>([start, len, id]);
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn each_phase_has_its_bytes_and_does_nothing() {
        let first = wideleaf_marker_phases as *const u8;
        for phase in 0..128_u8 {
            mark(phase);
            // SAFETY: inside the table of functions.
            let code =
                unsafe { std::slice::from_raw_parts(first.add(usize::from(phase) * STEP), STEP) };
            assert!(code.starts_with(&bytes(phase)), "{phase}: {code:x?}");
        }
        assert_eq!(first as usize % 1024, 0);
    }

    #[test]
    #[should_panic = "1 to 127"]
    fn phase_0_is_for_leaving() {
        enter(0);
    }

    #[inline(never)]
    extern "C" fn name() -> u64 {
        count_calls(0x1000);
        43
    }

    #[test]
    fn a_function_is_named_by_its_bytes_and_nothing_is_done() {
        assert_eq!(name(), 43);
        assert!(contains(name as *const (), &bytes(201)));
    }

    #[inline(never)]
    extern "C" fn record() -> u64 {
        begin_record();
        44
    }

    #[inline(never)]
    extern "C" fn name_pages() -> u64 {
        identify(0x1000, 0x2000, 8);
        45
    }

    #[test]
    fn a_record_is_asked_for_by_its_bytes_and_nothing_is_done() {
        assert_eq!((record(), name_pages()), (44, 45));
        assert!(contains(record as *const (), &bytes(202)));
        assert!(contains(name_pages as *const (), &bytes(203)));
    }

    #[test]
    fn a_coverage_request_has_its_bytes_and_does_nothing() {
        assert_eq!(ask(), 42);
        assert!(contains(ask as *const (), &bytes(200)));
    }
}
