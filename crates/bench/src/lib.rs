// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark: an executable file of return stubs, called cold and at random.
//!
//! [`file`] makes the file, [`options`] say what to do with it, [`exec::run`] does it and
//! [`report`] holds the figures. The same code runs natively and as the lab guest's job; what
//! differs between the two is in [`exec::Surroundings`].

pub mod options;
pub mod report;
pub mod size;
