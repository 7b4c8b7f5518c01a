// SPDX-License-Identifier: GPL-2.0-only
//! Boots kernels in QEMU, runs jobs in them and compares the figures.
//!
//! [`tools`] looks before work begins whether the machine has what is needed.
//! [`disk`] has the guest's disk made ([`image`], [`userland`]), [`initramfs`] is its root, [`qemu`] the
//! command line; [`machine`] runs one guest and tells how it ended, with
//! [`console`] reading what its kernel said. Temporary files and processes go
//! through [`scratch`], which leaves nothing behind.
//!
//! [`job`] says what there is to run, a job being one file `job_<name>.rs`;
//! [`run::Lab`] runs it with each of the kernels and gives [`results`], of which [`figures`] are the comparable numbers;
//! [`table`] prints them, [`expect`] holds them against what they should be.

pub mod console;
pub mod disk;
pub mod events;
pub mod expect;
pub mod figures;
pub mod host;
pub mod image;
pub mod initramfs;
pub mod job;
mod job_boot;
mod job_entropy;
mod job_exec;
mod job_fault;
mod job_kunit;
mod job_mm_selftests;
mod job_program;
mod job_sizes;
mod job_sparse;
pub mod machine;
pub mod profiles;
pub mod programs;
pub mod qemu;
pub mod results;
pub mod run;
pub mod scratch;
mod selftests;
mod selftests_disk;
pub mod table;
pub mod tools;
pub mod userland;
