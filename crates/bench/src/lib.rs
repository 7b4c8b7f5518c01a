// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark: an executable file of return stubs, called cold and at random.
//!
//! [`mod@file`] makes the file, [`options`] say what to do with it, [`exec::run`] does it and
//! [`report`] holds the figures. [`sparse`] is a second benchmark on the same file, of which it
//! executes a part. The same code runs natively and as the lab guest's job; what
//! differs between the two is in [`exec::Surroundings`].

pub mod exec;
pub mod file;
pub mod mapping;
pub mod options;
pub mod perf;
pub mod report;
pub mod sparse;
pub mod sweep;
pub mod system;

/// The base page size in bytes.
#[must_use]
pub fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).expect("the page size is always known")
}
