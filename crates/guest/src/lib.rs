// SPDX-License-Identifier: GPL-2.0-only
//! The guest side of the lab.
//!
//! [`protocol`] is what host and guest say to each other. [`init::main`] is the guest's first
//! process: it mounts what a job needs, runs it in a child, answers and powers off. [`marker`]
//! holds the instructions by which a job talks to the TLB plugin.

mod entropy;
mod exec;
mod fault;
mod hello;
pub mod init;
mod kunit;
pub mod marker;
mod memory;
mod port;
mod program;
pub mod protocol;
mod selftests;
mod setup;
pub mod sparse;
mod spawn;
mod tap;
mod task;
mod trace;
mod watch;
