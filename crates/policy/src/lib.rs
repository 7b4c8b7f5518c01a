// SPDX-License-Identifier: GPL-2.0-only
//! How the text of programs is read: the C that the kernel runs, callable from Rust, the leaves
//! that TLBs hold, and a simulator that tries rules on traces of real programs.

pub mod exec_read;
mod faults;
mod machines;
pub mod replay;
pub mod sim;
pub mod strategy;
pub mod trace;

pub use machines::{Leaf, Table};

/// Log2 of the widest leaf that text is read for (2M).
pub const WIDEST_SHIFT: u8 = 21;
