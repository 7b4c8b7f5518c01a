// SPDX-License-Identifier: GPL-2.0-only
//! The jobs, a folder each: a *room*.
//!
//! A room's `mod.rs` has the job's name and what both sides say to each other: task and report.
//! Its `host.rs` has what a user can ask and what the figures and the table are, its `guest.rs` and
//! the files beside it what is done in the guest. Each is compiled with the feature of its name.
//! Rooms use the [`kit`]s, never each other.
//!
//! A room's line below is all that the registry needs: `build.rs` reads it here.

pub mod kit;
#[cfg(feature = "host")]
pub mod registry;
#[cfg(feature = "host")]
pub mod schema;
#[cfg(feature = "guest")]
pub mod works;

pub mod boot;
pub mod boot_time;
pub mod collapse;
pub mod contpte;
pub mod entropy;
pub mod exec;
pub mod exec_sizes;
pub mod faults;
pub mod kunit;
pub mod linear_map;
pub mod linear_others;
pub mod linear_storm;
pub mod linear_work;
pub mod maintenance;
pub mod mm_selftests;
pub mod program;
pub mod selftest;
pub mod services;
pub mod shared_writes;
pub mod sparse;
pub mod storm;
pub mod stress_ng;
pub mod upgrade;
