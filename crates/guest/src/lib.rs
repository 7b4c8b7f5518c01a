// SPDX-License-Identifier: GPL-2.0-only
//! The guest side of the lab.
//!
//! [`protocol`] is what host and guest say to each other. [`init::main`] is the guest's first
//! process: it mounts what a job needs, runs it in a child, answers and powers off. [`marker`]
//! holds the instructions by which a job talks to the TLB plugin.

mod contpte;
mod detailed;
mod device_mapper;
mod entropy;
mod exec;
mod fault;
mod hello;
pub mod init;
mod kunit;
mod linear;
mod linear_change;
mod linear_cpus;
mod linear_crew;
mod linear_disk;
mod linear_fail;
mod linear_fio;
mod linear_hibernate;
mod linear_hotplug;
mod linear_others;
mod linear_owned;
mod linear_storm;
mod linear_work;
mod maintenance;
pub mod marker;
mod marking;
mod memory;
mod page_flags;
mod place;
mod port;
mod power;
mod program;
pub mod protocol;
mod selftests;
mod setup;
mod shared_crew;
mod shared_file;
mod shared_proofs;
mod shared_writes;
pub mod sparse;
mod spawn;
mod storm;
mod storm_cases;
mod storm_charge;
mod storm_crew;
mod storm_inject;
mod storm_mix;
mod storm_page;
mod storm_probe;
mod storm_stage;
mod storm_watch;
mod tap;
mod task;
mod trace;
mod virtio_driver;

pub use linear::narrower as linear_narrower;
pub use storm_stage::unit as storm_unit;
