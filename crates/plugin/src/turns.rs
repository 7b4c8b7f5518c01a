// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPU runs, where several take turns in one thread.
//!
//! Callbacks are given the vCPU's number, and inline counters find their place
//! by it. QEMU 10.0 takes that number for a constant in the code that it
//! translates when vCPUs do not run at the same time (`gen_cpu_index()` in
//! `accel/tcg/plugin-gen.c`): blocks are shared by all vCPUs, so it is that of
//! whoever ran a block first, and an inline operation in a block of any but
//! vCPU 0 overwrites what the compiler takes for the constant and breaks the
//! guest. So in turns nothing is counted inline, and the numbers of callbacks
//! are not looked at. Each block begins with a callback that knows its vCPU by
//! the address of QEMU's state of it, which translated code keeps in one
//! register of the host (`TCG_AREG0`); within a block the vCPU stays.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Most vCPUs that are modelled.
pub const MAX_VCPUS: usize = 64;

/// Who runs.
#[derive(Debug)]
pub struct Turns {
    current: AtomicU32,
    /// Where QEMU keeps the state of each vCPU; 0: it has not run yet.
    states: [AtomicUsize; MAX_VCPUS],
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            current: AtomicU32::new(0),
            states: [const { AtomicUsize::new(0) }; MAX_VCPUS],
        }
    }
}

impl Turns {
    /// The vCPU whose turn it is.
    #[inline]
    pub fn current(&self) -> u32 {
        self.current.load(Relaxed)
    }

    /// The vCPU with its state at `state` goes on. They are numbered in the
    /// order in which they first run, as Linux starts them.
    #[inline]
    pub fn take(&self, state: usize) -> u32 {
        let current = self.current();
        if self.states[current as usize].load(Relaxed) == state {
            return current;
        }
        let known = |slot: &AtomicUsize| [0, state].contains(&slot.load(Relaxed));
        let Some(next) = self.states.iter().position(known) else {
            return current;
        };
        self.states[next].store(state, Relaxed);
        self.current.store(next as u32, Relaxed);
        next as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpus_are_known_by_where_their_state_is() {
        let turns = Turns::default();
        assert_eq!(turns.current(), 0);
        let order = [0x5000, 0x5000, 0x9000, 0x5000, 0x7000, 0x9000];
        let taken: Vec<u32> = order.map(|state| turns.take(state)).into();
        assert_eq!(taken, [0, 0, 1, 0, 2, 1]);
        assert_eq!(turns.current(), 1);
    }
}
