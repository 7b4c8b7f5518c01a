// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Report, Scenario, Task};
use anyhow::{Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wideleaf_kbuild::{Base, SeriesName, Variant};
use wideleaf_lab::choices;
use wideleaf_lab::common::Common;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::filesystem::Filesystem;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{Dax, Fs, Overlay, ReadAhead, Seed};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::Row;

/// Seconds it lasts unless told.
const SECONDS: u32 = 60;

/// Seconds that a guest may take besides those that it lasts.
const PATIENCE_S: u32 = 600;

/// Bytes for the files that it writes.
const ROOM: u64 = 256 << 20;

/// Bytes of the stub file that is read from a slow disk.
const SLOW_FILE: u64 = 64 << 20;

/// The fragment whose kernels can make allocations fail.
const INJECTING: &str = "storm";

/// What the guest calls the allocations that were made to fail.
const FAILED: &str = "failed_allocations";

/// The guest's name for the collapses that it saw.
const COLLAPSED: &str = "collapsed";

/// And for the blocks of which a fault has begun to read the rest.
const FILLED: &str = "filled";

/// Why a run shows nothing.
const NONE_COLLAPSED: &str = "no block was collapsed after it was unlocked, so this run does not \
                              show that none was collapsed before";
const NONE_FILLED: &str = "no block was read whole, so this run does not show that no task waited";

/// Seconds that a task may sleep uninterruptibly. Kernels that check themselves take longer.
const HUNG_S: u32 = 20;
const HUNG_SLOW_S: u32 = 60;

/// The job.
#[derive(Debug)]
pub struct Storm;

/// The registry's entry.
pub const JOB: Storm = Storm;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Seconds that it lasts
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    /// Play this scenario
    #[arg(long, value_name = "NAME", default_value = "all", value_parser = choices!(Scenario))]
    pub scenario: Scenario,
    /// Of what each process does.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub dax: Dax,
    /// Over the disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub overlay: Overlay,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
}

