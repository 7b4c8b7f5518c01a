// SPDX-License-Identifier: GPL-2.0-only
//! Runs what was asked for, prints the tables, judges and writes the results.

use super::arguments::Run;
use super::screen::Screen;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use wideleaf_cache::Cache;
use wideleaf_kernel::KernelDir;
use wideleaf_lab::expect::Verdict;
use wideleaf_lab::results::{Comparison, Results};
use wideleaf_lab::run::{Kernels, Lab, Target};
use wideleaf_lab::{scratch, table};

impl Run {
    /// Runs `targets` one after the other.
    ///
    /// # Errors
    ///
    /// If a run fails. An expectation that is not met gives a failure's status.
    pub fn execute(&self, targets: &[Target]) -> Result<ExitCode> {
        scratch::install();
        let cache = Cache::open()?;
        let screen = Screen::new();
        let lab = Lab {
            cache: &cache,
            kernels: self.kernels()?,
            guest_binary: self.guest_bin.clone(),
            plugin: self.plugin.clone(),
            keep: self.keep.clone(),
            observer: &screen,
        };
        for target in targets {
            lab.preflight(target)?;
        }
        let mut comparisons = Vec::new();
        for target in targets {
            let comparison = lab.compare(target)?;
            if !self.json_to_stdout() {
                let text = table::render(&comparison);
                screen.print(&if comparisons.is_empty() {
                    text
                } else {
                    format!("\n{text}")
                });
            }
            comparisons.push(comparison);
        }
        self.conclude(comparisons, &screen)
    }

    fn kernels(&self) -> Result<Kernels> {
        if self.kernel.is_empty() {
            return KernelDir::find(self.kernel_dir.as_deref()).map(Kernels::Built);
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
                let own = comparison.job().map(|job| job.verdicts(comparison));
                let asked = self.expect.iter().map(|expect| expect.judge(comparison));
                own.into_iter().flatten().chain(asked)
            })
            .collect();
        let passed = verdicts.iter().all(|verdict| verdict.passed);
        if !self.json_to_stdout() && !verdicts.is_empty() {
            let lines: Vec<_> = verdicts
                .iter()
                .map(|verdict| format!("{verdict}\n"))
                .collect();
            screen.print(&format!("\n{}", lines.concat()));
        }
        let results = Results::new(comparisons, verdicts);
        match &self.json {
            Some(_) if self.json_to_stdout() => screen.print(&(results.to_json()? + "\n")),
            Some(path) => results.write(path)?,
            None => {}
        }
        Ok(if passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
