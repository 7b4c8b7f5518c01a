// SPDX-License-Identifier: GPL-2.0-only
//! What translated code counts and compares without calling the plugin.

/// What translated code keeps by itself, without calling the plugin: an entry
/// of QEMU's scoreboard.
#[repr(C)]
pub struct Inline {
    /// The 4K page of code that was looked up last, as the number of the host
    /// page that holds it; blocks in the same one do not call
    /// [`crate::vcpu::Vcpu::enter_block`].
    pub page: u64,
    /// Instruction-side accesses since the last [`crate::vcpu::Vcpu::settle`].
    pub fetches: u64,
    /// Instructions since then.
    pub instructions: u64,
    /// x86-64: the string instruction that ran last, by its host address, if it may go on
    /// repeating; else [`NOTHING`]. QEMU leaves the block, and comes back to the instruction alone,
    /// for each time that it repeats; a processor retires it once.
    pub repeating: u64,
}

/// No instruction lies at this host address.
pub const NOTHING: u64 = 0;

/// No page has this number: the next block calls [`crate::vcpu::Vcpu::enter_block`].
pub const NO_PAGE: u64 = u64::MAX;

/// The number for blocks outside of RAM. Never stored, so that these blocks
/// always call.
pub const ALWAYS: u64 = u64::MAX - 1;
