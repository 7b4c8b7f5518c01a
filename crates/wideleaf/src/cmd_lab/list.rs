// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab list`: what there is to choose from.

use crate::stdout::{say, write_out};
use anyhow::{Context, Error, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_jobs::{registry, schema};
use wideleaf_kbuild::{Arch, Base, KernelDir};
use wideleaf_kit::replace::replace;
use wideleaf_kit::table::{Table, left};
use wideleaf_lab::disk::filesystem::Filesystem;
use wideleaf_lab::profiles;

/// The choice of lists, and their form.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf lab list
  wideleaf lab list --json | jq .jobs")]
pub struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Bring the tables of this page up to date, docs/lab-schema.md, which are made
    /// of the jobs' definitions
    #[arg(long, value_name = "PAGE", conflicts_with = "json")]
    schema: Option<PathBuf>,
}

impl List {
    /// Lists everything.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn run(&self) -> Result<ExitCode> {
        match &self.schema {
            Some(page) => update(page),
            None => everything(self.json),
        }
    }
}

fn update(page: &Path) -> Result<ExitCode> {
    let what = || page.display().to_string();
    let text = std::fs::read_to_string(page).with_context(what)?;
    let made = schema::page(&text).map_err(Error::msg).with_context(what)?;
    replace(page, made).with_context(what)?;
    Ok(ExitCode::SUCCESS)
}

fn everything(json: bool) -> Result<ExitCode> {
    let names = |names: Vec<&str>| names.join(", ");
    let page_sizes = |arch: Arch| {
        arch.page_sizes()
            .iter()
            .map(|s| s.name())
            .collect::<Vec<_>>()
    };
    let faults = wideleaf_kbuild::faults(KernelDir::find(None).ok().as_ref())?;
    if json {
        let jobs = registry::public().map(|job| job.facts());
        let jobs = jobs.map(|facts| json!({ "name": facts.name, "about": facts.about }));
        let jobs: Vec<_> = jobs.collect();
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
            "faults": faults,
        });
        say!("{all}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["", "", ""].map(left)).gap("  ");
    for facts in registry::public().map(|job| job.facts()) {
        table.row(["job", facts.name, facts.about]);
    }
    for base in Base::ALL {
        table.row(["base", base.name(), ""]);
    }
    for &arch in Arch::ALL {
        let (sizes, profiles) = (names(page_sizes(arch)), names(profiles::of(arch)));
        let about = format!("pages {sizes}; profiles {profiles}");
        table.row(["architecture", arch.name(), &about]);
    }
    for filesystem in Filesystem::ALL {
        table.row(["filesystem", filesystem.name(), ""]);
    }
    for fault in &faults {
        table.row(["fault", &fault.name, &fault.to_string()]);
    }
    write_out(&table.render(false))?;
    Ok(ExitCode::SUCCESS)
}
