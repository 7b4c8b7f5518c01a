// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::{NAME, Task};
use crate::kit::linear::{self, MOMENTS, happened, memory};
use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_kit::size::{parse, short};
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{GuestMemory, Scarce, Seed};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{Row, shown};

/// By how much the encrypted disk is smaller, and the most that it can be: the fragment's
/// CONFIG_BLK_DEV_RAM_SIZE.
const DISK_SHARE: u64 = 2;
const DISK_LIMIT: u64 = 1 << 30;

/// Places of the map that are changed and changed back.
const CHANGES: u64 = 256;

/// The row after which the table tells of walks by instructions.
const WALKS: &str = "kernel data walks";

/// The job.
#[derive(Debug)]
pub struct LinearWork;

/// The registry's entry.
pub const JOB: LinearWork = LinearWork;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub memory: GuestMemory,
    /// Bytes of the file in the page cache; the encrypted disk has half of that
    #[arg(long, default_value = "256M", value_parser = parse)]
    pub size: u64,
    /// Reads, requests, and writes to the encrypted disk
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub calls: u64,
    /// Of what is done.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
}

impl Options {
    /// Bytes of the encrypted disk.
    fn disk(&self) -> Result<u64> {
        let disk = self.size / DISK_SHARE;
        match (1 << 20..=DISK_LIMIT).contains(&disk) && disk.is_multiple_of(1 << 20) {
            true => Ok(disk),
            false => Err(anyhow!(
                "--size {}: the encrypted disk has half of that, a multiple of 1M and at most 1G",
                short(self.size)
            )),
        }
    }
}

impl Job for LinearWork {
    type Options = Options;
    type Report = LinearReport;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            fragments: &["linear", "crypt"],
            examples: &["linear-work --page-size 4K --size 128M --calls 2000 --repeat 3"],
            ..linear::facts(NAME, "the kernel's own TLB misses in reads and requests")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let task = Task {
            size: own.size,
            disk: own.disk()?,
            calls: own.calls,
            seed: own.seed.seed,
            changes: CHANGES,
            root: MOUNT_POINT.into(),
        };
        let needed = Scarce::default().memory(own.size);
        let memory = own.memory.memory.unwrap_or(needed);
        let disk = Disk::new(Contents::Debian(&["fio"]));
        Ok(Plan::new(&task, 600).with_memory(memory).with_disk(disk))
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![
            counted("<phase>.kernel_instructions").shown("", "kernel instructions"),
            figure("<phase>.kernel_dtlb_l1_misses", "misses", "of the kernel's own data accesses").shown("", "kernel L1 dTLB misses"),
            figure("<phase>.kernel_dtlb_walks", "walks", "of the kernel's own data accesses").row("", WALKS),
            counted("<phase>.tlb_invalidations").shown("", "TLB invalidations"),
            figure("collapse_calls", "calls", "of the kernel's worker that makes leaves wider, in all phases together; absent where it made none wider"),
            figure("collapse_instructions", "instructions", "of these calls"),
            figure("changes", "events", "places of the map that were changed and changed back"),
            figure("loops", "events", "pages of secret memory made and dropped one after the other, 10 ms each"),
            figure("calls", "events", "reads, requests, and writes"),
            figure("checked_bytes", "bytes", "of the encrypted disk, all of which was read back after our own writes"),
        ];
        all.extend(MOMENTS);
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        linear::put(run, &run.report, figures);
        for phase in &run.phases {
            let (name, dtlb) = (&phase.name, &phase.kernel.dtlb);
            figures.put(format!("{name}.kernel_dtlb_l1_misses"), dtlb.l1_misses);
            figures.put(format!("{name}.kernel_dtlb_walks"), dtlb.l2_misses);
        }
        if collapses(run) > 0 {
            let (calls, instructions) = worker(run);
            figures.put("collapse_calls", calls);
            figures.put("collapse_instructions", instructions);
        }
    }

    fn agree(&self, measured: &Measured<'_, Self>) -> Result<()> {
        for run in &measured.runs {
            ensure!(
                collapses(run) == 0 || worker(run).0 > 0,
                "{}: the kernel collapsed leaves, but no call of its worker was counted",
                run.variant
            );
        }
        Ok(())
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let (size, memory) = (short(measured.own.size), memory(measured));
        format!("linear-work: {size} in the page cache, {memory},")
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let mut all = Vec::new();
        let phases = measured.runs.first().map(|run| &run.phases);
        for phase in phases.into_iter().flatten() {
            let name = phase.name.as_str();
            for shown in shown(&self.figures()) {
                all.push(shown.of_case(measured, name, name, shown.label));
                if shown.label == WALKS {
                    let per = |run: &Run<'_, Self>| walks_per_1000(run, name);
                    all.push(measured.row(name, "walks per 1000 of these", per));
                }
            }
        }
        for (label, figure) in [
            ("calls of the worker", "collapse_calls"),
            ("instructions of these", "collapse_instructions"),
        ] {
            all.push(Row::figures(measured, "collapse", label, &[figure]));
        }
        let label = "instructions for each";
        all.push(measured.row("collapse", label, instructions_per_collapse));
        let reports = measured.runs.iter().map(|run| &run.report);
        all.extend(linear::rows(measured, reports));
        all
    }

    fn notes(&self, _: &Measured<'_, Self>) -> Vec<String> {
        vec![
            "change: secret memory is made, a page at a time; restore: it is given back; settle: \
             6 s in which nothing is asked for; loop: a page of secret memory comes and goes for 20 s."
                .into(),
            "encrypt: 4K at random to dm-crypt on a ramdisk; fio: the same by Debian's fio, its start \
             and end included; collapse: what the worker did from the first phase to the last."
                .into(),
        ]
    }
}

