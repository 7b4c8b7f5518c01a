// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab list`: what there is to choose from.

use crate::stdout::say;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use wideleaf_kbuild::{Arch, Base};
use wideleaf_lab::disk::filesystem::Filesystem;
use wideleaf_lab::jobs::JOBS;
use wideleaf_lab::profiles;

/// Lists everything.
///
/// # Errors
///
/// If it cannot be written.
pub fn run(json: bool) -> Result<ExitCode> {
    let names = |names: Vec<&str>| names.join(", ");
    let page_sizes = |arch: Arch| {
        arch.page_sizes()
            .iter()
            .map(|s| s.name())
            .collect::<Vec<_>>()
    };
    if json {
        let jobs = JOBS.map(|job| json!({ "name": job.name(), "about": job.about() }));
        let arches: Vec<_> = Arch::ALL
            .iter()
            .map(|&arch| {
                json!({ "name": arch, "page_sizes": page_sizes(arch), "profiles": profiles::of(arch) })
            })
            .collect();
        let all = json!({
            "jobs": jobs,
            "bases": Base::ALL,
            "architectures": arches,
            "filesystems": Filesystem::ALL,
        });
        say!("{all}")?;
        return Ok(ExitCode::SUCCESS);
    }
    for job in JOBS {
        say!("{:<12}  {job:<10}  {}", "job", job.about())?;
    }
    for base in Base::ALL {
        say!("{:<12}  {base}", "base")?;
    }
    for &arch in Arch::ALL {
        let (sizes, profiles) = (names(page_sizes(arch)), names(profiles::of(arch)));
        say!(
            "{:<12}  {arch:<10}  pages {sizes}; profiles {profiles}",
            "architecture"
        )?;
    }
    for filesystem in Filesystem::ALL {
        say!("{:<12}  {filesystem}", "filesystem")?;
    }
    Ok(ExitCode::SUCCESS)
}
