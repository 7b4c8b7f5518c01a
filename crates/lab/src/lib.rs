// SPDX-License-Identifier: GPL-2.0-only
//! Boots kernels in QEMU, runs jobs in them and compares the figures.
//!
//! [`tools`] looks before work begins whether the machine has what is needed.
//! [`image`] makes the guest's disk, [`initramfs`] its root, [`qemu`] the
//! command line; [`machine`] runs one guest and tells how it ended, with
//! [`console`] reading what its kernel said. Temporary files and processes go
//! through [`scratch`], which leaves nothing behind.

pub mod console;
pub mod initramfs;
pub mod machine;
pub mod qemu;
pub mod scratch;
pub mod tools;
