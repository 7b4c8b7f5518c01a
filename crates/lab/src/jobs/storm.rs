// SPDX-License-Identifier: GPL-2.0-only
//! Many processes on several CPUs use and change the same text, in every way at once.

use crate::disk::Contents;
use crate::disk::filesystem::Filesystem;
use crate::job::{Job, MOUNT_POINT};
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison};
use anyhow::ensure;
use std::collections::BTreeMap;
use wideleaf_guest::protocol::{Outcome, Scenario, StormOptions, Task};
use wideleaf_guest::storm_unit;
use wideleaf_kbuild::{Base, PageSize, Variant};

/// Seconds it lasts unless told.
const SECONDS: u32 = 60;

/// CPUs of its guest unless told.
const CPUS: u32 = 4;

/// Bytes for the files that it writes.
const ROOM: u64 = 256 << 20;

/// Bytes of the stub file that is read from a slow disk.
const SLOW_FILE: u64 = 64 << 20;

/// The fragment whose kernels can make allocations fail.
const INJECTING: &str = "storm";

/// What the guest calls the allocations that were made to fail.
const FAILED: &str = "failed_allocations";

/// Seconds that a task may sleep uninterruptibly. Kernels that check themselves take longer.
const HUNG_S: u32 = 20;
const HUNG_SLOW_S: u32 = 60;

/// The job.
#[derive(Debug)]
pub struct Storm;

impl Job for Storm {
    fn name(&self) -> String {
        "storm".into()
    }

    fn about(&self) -> &'static str {
        "text used and changed by many processes on several CPUs: no wrong page, no hang"
    }

    fn variants(&self) -> &'static [Variant] {
        &[Variant::Patched]
    }

    fn possible_variants(&self) -> &'static [Variant] {
        Variant::ALL
    }

    fn settings(&self) -> &'static [Setting] {
        &[
            Setting::Filesystem,
            Setting::Seconds,
            Setting::Scenario,
            Setting::Seed,
            Setting::ReadAhead,
        ]
    }

    fn defaults(&self, options: &mut Options) {
        options.cpus = CPUS;
        options.seconds = SECONDS;
    }

    /// Besides [`Options::seconds`].
    fn time_limit_s(&self) -> u32 {
        600
    }

    fn disk_rate(&self, options: &Options) -> Option<u32> {
        (options.scenario == Scenario::SlowRead).then_some(1)
    }

    fn check(&self, options: &Options, page_size: PageSize) -> Result<(), String> {
        if options.scenario == Scenario::BusyCpu && options.cpus < 2 {
            return Err("--scenario busy-cpu: needs --cpus 2 or more".into());
        }
        options.check_window(page_size)
    }

    fn contents(&self, options: &Options) -> Option<Contents> {
        Some(match options.scenario {
            Scenario::SlowRead => Contents::Stubs(vec![SLOW_FILE]),
            _ => Contents::Room(ROOM),
        })
    }

    fn task(&self, options: &Options) -> Task {
        let slow = !options.extras.is_empty();
        Task::Storm(StormOptions {
            scenario: options.scenario,
            folder: MOUNT_POINT.into(),
            seconds: options.seconds,
            seed: options.seed,
            hung_s: if slow { HUNG_SLOW_S } else { HUNG_S },
            fail_allocations: injects(options),
        })
    }

    /// One in ten allocations of wide folios is to fail, and there are always some.
    fn agree(&self, comparison: &Comparison) -> anyhow::Result<()> {
        if !injects(&comparison.options) || !has_wide_folios(comparison) {
            return Ok(());
        }
        for run in &comparison.runs {
            ensure!(
                counts(run).contains_key(FAILED),
                "{}: no allocation was made to fail, though one in ten was to",
                run.variant
            );
        }
        Ok(())
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        for (name, count) in counts(run) {
            let unit = storm_unit(&name);
            figures.put(name, unit, count);
        }
    }

    fn title(&self, comparison: &Comparison) -> String {
        let Options {
            scenario,
            cpus,
            seconds,
            seed,
            filesystem,
            ..
        } = &comparison.options;
        format!(
            "storm {}: {seconds} s, {cpus} CPUs, seed {seed}, {},",
            scenario.name(),
            filesystem.title()
        )
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let names = comparison
            .runs
            .iter()
            .flat_map(|run| counts(run).into_keys());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.dedup();
        let row =
            |name: &String| Row::figures(comparison, "storm", &name.replace('_', " "), &[name]);
        names.iter().map(row).collect()
    }
}

fn injects(options: &Options) -> bool {
    options.scenario == Scenario::All && options.extras.iter().any(|extra| extra == INJECTING)
}

/// Whether the file system reads wide folios: 6.12's ext4 has none.
fn has_wide_folios(comparison: &Comparison) -> bool {
    comparison.base != Base::V6_12 || comparison.options.filesystem != Filesystem::Ext4
}

/// What happened at all.
fn counts(run: &BootResult) -> BTreeMap<String, u64> {
    match &run.outcome {
        Outcome::Storm(report) => {
            let counts = report.counts.clone().into_iter();
            counts.filter(|(_, count)| *count > 0).collect()
        }
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use wideleaf_guest::protocol::StormReport;

    fn agrees(base: Base, filesystem: Filesystem, extra: &str, failed: u64) -> bool {
        let mut comparison = sample::comparison(1, 1);
        comparison.base = base;
        comparison.options.filesystem = filesystem;
        comparison.options.extras = vec![extra.into()];
        let counts = [(FAILED.to_string(), failed)].into();
        for run in &mut comparison.runs {
            run.outcome = Outcome::Storm(StormReport {
                counts: BTreeMap::clone(&counts),
            });
        }
        Storm.agree(&comparison).is_ok()
    }

    #[test]
    fn allocations_fail_where_there_are_wide_folios() {
        let (xfs, ext4) = (Filesystem::Xfs, Filesystem::Ext4);
        assert!(agrees(Base::V6_12, xfs, "storm", 1));
        assert!(!agrees(Base::V6_12, xfs, "storm", 0));
        assert!(!agrees(Base::V7_3, ext4, "storm", 0));
        assert!(agrees(Base::V6_12, ext4, "storm", 0));
        assert!(agrees(Base::V7_3, xfs, "debug", 0));
    }
}
