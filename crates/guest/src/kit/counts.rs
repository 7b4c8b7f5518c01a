// SPDX-License-Identifier: GPL-2.0-only
//! Numbers that a process and those that it forks count together.

use crate::kit::mapping::{Mapping, RW};
use anyhow::Result;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Some numbers, 0 at first. Each has a place, which a job's own enumeration names.
#[derive(Clone, Copy, Debug)]
pub struct Counts(&'static [AtomicU64]);

impl Counts {
    /// So many.
    pub fn new(number: usize) -> Result<Self> {
        let len = number * size_of::<AtomicU64>();
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let start = Mapping::new(None, len as u64, RW, flags, None)?.start;
        // SAFETY: zeroes, aligned to a page, never unmapped.
        let all = unsafe { std::slice::from_raw_parts(start as *const AtomicU64, number) };
        Ok(Self(all))
    }

    /// One of them.
    #[must_use]
    pub fn get(self, what: impl Into<usize>) -> u64 {
        self.0[what.into()].load(Relaxed)
    }

    /// Makes it `value`.
    pub fn set(self, what: impl Into<usize>, value: u64) {
        self.0[what.into()].store(value, Relaxed);
    }

    /// Makes it more.
    pub fn add(self, what: impl Into<usize>, by: u64) {
        self.0[what.into()].fetch_add(by, Relaxed);
    }

    /// Makes it `value` if it is less.
    pub fn most(self, what: impl Into<usize>, value: u64) {
        self.0[what.into()].fetch_max(value, Relaxed);
    }
}
