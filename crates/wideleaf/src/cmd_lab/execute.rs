// SPDX-License-Identifier: GPL-2.0-only
//! Runs what was asked for, prints the tables, judges and writes the results.

use super::arguments::RunArgs;
use crate::screen::Screen;
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
        scratch::install();
        let cache = Cache::open()?;
        let screen = Screen::new();
        let lab = self.lab(&cache, &screen)?;
        for target in targets {
            lab.preflight(target)?;
        }
        let mut comparisons = Vec::new();
        // What cannot be printed is no reason to lose what was found.
        let mut printed = Ok(());
        for target in targets {
            let comparison = lab.compare(target)?;
            if !self.json_to_stdout() {
                let text = table::render(target.job, &comparison);
                let gap = if comparisons.is_empty() { "" } else { "\n" };
                printed = printed.and_then(|()| screen.print(&format!("{gap}{text}")));
            }
            comparisons.push(comparison);
        }
        let status = self.conclude(comparisons, &screen)?;
        printed.map(|()| status)
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

    fn conclude(&self, comparisons: Vec<Comparison>, screen: &Screen) -> Result<ExitCode> {
        let verdicts: Vec<Verdict> = comparisons
            .iter()
            .flat_map(|comparison| {
                let own = self.job.verdicts(comparison).into_iter();
                let expected = self.expect.iter();
                let asked = expected.map(|expect| expect.judge(self.job, comparison));
                let referee = referee::verdicts(comparison);
                own.chain(referee).chain(asked)
            })
            .collect();
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
        if !self.json_to_stdout() && !lines.is_empty() {
            screen.print(&format!("\n{lines}"))?;
        }
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
