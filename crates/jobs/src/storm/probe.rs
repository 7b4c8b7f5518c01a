// SPDX-License-Identifier: GPL-2.0-only
//! Loads from and calls into text that may be truncated or punched away at any moment.
//!
//! Both are calls of leaf functions. When one faults, the handler returns from it to its caller
//! with [`FAULTED`], so a hole is an answer and not the end of the process.

use anyhow::{Context, Result};
use nix::errno::Errno;
use std::cell::Cell;
use std::ffi::c_void;

/// Returned for what could not be read or executed.
pub const FAULTED: u64 = u64::MAX;

thread_local! {
    /// Whether a fault is expected right now.
    static PROBING: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" {
    /// Loads the word at its argument, by its first instruction.
    fn wideleaf_storm_load(address: u64) -> u64;
}

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".global wideleaf_storm_load",
    "wideleaf_storm_load: ldr x0, [x0]",
    "ret"
);

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".global wideleaf_storm_load",
    "wideleaf_storm_load: mov rax, [rdi]",
    "ret"
);

/// Takes over the signals of bad memory for this process and those it forks.
pub fn install() -> Result<()> {
    for signal in [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL] {
        // SAFETY: all zeroes is a valid sigaction; the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                on_fault as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            Errno::result(libc::sigaction(signal, &action, std::ptr::null_mut()))
        }
        .context("sigaction")?;
    }
    Ok(())
}

/// The word at `address`, which must be mapped or never have been.
pub fn load(address: u64) -> u64 {
    // SAFETY: a fault is handled; the function touches nothing else.
    probing(|| unsafe { wideleaf_storm_load(address) })
}

/// What the function at `address` returns. Only for pages of a storm's file.
pub fn call(address: u64) -> u64 {
    // SAFETY: the page holds a leaf function that only sets the result's register, or zeroes,
    // which fault: arm64's first as undefined, x86-64's as a store through rax, which is 0 or
    // an id, where nothing is mapped.
    probing(|| unsafe { enter(address) })
}

#[cfg(target_arch = "aarch64")]
unsafe fn enter(address: u64) -> u64 {
    let result;
    // SAFETY: as `call` says.
    unsafe {
        std::arch::asm!("blr {f}", f = in(reg) address, out("x0") result, clobber_abi("C"));
    }
    result
}

#[cfg(target_arch = "x86_64")]
unsafe fn enter(address: u64) -> u64 {
    let result;
    // SAFETY: as `call` says.
    unsafe {
        std::arch::asm!("call {f}", f = in(reg) address, inout("rax") 0_u64 => result, clobber_abi("C"));
    }
    result
}

fn probing(run: impl FnOnce() -> u64) -> u64 {
    PROBING.set(true);
    let result = run();
    PROBING.set(false);
    result
}

extern "C" fn on_fault(signal: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    if PROBING.get() {
        // SAFETY: the kernel passes a ucontext_t.
        leave(unsafe { &mut *context.cast::<libc::ucontext_t>() });
    } else {
        // A fault of our own: it comes again, and ends the process.
        // SAFETY: async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Returns from the leaf function that faulted.
#[cfg(target_arch = "aarch64")]
fn leave(context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext;
    registers.pc = registers.regs[30];
    registers.regs[0] = FAULTED;
}

#[cfg(target_arch = "x86_64")]
fn leave(context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    let stack = registers[libc::REG_RSP as usize] as *const i64;
    // SAFETY: the faulting function has pushed nothing, so its return address is on top.
    registers[libc::REG_RIP as usize] = unsafe { stack.read() };
    registers[libc::REG_RSP as usize] += 8;
    registers[libc::REG_RAX as usize] = FAULTED as i64;
}

#[cfg(test)]
mod tests {
    use super::super::page::{PIECE, Piece};
    use super::*;
    use wideleaf_guest::kit::alone::alone;

    #[test]
    fn pages_are_executed_and_read_and_holes_are_answers() {
        alone(|| {
            install().unwrap();
            let piece = Piece {
                file: 2,
                number: 77,
            };
            let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping of three pieces.
            let map =
                unsafe { libc::mmap(std::ptr::null_mut(), 3 * PIECE as usize, prot, flags, -1, 0) };
            assert_ne!(map, libc::MAP_FAILED);
            // SAFETY: the first piece of it, which nobody else uses.
            let page = unsafe { std::slice::from_raw_parts_mut(map.cast::<u8>(), PIECE as usize) };
            piece.write(5, page);
            // SAFETY: as above; the last piece goes away.
            unsafe { libc::munmap(map.wrapping_byte_add(2 * PIECE as usize), PIECE as usize) };
            let at = map as u64;
            assert_eq!(call(at), piece.returned());
            assert_eq!(load(at + 24), piece.word(5));
            assert_eq!(call(at + PIECE), FAULTED);
            assert_eq!(load(at + PIECE), 0);
            assert_eq!(call(at + 2 * PIECE), FAULTED);
            assert_eq!(load(at + 2 * PIECE), FAULTED);
            assert_eq!(call(at), piece.returned());
        });
    }
}
