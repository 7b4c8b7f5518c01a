// SPDX-License-Identifier: GPL-2.0-only
//! The call loops.
//!
//! Written in assembly so that they cost the same whatever the compiler and its options, keep
//! everything in registers, touch no data, and lie in one page: the text under test is the only
//! thing that moves through the TLBs. The stubs only return, so the loops need not save what a
//! real function might clobber.
//!
//! Random targets come from a xorshift64 generator (Marsaglia, "Xorshift RNGs", 2003; shifts
//! 13, 7, 17), whose 64 bits are scaled to a stub number by the high half of a multiplication
//! (Lemire, "Fast random integer generation in an interval", 2019). A table of targets would
//! have cost a data access per call and, at 8 bytes each, its own share of the second-level TLB.
//! Per call, besides call and return: 3 instructions in order, 7 (arm64) or 15 (x86-64) at random.
//!
//! Where only some stubs are called, a list of addresses cannot be avoided. Its loop reads 8 bytes
//! a call, one after the other: what that costs is on the data side, and told apart there.

use std::arch::global_asm;

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.wideleaf_sweep, \"ax\", @progbits",
    // All loops together are shorter than this alignment, so none crosses a page.
    ".p2align 8",
    ".globl wideleaf_sweep_in_order",
    ".hidden wideleaf_sweep_in_order",
    ".type wideleaf_sweep_in_order, @function",
    "wideleaf_sweep_in_order:", // rdi address, rsi stride, rdx count
    "test rdx, rdx",
    "jz 3f",
    "2: call rdi",
    "add rdi, rsi",
    "dec rdx",
    "jnz 2b",
    "3: ret",
    ".p2align 6",
    ".globl wideleaf_sweep_random",
    ".hidden wideleaf_sweep_random",
    ".type wideleaf_sweep_random, @function",
    "wideleaf_sweep_random:", // rdi address, rsi stride, rdx stubs, rcx calls, r8 state
    "mov r9, rdx",
    "test rcx, rcx",
    "jz 3f",
    "2: mov rax, r8",
    "shl rax, 13",
    "xor r8, rax",
    "mov rax, r8",
    "shr rax, 7",
    "xor r8, rax",
    "mov rax, r8",
    "shl rax, 17",
    "xor r8, rax",
    "mov rax, r8",
    "mul r9",
    "imul rdx, rsi",
    "add rdx, rdi",
    "call rdx",
    "dec rcx",
    "jnz 2b",
    "3: mov rax, r8",
    "ret",
    ".p2align 6",
    ".globl wideleaf_sweep_listed",
    ".hidden wideleaf_sweep_listed",
    ".type wideleaf_sweep_listed, @function",
    "wideleaf_sweep_listed:", // rdi list, rsi count
    "test rsi, rsi",
    "jz 3f",
    "2: call [rdi]",
    "add rdi, 8",
    "dec rsi",
    "jnz 2b",
    "3: ret",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.wideleaf_sweep, \"ax\", @progbits",
    // All loops together are shorter than this alignment, so none crosses a page.
    ".p2align 8",
    ".globl wideleaf_sweep_in_order",
    ".hidden wideleaf_sweep_in_order",
    ".type wideleaf_sweep_in_order, @function",
    "wideleaf_sweep_in_order:", // x0 address, x1 stride, x2 count
    "mov x9, x30",
    "cbz x2, 3f",
    "2: blr x0",
    "add x0, x0, x1",
    "subs x2, x2, #1",
    "b.ne 2b",
    "3: ret x9",
    ".p2align 6",
    ".globl wideleaf_sweep_random",
    ".hidden wideleaf_sweep_random",
    ".type wideleaf_sweep_random, @function",
    "wideleaf_sweep_random:", // x0 address, x1 stride, x2 stubs, x3 calls, x4 state
    "mov x9, x30",
    "cbz x3, 3f",
    "2: eor x4, x4, x4, lsl #13",
    "eor x4, x4, x4, lsr #7",
    "eor x4, x4, x4, lsl #17",
    "umulh x10, x4, x2",
    "madd x10, x10, x1, x0",
    "blr x10",
    "subs x3, x3, #1",
    "b.ne 2b",
    "3: mov x0, x4",
    "ret x9",
    ".p2align 6",
    ".globl wideleaf_sweep_listed",
    ".hidden wideleaf_sweep_listed",
    ".type wideleaf_sweep_listed, @function",
    "wideleaf_sweep_listed:", // x0 list, x1 count
    "mov x9, x30",
    "cbz x1, 3f",
    "2: ldr x10, [x0], #8",
    "blr x10",
    "subs x1, x1, #1",
    "b.ne 2b",
    "3: ret x9",
    ".popsection",
);

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the exec benchmark has call loops for aarch64 and x86_64 only");

