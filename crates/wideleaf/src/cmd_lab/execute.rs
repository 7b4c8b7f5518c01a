// SPDX-License-Identifier: GPL-2.0-only
//! Runs what was asked for, prints the tables, judges and writes the results.

use super::arguments::Run;
use super::outcome::failures;
use crate::screen::Screen;
use crate::stdout::tell;
use anyhow::{Context, Result};
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

impl Done {
    /// The result of a run, if it ends nothing: a part of a job that fails is told, and the others
    /// go on.
    fn found<T>(
        &mut self,
        target: &Target,
        result: Result<T>,
        observer: &dyn Observer,
    ) -> Result<Option<T>> {
        match result {
            Err(error) if target.part.is_some() && !error.is::<Interrupted>() => {
                observer.event(Event::Note(&format!("{target}: {error:#}")));
                let failed = std::slice::from_ref(target);
                self.failures.extend(failures(failed, &error));
                Ok(None)
            }
            result => result.map(Some),
        }
    }
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

    /// Runs `targets` and prints their tables, as far as that goes.
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
            let Some(comparison) = done.found(target, lab.compare(target), screen)? else {
                continue;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd_lab::command::tests::parse;
    use anyhow::anyhow;

    struct Silent;
    impl Observer for Silent {
        fn event(&self, _: Event<'_>) {}
    }

    /// The job's parts that ran, and those that failed, where `of` says how each ends.
    fn run(words: &str, of: fn(&str) -> Result<()>) -> (Result<Vec<String>>, Vec<String>) {
        let mut done = Done::default();
        let mut ran = Vec::new();
        let result = parse(words).unwrap().into_iter().try_for_each(|one| {
            let part = one.part.clone().unwrap_or_default();
            let found = done.found(&one, of(&part), &Silent)?;
            ran.extend(found.map(|()| part));
            Ok(())
        });
        let failed = done.failures.into_iter().map(|failure| failure.name);
        (result.map(|()| ran), failed.collect())
    }

    #[test]
    fn a_part_that_fails_is_told_and_the_others_go_on() {
        let of = |part: &str| match part {
            "gcc" => Err(anyhow!("Debian has no gcc-14")),
            _ => Ok(()),
        };
        let (ran, failed) = run("program --programs perl,gcc,clang", of);
        assert_eq!(ran.unwrap(), ["perl", "clang"]);
        assert_eq!(failed.len(), 1);
        assert!(failed[0].contains("gcc"), "{failed:?}");
    }

    #[test]
    fn an_interrupt_ends_all_and_so_does_the_failure_of_a_job_without_parts() {
        let interrupted = |_: &str| Err(Interrupted(2).into());
        let (ran, failed) = run("program --programs gcc,clang", interrupted);
        assert!(ran.is_err() && failed.is_empty(), "{failed:?}");
        let (ran, failed) = run("exec", |_| Err(anyhow!("no disk")));
        assert!(ran.is_err() && failed.is_empty(), "{failed:?}");
    }
}
