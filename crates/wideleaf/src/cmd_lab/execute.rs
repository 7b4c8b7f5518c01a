// SPDX-License-Identifier: GPL-2.0-only
//! Runs what was asked for, prints the tables, judges and writes the results.

use super::arguments::Run;
use super::outcome::failures;
use crate::screen::Screen;
use crate::stdout::tell;
use anyhow::{Context, Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use wideleaf_cache::Cache;
use wideleaf_kbuild::{Interrupted, KernelDir, fault};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_lab::referee;
use wideleaf_lab::results::{Comparison, Results, Verdict};
use wideleaf_lab::run::Lab;
use wideleaf_lab::table::{self, Digits};
use wideleaf_lab::target::{Kernels, Target};
use wideleaf_lab::vm::scratch;
use wideleaf_report::outcome::Failure;

/// The runs until now.
#[derive(Default)]
struct Done {
    comparisons: Vec<Comparison>,
    failures: Vec<Failure>,
}

/// Whether the others go on when this target has failed so.
fn goes_on_without(target: &Target, error: &Error) -> bool {
    target.part.is_some() && !error.is::<Interrupted>()
}

impl Run {
    /// Runs `targets` one after the other.
    ///
    /// # Errors
    ///
    /// If a run fails. An expectation that is not met gives a failure's status.
    pub fn execute(&self, targets: &[Target]) -> Result<ExitCode> {
        let screen = Screen::new();
        let mut done = Done::default();
        match self.compare(targets, &mut done, &screen) {
            Ok(printed) => {
                let status = self.conclude(done, &screen)?;
                printed.map(|()| status)
            }
            Err(error) => {
                let begun = done.comparisons.len() + done.failures.len();
                done.failures.extend(failures(&targets[begun..], &error));
                let verdicts = self.verdicts(&done.comparisons)?;
                let results = Results::new(done.comparisons, verdicts);
                if let Err(also) = self.on.outcome.write(&results, &done.failures, &screen) {
                    tell!("wideleaf: {also:#}");
                }
                Err(error)
            }
        }
    }

    /// Runs `targets` and prints their tables, as far as that goes. A part of a job that fails is
    /// told, and the others go on.
    fn compare(&self, targets: &[Target], done: &mut Done, screen: &Screen) -> Result<Result<()>> {
        scratch::install();
        self.check_named(targets)?;
        let cache = Cache::open()?;
        let lab = self.lab(&cache, screen)?;
        for target in targets {
            lab.preflight(target)?;
        }
        // What cannot be printed is no reason to lose what was found.
        let mut printed = Ok(());
        for target in targets {
            let comparison = match lab.compare(target) {
                Ok(comparison) => comparison,
                Err(error) if goes_on_without(target, &error) => {
                    screen.event(Event::Note(&format!("{target}: {error:#}")));
                    done.failures
                        .extend(failures(std::slice::from_ref(target), &error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !self.is_for_machines() {
                let text = table::render(target.job, &comparison, self.digits())?;
                let gap = if done.comparisons.is_empty() {
                    ""
                } else {
                    "\n"
                };
                printed = printed.and_then(|()| screen.print(&format!("{gap}{text}")));
            }
            done.comparisons.push(comparison);
        }
        Ok(printed)
    }

    /// Looks whether the kernels and the fault that were named are there, before anything that
    /// was not named can be missing.
    fn check_named(&self, targets: &[Target]) -> Result<()> {
        for (variant, path) in &self.on.kernel {
            File::open(path).with_context(|| {
                let path = path.display();
                format!("--kernel {variant}={path}: cannot read it")
            })?;
        }
        let files = KernelDir::find(self.on.kernel_dir.as_deref()).ok();
        let (Some(plant), Some(files)) = (&self.common.plant, files) else {
            return Ok(());
        };
        for target in targets {
            let looked_for = fault::look_up(plant, target.base, target.arch, &files);
            looked_for.with_context(|| format!("--plant {plant}"))?;
        }
        Ok(())
    }

    fn digits(&self) -> Digits {
        match self.on.exact {
            true => Digits::All,
            false => Digits::Three,
        }
    }

    /// The lab that these arguments ask for.
    ///
    /// # Errors
    ///
    /// If there is no folder with kernel files.
    pub(super) fn lab<'a>(&self, cache: &'a Cache, observer: &'a dyn Observer) -> Result<Lab<'a>> {
        Ok(Lab {
            cache,
            kernels: self.kernels()?,
            guest_binary: self.on.guest_bin.clone(),
            plugin: self.on.plugin.clone(),
            keep: self.on.keep.clone(),
            observer,
        })
    }

    /// Whether its kernels are built from Debian's sources.
    pub(super) fn builds_from_debian(&self) -> bool {
        self.on.kernel.is_empty() && self.on.tree.is_none()
    }

    fn kernels(&self) -> Result<Kernels> {
        let files = || KernelDir::find(self.on.kernel_dir.as_deref());
        if let Some(commits) = self.commits()? {
            return Ok(Kernels::Commits(files()?, commits));
        }
        if self.on.kernel.is_empty() {
            return files().map(Kernels::Built);
        }
        let given: BTreeMap<_, _> = self.on.kernel.iter().cloned().collect();
        Ok(Kernels::Given(given))
    }

    fn json_to_stdout(&self) -> bool {
        self.on.json.as_deref() == Some(Path::new("-"))
    }

    /// Whether standard output is JSON or test results, not tables.
    fn is_for_machines(&self) -> bool {
        self.json_to_stdout() || self.on.outcome.to_stdout()
    }

    fn verdicts(&self, comparisons: &[Comparison]) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for comparison in comparisons {
            verdicts.extend(self.job.look(comparison)?.verdicts());
            verdicts.extend(referee::verdicts(comparison));
            let expected = self.on.expect.iter();
            verdicts.extend(expected.map(|expect| expect.judge(self.job, comparison)));
        }
        Ok(verdicts)
    }

    fn conclude(&self, done: Done, screen: &Screen) -> Result<ExitCode> {
        let Done {
            comparisons,
            failures,
        } = done;
        let verdicts = self.verdicts(&comparisons)?;
        let passed = failures.is_empty() && verdicts.iter().all(|verdict| verdict.passed);
        let lines: String = verdicts
            .iter()
            .map(|verdict| format!("{verdict}\n"))
            .collect();
        let results = Results::new(comparisons, verdicts);
        match &self.on.json {
            Some(_) if self.json_to_stdout() => screen.print(&(results.to_json()? + "\n"))?,
            Some(path) => results.write(path)?,
            None => {}
        }
        self.on.outcome.write(&results, &failures, screen)?;
        if !self.is_for_machines() && !lines.is_empty() {
            screen.print(&format!("\n{lines}"))?;
        }
        if !failures.is_empty() {
            let names: Vec<_> = failures.iter().map(|failure| &failure.name[..]).collect();
            tell!("wideleaf: failed, as told above: {}", names.join(", "));
        }
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