unsafe extern "C" {
    fn wideleaf_sweep_in_order(address: u64, stride: u64, count: u64);
    fn wideleaf_sweep_random(address: u64, stride: u64, stubs: u64, calls: u64, state: u64) -> u64;
    fn wideleaf_sweep_listed(list: *const u64, count: u64);
}

/// Calls `count` stubs in order of address, `stride` bytes apart.
///
/// # Safety
///
/// Executable memory that holds a return stub must be mapped at each of these addresses.
#[inline]
pub unsafe fn in_order(address: u64, stride: u64, count: u64) {
    // SAFETY: the caller's promise; the loop touches nothing else.
    unsafe { wideleaf_sweep_in_order(address, stride, count) }
}

/// Calls `calls` random ones of `stubs` stubs, `stride` bytes apart. `seed` must not be 0.
/// Returns the generator's state, for [`Targets`] to agree with.
///
/// # Safety
///
/// As for [`in_order`], for all `stubs` addresses.
#[inline]
pub unsafe fn random(address: u64, stride: u64, stubs: u64, calls: u64, seed: u64) -> u64 {
    // SAFETY: the caller's promise; the scaled number is always below `stubs`.
    unsafe { wideleaf_sweep_random(address, stride, stubs, calls, seed) }
}

/// Calls the stubs at these addresses, one after the other.
///
/// # Safety
///
/// As for [`in_order`], for all of `addresses`.
#[inline]
pub unsafe fn listed(addresses: &[u64]) {
    // SAFETY: the caller's promise; the loop reads no further than the slice.
    unsafe { wideleaf_sweep_listed(addresses.as_ptr(), addresses.len() as u64) }
}

/// The same sequence of stub numbers in plain Rust, to say what a seed stands for.
#[derive(Clone, Debug)]
pub struct Targets {
    /// The generator's state, at first the seed.
    pub state: u64,
    stubs: u64,
}

impl Targets {
    /// Numbers below `stubs` from a seed that is not 0.
    #[must_use]
    pub fn new(stubs: u64, seed: u64) -> Self {
        Self { state: seed, stubs }
    }
}

