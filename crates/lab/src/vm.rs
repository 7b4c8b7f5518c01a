// SPDX-License-Identifier: GPL-2.0-only
//! One guest: its kernel's kind, its command line, its root, its run, what its kernel said, and
//! the temporary files and processes that it takes.

mod clock;
pub mod console;
pub mod emulator;
pub mod image;
pub mod initramfs;
pub mod machine;
mod monitor;
pub mod qemu;
pub mod scratch;
pub mod silent;
