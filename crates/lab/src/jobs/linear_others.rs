// SPDX-License-Identifier: GPL-2.0-only
//! Others that read or change the tables of the linear map meet changes of permissions and the
//! collapse: the dump of all tables, kexec, CPUs and memory that come and go,
//! hibernation, late kfence.

use super::linear_map::{
    KEPT, VARIANTS, busy, collapsing, happened, kept, leaves, memory, put, report, rows, verdict,
};
use crate::disk::Contents;
use crate::job::Job;
use crate::options::{CpuModel, Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use wideleaf_guest::protocol::{LinearOthersOptions, Task};
use wideleaf_kbuild::Variant;

/// CPUs of its guest unless told.
const CPUS: u32 = 4;

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

impl Job for LinearOthers {
    fn name(&self) -> String {
        "linear-others".into()
    }

    fn about(&self) -> &'static str {
        "the linear map's changes meet ptdump, kexec, CPU and memory hotplug, hibernation, kfence"
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Memory, Setting::Seconds, Setting::Seed]
    }

    fn defaults(&self, options: &mut Options) {
        options.cpus = CPUS;
        options.cpu_model = CpuModel::Bbm;
        options.seconds = SECONDS;
    }

    fn fragments(&self) -> &'static [&'static str] {
        &["linear", "others"]
    }

    /// Besides [`Options::seconds`].
    fn time_limit_s(&self) -> u32 {
        600 + MEETINGS * (SECONDS + SETTLE_S)
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory.unwrap_or(MEMORY)
    }

    fn memory_used(&self, options: &Options) -> u64 {
        busy(self.memory(options)) + PLUG
    }

    fn pluggable(&self, _: &Options) -> Option<u64> {
        Some(PLUG)
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Room(SWAP))
    }

    fn task(&self, options: &Options) -> Task {
        Task::LinearOthers(LinearOthersOptions {
            seconds: options.seconds,
            seed: options.seed,
            settle_s: SETTLE_S,
            plug: PLUG,
        })
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        put(run, figures);
    }

    /// Of kernels that collapse: they tell how wide the map is.
    fn verdicts(&self, comparison: &Comparison) -> Vec<Verdict> {
        let judge = |run| moments(run).map(move |(nth, name)| judge(comparison, run, nth, name));
        collapsing(comparison).flat_map(judge).collect()
    }

    fn title(&self, comparison: &Comparison) -> String {
        let Options {
            cpus,
            seed,
            seconds,
            ..
        } = &comparison.options;
        let memory = memory(comparison);
        format!("linear-others: {seconds} s each, {cpus} CPUs, seed {seed}, {memory} of memory,")
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        rows(comparison)
    }
}

/// All moments but the first, with their numbers.
fn moments(run: &BootResult) -> impl Iterator<Item = (usize, &str)> {
    let moments = report(run).map_or(&[][..], |report| &report.moments);
    let named = moments.iter().map(|moment| moment.name.as_str());
    named.enumerate().skip(1)
}

fn judge(comparison: &Comparison, run: &BootResult, nth: usize, name: &str) -> Verdict {
    if name != KFENCE {
        let what = format!("after {name} as wide as at boot >=99.9%");
        return verdict(comparison, run, &what, kept(run, nth), KEPT);
    }
    let page = run.guest.page_size;
    let by_pages = |nth| {
        let leaves = leaves(run, nth);
        leaves
            .get(&wideleaf_kit::size::short(page))
            .copied()
            .unwrap_or(0)
    };
    // Where leaves must not change their size nothing was split since boot. Then all were pages
    // there, but for the kernel's image.
    let split = report(run).is_some_and(|report| happened(report, nth, "splits") > 0);
    let pool = if split { KFENCE_PAGES * page } else { 0 };
    let least = by_pages(0) + pool;
    let what = "kfence's pool is mapped by pages";
    verdict(
        comparison,
        run,
        what,
        Some(by_pages(nth) as f64),
        least as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use std::collections::BTreeMap;
    use wideleaf_guest::protocol::{LinearMoment, LinearReport, Outcome};

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
        let counts = BTreeMap::new();
        run.outcome = Outcome::Linear(LinearReport { moments, counts });
        let mut comparison = sample::comparison(1, 1);
        comparison.runs = vec![run];
        let verdicts = LinearOthers.verdicts(&comparison);
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
