// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Task};
use crate::kit::linear::{
    self, CREW, KEPT, MOMENTS, busy, collapsing, happened, kept, leaves, memory, verdict,
};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{GuestMemory, Seed};
use wideleaf_lab::plan::{Asked, Disk, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::Row;

/// Seconds that each meeting lasts unless told.
const SECONDS: u32 = 10;

/// Meetings, one of which lasts twice as long.
const MEETINGS: u32 = 7;

/// Seconds of the guest's clock that the map may take to become wide again.
const SETTLE_S: u32 = 30;

/// Memory of its guest unless told. Late kfence looks twice for a pageblock without unmovable pages
/// (start_isolate_page_range() in mm/page_isolation.c). With 64K pages that is 512M, and 2G have
/// one such block at most.
const MEMORY: u64 = 6 << 30;

/// Memory that can be plugged: the guest asks for two of its blocks, which have 512M with 64K pages
/// and 128M with others.
const PLUG: u64 = 1 << 30;

/// Bytes of the disk that becomes swap space.
const SWAP: u64 = 4 << 30;

/// Pages of kfence's pool: two for each of the fragment's CONFIG_KFENCE_NUM_OBJECTS and two more.
const KFENCE_PAGES: u64 = 64;

/// The moment after which the map is not as wide as at boot.
const KFENCE: &str = "kfence";

/// The job.
#[derive(Debug)]
pub struct LinearOthers;

/// The registry's entry.
pub const JOB: LinearOthers = LinearOthers;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub memory: GuestMemory,
    /// Seconds that each meeting lasts
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    /// Of what is done.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
}

impl Job for LinearOthers {
    type Options = Options;
    type Report = LinearReport;

    fn facts(&self) -> Facts {
        Facts {
            fragments: &["linear", "others"],
            examples: &["linear-others --variants linear-map --extra storm"],
            ..linear::crowded(
                NAME,
                "the linear map meets kexec, hotplug, hibernation, kfence",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let memory = own.memory.memory.unwrap_or(MEMORY);
        let task = Task {
            seconds: own.seconds,
            seed: own.seed.seed,
            settle_s: SETTLE_S,
            plug: PLUG,
        };
        let limit = 600 + MEETINGS * (own.seconds.max(SECONDS) + SETTLE_S);
        let plan = Plan {
            memory_used: busy(memory) + PLUG,
            pluggable: Some(PLUG),
            ..Plan::new(&task, limit).with_memory(memory)
        };
        Ok(plan.with_disk(Disk::new(Contents::Room(SWAP))))
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let mut all: Vec<_> = MOMENTS.into_iter().chain(CREW).collect();
        all.extend([
            figure("dumps", "events", "dumps of all the kernel's page tables"),
            figure("kexec_loads", "events", "kernels loaded by kexec_load(2)"),
            figure("late_cpus", "events", "CPUs that came after boot"),
            figure("refused_cpus", "events", "CPUs that the kernel refused"),
            figure("switched_cpus", "events", "CPUs switched off and on"),
            figure("hibernations", "events", "images of the machine made"),
            figure("failed_in_workers", "events", "allocations of kernel workers that failed while memory was plugged"),
            figure("plugged", "events", "memory plugged and unplugged"),
            figure("unplugged_of_kernel_bytes", "bytes", "unplugged of the memory that the kernel booted with"),
            figure("guarded_allocations", "events", "allocations of kfence after its pool was split from the map"),
        ]);
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        linear::put(run, &run.report, figures);
    }

    /// Of kernels that collapse: they tell how wide the map is.
    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for run in collapsing(measured) {
            verdicts
                .extend(moments(&run.report).map(|(nth, name)| judge(measured, run, nth, name)));
        }
        verdicts
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let (seconds, seed) = (measured.own.seconds, measured.own.seed.seed);
        let (cpus, memory) = (measured.common.cpus, memory(measured));
        format!("linear-others: {seconds} s each, {cpus} CPUs, seed {seed}, {memory} of memory,")
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        linear::rows(measured, measured.runs.iter().map(|run| &run.report))
    }
}

/// All moments but the first, with their numbers.
fn moments(report: &LinearReport) -> impl Iterator<Item = (usize, &str)> {
    let named = report.moments.iter().map(|moment| moment.name.as_str());
    named.enumerate().skip(1)
}

fn judge(
    measured: &Measured<'_, LinearOthers>,
    run: &Run<'_, LinearOthers>,
    nth: usize,
    name: &str,
) -> Verdict {
    let report = &run.report;
    if name != KFENCE {
        let what = format!("after {name} as wide as at boot >=99.9%");
        return verdict(measured, run, &what, kept(run, report, nth), KEPT);
    }
    let page = run.guest.page_size;
    let by_pages = |nth| {
        let leaves = leaves(run, report, nth);
        leaves
            .get(&wideleaf_kit::size::short(page))
            .copied()
            .unwrap_or(0)
    };
    // Where leaves must not change their size nothing was split since boot. Then all were pages
    // there, but for the kernel's image.
    let split = happened(report, nth, "splits") > 0;
    let pool = if split { KFENCE_PAGES * page } else { 0 };
    let least = by_pages(0) + pool;
    let what = "kfence's pool is mapped by pages";
    verdict(
        measured,
        run,
        what,
        Some(by_pages(nth) as f64),
        least as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wideleaf_guest::kit::linear::LinearMoment;
    use wideleaf_kbuild::Variant;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::sample::{self, comparison_of};

    fn moment(name: &str, leaves: &[(&str, u64)]) -> LinearMoment {
        LinearMoment {
            name: name.into(),
            leaves: leaves
                .iter()
                .map(|(leaf, n)| (leaf.to_string(), *n))
                .collect(),
            ..LinearMoment::default()
        }
    }

    fn split(mut moment: LinearMoment) -> LinearMoment {
        moment.events.insert("splits".into(), 7);
        moment
    }

    fn passed(moments: Vec<LinearMoment>) -> Vec<bool> {
        let mut run = sample::run(Variant::LinearMap, 1);
        run.guest.page_size = 4096;
        run.coverage.clear();
        run.outcome = json!({ "moments": moments, "counts": {} });
        let comparison = comparison_of(&LinearOthers, vec![run]);
        let verdicts = LinearOthers.look(&comparison).unwrap().verdicts();
        verdicts.iter().map(|verdict| verdict.passed).collect()
    }

    #[test]
    fn what_stays_narrow_fails_and_a_pool_that_stays_wide() {
        let boot = || moment("boot", &[("4K", 1 << 20), ("1G", 1 << 30)]);
        let wide = moment("hotplug", &[("4K", 1 << 20), ("1G", 2 << 30)]);
        let pool = moment("kfence", &[("4K", 5 << 18), ("2M", 1 << 30)]);
        assert_eq!(passed(vec![boot(), wide, split(pool)]), [true, true]);
        let narrow = moment("kexec", &[("4K", 3 << 20), ("2M", (1 << 30) - (2 << 20))]);
        let none = moment("kfence", &[("4K", 1 << 20), ("1G", 1 << 30)]);
        assert_eq!(passed(vec![boot(), narrow, split(none)]), [false, false]);
        let fixed = |name| moment(name, &[("4K", 1 << 30), ("2M", 4 << 20)]);
        assert_eq!(passed(vec![fixed("boot"), fixed("kfence")]), [true]);
        assert_eq!(passed(vec![fixed("boot"), split(fixed("kfence"))]), [false]);
        assert!(passed(Vec::new()).is_empty());
    }
}
