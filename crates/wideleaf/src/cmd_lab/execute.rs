// SPDX-License-Identifier: GPL-2.0-only
//! Runs what was asked for, prints the tables, judges and writes the results.

use super::arguments::RunArgs;
use super::outcome::failures;
use crate::screen::Screen;
use crate::stdout::tell;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use wideleaf_cache::Cache;
use wideleaf_kbuild::KernelDir;
use wideleaf_kit::events::Observer;
use wideleaf_lab::results::{Comparison, Results, Verdict};
use wideleaf_lab::run::Lab;
use wideleaf_lab::target::{Kernels, Target};
use wideleaf_lab::vm::scratch;
use wideleaf_lab::{referee, table};

impl RunArgs {
    /// Runs `targets` one after the other.
    ///
    /// # Errors
    ///
    /// If a run fails. An expectation that is not met gives a failure's status.
    pub fn execute(&self, targets: &[Target]) -> Result<ExitCode> {
        let screen = Screen::new();
        let mut comparisons = Vec::new();
        match self.compare(targets, &mut comparisons, &screen) {
            Ok(printed) => {
                let status = self.conclude(comparisons, &screen)?;
                printed.map(|()| status)
            }
            Err(error) => {
                let failures = failures(&targets[comparisons.len()..], &error);
                let verdicts = self.verdicts(&comparisons);
                let results = Results::new(comparisons, verdicts);
                if let Err(also) = self.outcome.write(&results, &failures, &screen) {
                    tell!("wideleaf: {also:#}");
                }
                Err(error)
            }
        }
    }

    /// Runs `targets` and prints their tables, as far as that goes.
    fn compare(
        &self,
        targets: &[Target],
        comparisons: &mut Vec<Comparison>,
        screen: &Screen,
    ) -> Result<Result<()>> {
        scratch::install();
        let cache = Cache::open()?;
        let lab = self.lab(&cache, screen)?;
        for target in targets {
            lab.preflight(target)?;
        }
        // What cannot be printed is no reason to lose what was found.
        let mut printed = Ok(());
        for target in targets {
            let comparison = lab.compare(target)?;
            if !self.is_for_machines() {
                let text = table::render(target.job, &comparison);
                let gap = if comparisons.is_empty() { "" } else { "\n" };
                printed = printed.and_then(|()| screen.print(&format!("{gap}{text}")));
            }
            comparisons.push(comparison);
        }
        Ok(printed)
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
            guest_binary: self.guest_bin.clone(),
            plugin: self.plugin.clone(),
            keep: self.keep.clone(),
            observer,
        })
    }

    /// Whether its kernels are built from Debian's sources.
    pub(super) fn builds_from_debian(&self) -> bool {
        self.kernel.is_empty() && self.tree.is_none()
    }

    fn kernels(&self) -> Result<Kernels> {
        let files = || KernelDir::find(self.kernel_dir.as_deref());
        if let Some(commits) = self.commits()? {
            return Ok(Kernels::Commits(files()?, commits));
        }
        if self.kernel.is_empty() {
            return files().map(Kernels::Built);
        }
        let given: BTreeMap<_, _> = self.kernel.iter().cloned().collect();
        Ok(Kernels::Given(given))
    }

    fn json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Whether standard output is JSON or test results, not tables.
    fn is_for_machines(&self) -> bool {
        self.json_to_stdout() || self.outcome.to_stdout()
    }

    fn verdicts(&self, comparisons: &[Comparison]) -> Vec<Verdict> {
        comparisons
            .iter()
            .flat_map(|comparison| {
                let own = self.job.verdicts(comparison).into_iter();
                let expected = self.expect.iter();
                let asked = expected.map(|expect| expect.judge(self.job, comparison));
                let referee = referee::verdicts(comparison);
                own.chain(referee).chain(asked)
            })
            .collect()
    }

    fn conclude(&self, comparisons: Vec<Comparison>, screen: &Screen) -> Result<ExitCode> {
        let verdicts = self.verdicts(&comparisons);
        let passed = verdicts.iter().all(|verdict| verdict.passed);
        let lines: String = verdicts
            .iter()
            .map(|verdict| format!("{verdict}\n"))
            .collect();
        let results = Results::new(comparisons, verdicts);
        match &self.json {
            Some(_) if self.json_to_stdout() => screen.print(&(results.to_json()? + "\n"))?,
            Some(path) => results.write(path)?,
            None => {}
        }
        self.outcome.write(&results, &[], screen)?;
        if !self.is_for_machines() && !lines.is_empty() {
            screen.print(&format!("\n{lines}"))?;
        }
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