/// How often the kernel made leaves wider during the phases.
fn collapses(run: &Run<'_, LinearWork>) -> u64 {
    match run.report.moments.len() {
        0 | 1 => 0,
        moments => happened(&run.report, moments - 1, "collapses"),
    }
}

/// Calls of the kernel's worker that makes leaves wider, and their instructions.
fn worker(run: &Run<'_, LinearWork>) -> (u64, u64) {
    let kernel = run.phases.iter().map(|phase| &phase.kernel);
    let each = kernel.map(|kernel| (kernel.function_calls, kernel.function_instructions));
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn instructions_per_collapse(run: &Run<'_, LinearWork>) -> String {
    match (worker(run).1, collapses(run)) {
        (_, 0) => "-".into(),
        (instructions, collapses) => (instructions / collapses).to_string(),
    }
}

fn walks_per_1000(run: &Run<'_, LinearWork>, name: &str) -> String {
    let phase = run.phases.iter().find(|phase| phase.name == name);
    let kernel = phase.map(|phase| &phase.kernel);
    let kernel = kernel.filter(|kernel| kernel.instructions > 0);
    kernel.map_or("-".into(), |kernel| {
        let share = kernel.dtlb.l2_misses as f64 / kernel.instructions as f64;
        format!("{:.3}", 1000.0 * share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::linear::LinearMoment;
    use wideleaf_kbuild::Variant;
    use wideleaf_lab::job::{AnyJob, usual};
    use wideleaf_lab::results::BootResult;
    use wideleaf_lab::sample::{self, comparison_of};

    /// A run with so many collapses, before the first phase and until the end, and so many calls of
    /// the worker, of 500 instructions each, in each of two phases.
    fn lived(before: u64, until: u64, calls: u64) -> BootResult {
        let moment = |collapses| LinearMoment {
            events: [("collapses".to_string(), collapses)].into(),
            ..LinearMoment::default()
        };
        let mut run = sample::run(Variant::LinearMap, 1);
        let report = LinearReport {
            moments: [before, before, until].map(moment).into(),
            ..LinearReport::default()
        };
        run.outcome = serde_json::to_value(report).unwrap();
        let mut phase = run.phases[0].clone();
        phase.kernel.function_calls = calls;
        phase.kernel.function_instructions = calls * 500;
        run.phases = vec![phase.clone(), phase];
        run
    }

    fn agree(run: BootResult) -> Result<()> {
        let comparison = comparison_of(&LinearWork, vec![run]);
        LinearWork.look(&comparison).unwrap().agree()
    }

    #[test]
    fn a_collapse_costs_its_share_of_the_worker() {
        let run = lived(7, 11, 3);
        let figures = AnyJob::measure(&LinearWork, &run).unwrap();
        let value = |name| figures.get(name).map(|figure| figure.value);
        assert_eq!(value("collapse_calls"), Some(6));
        assert_eq!(value("collapse_instructions"), Some(3000));
        assert_eq!(instructions_per_collapse(&Run::of(&run).unwrap()), "750");
        agree(run).unwrap();
    }

    #[test]
    fn a_kernel_without_collapses_has_none_to_count() {
        let run = lived(7, 7, 0);
        let figures = AnyJob::measure(&LinearWork, &run).unwrap();
        assert_eq!(figures.get("collapse_calls"), None);
        assert_eq!(instructions_per_collapse(&Run::of(&run).unwrap()), "-");
        agree(run).unwrap();
    }

    #[test]
    fn collapses_without_a_call_are_an_error() {
        let error = agree(lived(7, 8, 0)).unwrap_err().to_string();
        assert!(error.contains("no call of its worker"), "{error}");
    }

    #[test]
    fn the_disk_fits_the_ramdisk() {
        let (_, own) = usual(&LinearWork);
        let mut options: Options = serde_json::from_value(own).unwrap();
        let mut disk = |size| {
            options.size = size;
            options.disk()
        };
        for right in [256 << 20, 2 << 20, 2 << 30] {
            disk(right).unwrap();
        }
        for wrong in [1 << 20, 3 << 20, (2 << 30) + (2 << 20), 4 << 30] {
            assert!(
                disk(wrong).unwrap_err().to_string().contains("half"),
                "{wrong}"
            );
        }
    }
}