impl Job for Storm {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            variants: &[Variant::Patched],
            defaults: &[("cpus", "4")],
            examples: &[
                "storm --seconds 600 --seed 7 --fs ext4 --extra storm",
                "storm --scenario collapse-truncate --base 7.3 --page-size 4K --fs ext4 --variants pristine",
            ],
            ..Facts::new(NAME, "text used and changed on several CPUs: no wrong page")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let (own, common) = (asked.own, asked.common);
        if own.scenario == Scenario::BusyCpu && common.cpus < 2 {
            bail!("--scenario busy-cpu: needs --cpus 2 or more");
        }
        if own.overlay.is_mounted && own.scenario != Scenario::All {
            bail!(
                "--scenario {} --overlay: files are copied up in the scenario all alone",
                own.scenario
            );
        }
        let task = Task {
            scenario: own.scenario,
            folder: MOUNT_POINT.into(),
            overlay: own.overlay.is_mounted,
            seconds: own.seconds,
            seed: own.seed.seed,
            hung_s: match common.extra.is_empty() {
                true => HUNG_S,
                false => HUNG_SLOW_S,
            },
            fail_allocations: injects(own, common),
        };
        let (contents, rate) = match own.scenario {
            Scenario::SlowRead => (Contents::Stubs(vec![SLOW_FILE]), Some(1)),
            _ => (Contents::Room(ROOM), None),
        };
        let disk = Disk {
            rate,
            dax: own.dax.is_used,
            ..own.fs.disk(contents)
        };
        let mut plan = Plan::new(&task, PATIENCE_S + own.seconds);
        plan.fragments.extend(own.overlay.fragments());
        if own.scenario == Scenario::CollapseTruncate {
            plan.always.push("collapse".into());
        }
        Ok(plan.with_disk(own.window.of(disk, asked.page_size)?))
    }

    /// Where there are no wide folios nothing is collapsed, and no allocation of one fails.
    fn agree(&self, measured: &Measured<'_, Self>) -> Result<()> {
        if !has_wide_folios(measured) {
            return Ok(());
        }
        let (own, common) = (&measured.own, &measured.common);
        measured.runs.iter().try_for_each(|run| match own.scenario {
            Scenario::Locked => has_done(run, COLLAPSED, NONE_COLLAPSED),
            Scenario::SlowRead => has_done(run, FILLED, NONE_FILLED),
            _ if injects(own, common) => has_failed(run),
            _ => Ok(()),
        })
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("executed", "pages", "executed and found to be what they should be"),
            figure("checked", "pages", "read and found to be what they should be"),
            figure("holes", "times", "a page of a block was dropped"),
            figure("advised", "times", "a collapse was asked for"),
            figure("collapsed", "times", "a collapse was done"),
            figure("remapped", "times", "text moved by mremap()"),
            figure("protected", "times", "permissions changed by mprotect()"),
            figure("locked", "times", "pages locked by mlock()"),
            figure("forked", "times", "processes forked"),
            figure("copied_on_write", "times", "private pages written to"),
            figure("written", "pages", "written through the page cache"),
            figure("written_directly", "pages", "written with O_DIRECT"),
            figure("truncated", "times", "files cut and grown again"),
            figure("punched", "times", "holes punched into files"),
            figure("spliced", "times", "pages moved by splice()"),
            figure("dropped", "times", "page caches dropped"),
            figure("killed", "times", "processes killed"),
            figure("failed_allocations", "times", "allocations of wide folios were made to fail"),
            figure("longest_wait_ms", "ms", "the longest turn of `busy-cpu`, or the longest time from SIGKILL to the end in `slow-read`"),
            figure("ahead", "times", "text that was cached ran before a slow disk had answered for the rest of its block"),
            figure("filled", "times", "all of such a block was cached in the end"),
            figure("copied_up", "times", "a file of an overlay's lower folder was copied up while it was executed"),
            figure("verified", "pages", "whose memory cgroup was found to be right"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for (name, count) in happened(&run.report) {
            figures.put(name, count);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let own = &measured.own;
        format!(
            "storm {}: {} s, {} CPUs, seed {}, {}{}{},",
            own.scenario,
            own.seconds,
            measured.common.cpus,
            own.seed.seed,
            own.overlay.title(),
            own.fs.fs.title(),
            if own.dax.is_used { " with DAX" } else { "" }
        )
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let runs = measured.runs.iter();
        let names: BTreeSet<_> = runs
            .flat_map(|run| happened(&run.report).map(|(name, _)| name))
            .collect();
        let row = |name: &str| Row::figures(measured, "storm", &name.replace('_', " "), &[name]);
        names.into_iter().map(row).collect()
    }
}

/// A kernel that collapses what faults hand to it must collapse a block that is locked no more, and
/// read the rest of one of which half is cached.
fn has_done(run: &Run<'_, Storm>, what: &str, if_not: &str) -> Result<()> {
    let is_to = run.variant.series().contains(&SeriesName::Khugepaged);
    ensure!(!is_to || count(run, what) > 0, "{}: {if_not}", run.variant);
    Ok(())
}

/// One in ten allocations of wide folios is to fail, and there are always some.
fn has_failed(run: &Run<'_, Storm>) -> Result<()> {
    ensure!(
        count(run, FAILED) > 0,
        "{}: no allocation was made to fail, though one in ten was to",
        run.variant
    );
    Ok(())
}

fn count(run: &Run<'_, Storm>, name: &str) -> u64 {
    run.report.counts.get(name).copied().unwrap_or(0)
}

fn injects(own: &Options, common: &Common) -> bool {
    own.scenario == Scenario::All && common.has_extra(INJECTING)
}

/// Whether files are read into wide folios: with DAX they are not read, and 6.12's ext4 has none.
fn has_wide_folios(measured: &Measured<'_, Storm>) -> bool {
    let own = &measured.own;
    !own.dax.is_used && (measured.base != Base::V6_12 || own.fs.fs != Filesystem::Ext4)
}

/// What happened at all.
fn happened(report: &Report) -> impl Iterator<Item = (&str, u64)> {
    let counts = report.counts.iter().filter(|(_, count)| **count > 0);
    counts.map(|(name, count)| (name.as_str(), *count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::sample::{comparison_of, run};

    fn agrees(base: Base, filesystem: Filesystem, extra: &str, failed: u64) -> bool {
        let counts = json!({ "counts": { (FAILED): failed } });
        let mut runs = [Variant::Pristine, Variant::Patched].map(|variant| run(variant, 1));
        runs.iter_mut().for_each(|run| run.outcome = counts.clone());
        let mut comparison = comparison_of(&Storm, runs.into());
        comparison.base = base;
        comparison.options["fs"] = filesystem.name().into();
        comparison.common.extra = vec![extra.into()];
        Storm.look(&comparison).unwrap().agree().is_ok()
    }

    #[test]
    fn a_scenario_about_locks_shows_that_what_is_not_locked_is_collapsed() {
        let agrees = |variant, collapsed: u64, filesystem: Filesystem| {
            let mut run = run(variant, 1);
            run.outcome = json!({ "counts": { (COLLAPSED): collapsed } });
            let mut comparison = comparison_of(&Storm, vec![run]);
            comparison.options["scenario"] = Scenario::Locked.name().into();
            comparison.options["fs"] = filesystem.name().into();
            Storm.look(&comparison).unwrap().agree().is_ok()
        };
        assert!(agrees(Variant::Patched, 1, Filesystem::Xfs));
        assert!(!agrees(Variant::Patched, 0, Filesystem::Xfs));
        assert!(agrees(Variant::Pristine, 0, Filesystem::Xfs));
        assert!(agrees(Variant::Patched, 0, Filesystem::Ext4));
    }

    #[test]
    fn a_slow_disk_shows_that_the_rest_of_a_block_is_read() {
        let agrees = |variant, filled: u64| {
            let mut run = run(variant, 1);
            run.outcome = json!({ "counts": { (FILLED): filled } });
            let mut comparison = comparison_of(&Storm, vec![run]);
            comparison.options["scenario"] = Scenario::SlowRead.name().into();
            Storm.look(&comparison).unwrap().agree()
        };
        agrees(Variant::Patched, 1).unwrap();
        agrees(Variant::Pristine, 0).unwrap();
        let error = agrees(Variant::Patched, 0).unwrap_err().to_string();
        assert!(
            error.contains("patched: no block was read whole"),
            "{error}"
        );
    }

    #[test]
    fn nothing_is_collapsed_where_files_are_mapped_in_place() {
        let mut run = run(Variant::Patched, 1);
        run.outcome = json!({ "counts": { (COLLAPSED): 0 } });
        let mut comparison = comparison_of(&Storm, vec![run]);
        comparison.options["scenario"] = Scenario::Locked.name().into();
        assert!(Storm.look(&comparison).unwrap().agree().is_err());
        comparison.options["dax"] = true.into();
        assert!(Storm.look(&comparison).unwrap().agree().is_ok());
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
