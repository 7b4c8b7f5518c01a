// SPDX-License-Identifier: GPL-2.0-only
//! The jobs' guest sides.

use wideleaf_guest::work::AnyWork;

/// All of them.
pub static ALL: &[&dyn AnyWork] = &include!(concat!(env!("OUT_DIR"), "/guest.rs"));
