// SPDX-License-Identifier: GPL-2.0-only
//! What any job may use. A part is a file for one reason, and knows no job.

#[cfg(any(test, feature = "testing"))]
pub mod alone;
pub mod cgroup;
pub mod counts;
pub mod crew;
pub mod detailed;
pub mod device_mapper;
pub mod huge_pages;
pub mod inject;
pub mod linear;
pub mod linear_change;
pub mod linear_crew;
pub mod linear_owned;
pub mod mapping;
pub mod marker;
pub mod marking;
pub mod memory;
pub mod overlay;
pub mod page_cache;
pub mod page_flags;
pub mod process;
pub mod program;
pub mod root;
pub mod runner;
pub mod shared_file;
pub mod spawn;
pub mod swap;
pub mod tap;
pub mod together;
pub mod trace;
pub mod virtio_driver;
pub mod watch;