impl Iterator for Targets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Some(((u128::from(self.state) * u128::from(self.stubs)) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::num::NonZeroUsize;
    use std::ptr::NonNull;

    const STRIDE: u64 = 4096;
    const COUNTER_AT: usize = 256;

    /// Stubs that count their calls, 256 bytes behind themselves.
    struct Counting {
        memory: NonNull<libc::c_void>,
        stubs: usize,
    }

    /// Increments the 64-bit word 256 bytes from its own start and returns.
    fn code() -> Vec<u8> {
        if cfg!(target_arch = "x86_64") {
            // inc qword ptr [rip + 249]; ret
            vec![0x48, 0xff, 0x05, 249, 0, 0, 0, 0xc3]
        } else {
            // adr x10, .+256; ldr x11, [x10]; add x11, x11, #1; str x11, [x10]; ret
            [
                0x1000_080a_u32,
                0xf940_014b,
                0x9100_056b,
                0xf900_014b,
                0xd65f_03c0,
            ]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
        }
    }

    impl Counting {
        fn new(stubs: usize) -> Self {
            let len = NonZeroUsize::new(stubs * STRIDE as usize).unwrap();
            let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
            // SAFETY: a new anonymous mapping.
            let memory = unsafe { mmap_anonymous(None, len, prot, MapFlags::MAP_PRIVATE) }.unwrap();
            let new = Self { memory, stubs };
            for stub in 0..stubs {
                let code = code();
                // SAFETY: inside the mapping made above.
                unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), new.at(stub), code.len()) };
            }
            new
        }

        fn at(&self, stub: usize) -> *mut u8 {
            // SAFETY: below `stubs`, so inside the mapping.
            unsafe {
                self.memory
                    .as_ptr()
                    .cast::<u8>()
                    .add(stub * STRIDE as usize)
            }
        }

        fn counts(&self) -> Vec<u64> {
            let count = |stub| {
                // SAFETY: inside the mapping, aligned, and written by this thread only.
                unsafe { self.at(stub).add(COUNTER_AT).cast::<u64>().read_volatile() }
            };
            (0..self.stubs).map(count).collect()
        }

        fn address(&self) -> u64 {
            self.memory.as_ptr() as u64
        }
    }

    impl Drop for Counting {
        fn drop(&mut self) {
            // SAFETY: nobody else knows the mapping.
            unsafe { munmap(self.memory, self.stubs * STRIDE as usize) }.unwrap();
        }
    }

    #[test]
    fn in_order_calls_each_stub_once_and_no_other() {
        let stubs = Counting::new(10);
        // SAFETY: stubs are mapped there.
        unsafe { in_order(stubs.address(), STRIDE, 0) };
        assert_eq!(stubs.counts(), [0; 10]);
        // SAFETY: as above.
        unsafe { in_order(stubs.address(), STRIDE, 9) };
        assert_eq!(stubs.counts(), [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        // SAFETY: as above.
        unsafe { in_order(stubs.address(), 2 * STRIDE, 5) };
        assert_eq!(stubs.counts(), [2, 1, 2, 1, 2, 1, 2, 1, 2, 0]);
    }

    #[test]
    fn listed_calls_what_the_list_says() {
        let stubs = Counting::new(4);
        let addresses = [3, 0, 3].map(|stub: u64| stubs.address() + stub * STRIDE);
        // SAFETY: stubs are mapped there.
        unsafe { listed(&addresses) };
        assert_eq!(stubs.counts(), [1, 0, 0, 2]);
        // SAFETY: nothing is called.
        unsafe { listed(&[]) };
        assert_eq!(stubs.counts(), [1, 0, 0, 2]);
    }

    #[test]
    fn random_calls_what_the_seed_says() {
        for (count, calls, seed) in [(7, 1000, 1), (100, 0, 5), (1, 10, u64::MAX), (64, 5000, 42)] {
            let stubs = Counting::new(count);
            // SAFETY: stubs are mapped there.
            let state = unsafe { random(stubs.address(), STRIDE, count as u64, calls, seed) };
            let mut targets = Targets::new(count as u64, seed);
            let mut expected = vec![0; count];
            for target in targets.by_ref().take(calls as usize) {
                expected[target as usize] += 1;
            }
            assert_eq!(
                stubs.counts(),
                expected,
                "{count} stubs, {calls} calls, seed {seed}"
            );
            assert_eq!(state, targets.state);
        }
    }

    #[test]
    fn every_stub_gets_its_share() {
        let mut counts = vec![0u32; 1000];
        for target in Targets::new(1000, 1).take(1_000_000) {
            counts[target as usize] += 1;
        }
        // Expected 1000 with a standard deviation of 32; six of them.
        assert!(counts.iter().all(|c| (808..1192).contains(c)), "{counts:?}");
    }

    #[test]
    fn all_loops_lie_in_one_page() {
        let start = wideleaf_sweep_in_order as *const () as usize;
        for other in [
            wideleaf_sweep_random as *const () as usize,
            wideleaf_sweep_listed as *const () as usize,
        ] {
            assert!(
                start < other && other + 64 <= start + 256,
                "{start:#x} {other:#x}"
            );
        }
        assert_eq!(start / 4096, (start + 255) / 4096);
    }
}
