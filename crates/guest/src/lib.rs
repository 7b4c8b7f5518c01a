// SPDX-License-Identifier: GPL-2.0-only
//! The guest side of the lab, but for the jobs.
//!
//! [`protocol`] is what host and guest say to each other. [`init::main`] is the guest's first
//! process: it mounts what a job needs, runs it in a child, answers and powers off. A job is a
//! [`work::Work`], made of parts of the [`kit`]; its [`kit::marker`] holds the instructions by which
//! a job talks to the TLB plugin. The jobs are in `crates/jobs`. On kernels that the lab did not build
//! init may run a [`command`] instead. A job that wants a whole Debian hands the machine over to its
//! [`systemd`].

pub mod command;
mod hello;
pub mod init;
pub mod kit;
pub mod place;
pub mod port;
pub mod power;
pub mod protocol;
mod setup;
pub mod systemd;
pub mod work;
