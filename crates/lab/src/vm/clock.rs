// SPDX-License-Identifier: GPL-2.0-only
//! How fast the time-stamp counter of an emulated x86-64 CPU counts.
//!
//! Without `-icount`, QEMU's RDTSC gives the host's counter (`cpu_get_host_ticks()`). The machine
//! `microvm` has nothing that the kernel could hold it against but the PIT, and with that it fails
//! on a busy host. It then counts timer interrupts, most of which get lost there: in 20 minutes of
//! a storm beside kernel builds the guest's clock went 166 s. Told the frequency alone, it still
//! holds the counter against these interrupts, and so calls it unstable.

use std::sync::LazyLock;

/// Kernel parameters that tell the frequency in virtual time, in which RDTSC counts nanoseconds
/// (QEMU's `icount_get()`), and to trust it; behind a blank.
pub const VIRTUAL: &str = " tsc_early_khz=1000000 tsc=reliable";

/// Kernel parameters that tell the counter's frequency, and to trust it, each behind a blank; empty
/// where this host has none to measure. Takes 60 ms, once.
pub fn parameters() -> &'static str {
    static PARAMETERS: LazyLock<String> = LazyLock::new(|| {
        khz().map_or_else(String::new, |khz| {
            format!(" tsc_early_khz={khz} tsc=reliable")
        })
    });
    &PARAMETERS
}

/// The host's counter in kHz, the middle one of three tries: whoever is interrupted between the
/// two clocks sees another.
#[cfg(target_arch = "x86_64")]
fn khz() -> Option<u64> {
    let mut tries = [(); 3].map(|()| once());
    tries.sort_unstable();
    Some(tries[1])
}

#[cfg(target_arch = "x86_64")]
fn once() -> u64 {
    use std::time::{Duration, Instant};

    let (begin, from) = (Instant::now(), counter());
    std::thread::sleep(Duration::from_millis(20));
    let (took, to) = (begin.elapsed(), counter());
    let khz = u128::from(to - from) * 1_000_000 / took.as_nanos();
    u64::try_from(khz).unwrap_or(u64::MAX)
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: RDTSC needs nothing; Linux never takes it from user space (PR_SET_TSC aside).
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn khz() -> Option<u64> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_second_look_finds_the_same_frequency() {
        let (one, two) = (khz().unwrap(), khz().unwrap());
        // AMD64 machines count by 1 to 5 GHz.
        assert!((500_000..10_000_000).contains(&one), "{one} kHz");
        assert!(one.abs_diff(two) < one / 20, "{one} and {two} kHz");
        assert_eq!(parameters().split('=').next(), Some(" tsc_early_khz"));
    }
}
