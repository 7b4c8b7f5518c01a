// SPDX-License-Identifier: GPL-2.0-only
//! The guest side of the lab.
//!
//! [`protocol`] is what host and guest say to each other. [`init::main`] is the guest's first
//! process: it mounts what a job needs, runs it in a child, answers and powers off. What a job does
//! is in its folder below `jobs`, from the parts of the [`kit`]; its [`kit::marker`] holds the
//! instructions by which a job talks to the TLB plugin.

mod hello;
pub mod init;
mod jobs;
pub mod kit;
pub mod place;
pub mod port;
pub mod power;
pub mod protocol;
mod setup;
mod task;

pub use jobs::sparse;
pub use jobs::storm::unit as storm_unit;
pub use kit::linear::narrower as linear_narrower;
pub use kit::marker;
