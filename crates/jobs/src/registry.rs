// SPDX-License-Identifier: GPL-2.0-only
//! The jobs by name.

use wideleaf_lab::job::AnyJob;

/// The job that `lab run` runs unless told.
pub const DEFAULT: &str = crate::exec::NAME;

/// All jobs, by name.
pub static ALL: &[&dyn AnyJob] = &include!(concat!(env!("OUT_DIR"), "/host.rs"));

/// The jobs that users are told of.
pub fn public() -> impl Iterator<Item = &'static dyn AnyJob> {
    ALL.iter().copied().filter(|job| !job.facts().hidden)
}

/// The job of this name.
///
/// # Errors
///
/// A sentence that lists the known ones.
pub fn find(name: &str) -> Result<&'static dyn AnyJob, String> {
    let mut all = ALL.iter().copied();
    all.find(|job| job.name() == name).ok_or_else(|| {
        let known: Vec<_> = public().map(|job| job.name()).collect();
        format!("unknown job '{name}': known are {}", known.join(", "))
    })
}
