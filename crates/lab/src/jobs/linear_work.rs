// SPDX-License-Identifier: GPL-2.0-only
//! What work through the linear map costs: TLB misses and walks of the kernel's data accesses; and
//! what it costs to make the map wide again.

use super::linear_map::{VARIANTS, happened, memory, put, report, rows};
use crate::disk::Contents;
use crate::job::{Job, MOUNT_POINT};
use crate::options::{CpuModel, Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, PhaseCounts};
use anyhow::{Result, ensure};
use wideleaf_guest::protocol::{LinearWorkOptions, Task};
use wideleaf_kbuild::{PageSize, Variant};

/// Bytes of the file in the page cache, unless told.
const SIZE: u64 = 256 << 20;

/// By how much the encrypted disk is smaller, and the most that it can be: the fragment's
/// CONFIG_BLK_DEV_RAM_SIZE.
const DISK_SHARE: u64 = 2;
const DISK_LIMIT: u64 = 1 << 30;

/// Reads, requests, and writes to that disk, twice, unless told.
const CALLS: u64 = 5_000;

/// Places of the map that are changed and changed back.
const CHANGES: u64 = 256;

/// The job.
#[derive(Debug)]
pub struct LinearWork;

impl Job for LinearWork {
    fn name(&self) -> String {
        "linear-work".into()
    }

    fn about(&self) -> &'static str {
        "page cache reads, requests, an encrypted disk: the kernel's own data TLB misses and walks"
    }

    fn variants(&self) -> &'static [Variant] {
        VARIANTS
    }

    fn settings(&self) -> &'static [Setting] {
        &[
            Setting::Memory,
            Setting::Size,
            Setting::Calls,
            Setting::Seed,
        ]
    }

    fn defaults(&self, options: &mut Options) {
        options.size = SIZE;
        options.cpu_model = CpuModel::Bbm;
    }

    fn fragments(&self) -> &'static [&'static str] {
        &["linear", "crypt"]
    }

    fn counts(&self) -> bool {
        true
    }

    fn time_limit_s(&self) -> u32 {
        600
    }

    fn memory(&self, options: &Options) -> u64 {
        options.memory.unwrap_or(options.memory(options.size))
    }

    fn check(&self, options: &Options, _: PageSize) -> Result<(), String> {
        let disk = disk(options);
        if (1 << 20..=DISK_LIMIT).contains(&disk) && disk.is_multiple_of(1 << 20) {
            return Ok(());
        }
        let size = wideleaf_kit::size::short(options.size);
        Err(format!(
            "--size {size}: the encrypted disk has half of that, a multiple of 1M and at most 1G"
        ))
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Debian(&["fio"]))
    }

    fn task(&self, options: &Options) -> Task {
        Task::LinearWork(LinearWorkOptions {
            size: options.size,
            disk: disk(options),
            calls: options.calls.unwrap_or(CALLS),
            seed: options.seed,
            changes: CHANGES,
            root: MOUNT_POINT.into(),
        })
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        put(run, figures);
        for phase in &run.phases {
            let (name, kernel) = (&phase.name, &phase.kernel);
            let mut put = |what: &str, unit, value| {
                figures.put(format!("{name}.kernel_{what}"), unit, value);
            };
            put("dtlb_l1_misses", "misses", kernel.dtlb.l1_misses);
            put("dtlb_walks", "walks", kernel.dtlb.l2_misses);
        }
        if collapses(run) > 0 {
            let (calls, instructions) = worker(run);
            figures.put("collapse_calls", "calls", calls);
            figures.put("collapse_instructions", "instructions", instructions);
        }
    }

    fn agree(&self, comparison: &Comparison) -> Result<()> {
        for run in &comparison.runs {
            ensure!(
                collapses(run) == 0 || worker(run).0 > 0,
                "{}: the kernel collapsed leaves, but no call of its worker was counted",
                run.variant
            );
        }
        Ok(())
    }

    fn is_headline(&self, figure: &str) -> bool {
        figure.ends_with(".kernel_dtlb_walks")
    }

    fn title(&self, comparison: &Comparison) -> String {
        let size = wideleaf_kit::size::short(comparison.options.size);
        format!(
            "linear-work: {size} in the page cache, {},",
            memory(comparison)
        )
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let mut all = Vec::new();
        let phases = comparison.runs.first().map(|run| &run.phases);
        for phase in phases.into_iter().flatten() {
            let name = phase.name.as_str();
            for (label, what) in [
                ("kernel instructions", "kernel_instructions"),
                ("kernel L1 dTLB misses", "kernel_dtlb_l1_misses"),
                ("kernel data walks", "kernel_dtlb_walks"),
            ] {
                let figure = format!("{name}.{what}");
                all.push(Row::figures(comparison, name, label, &[figure]));
            }
            let per = |run: &BootResult| walks_per_1000(run, name);
            all.push(Row::text(comparison, name, "walks per 1000 of these", per));
        }
        for (label, figure) in [
            ("calls of the worker", "collapse_calls"),
            ("instructions of these", "collapse_instructions"),
        ] {
            all.push(Row::figures(comparison, "collapse", label, &[figure]));
        }
        let each = |run: &BootResult| instructions_per_collapse(run);
        all.push(Row::text(
            comparison,
            "collapse",
            "instructions for each",
            each,
        ));
        all.extend(rows(comparison));
        all
    }

    fn notes(&self, _: &Comparison) -> Vec<String> {
        vec![
            "change: secret memory is made, a page at a time; restore: it is given back; settle: \
             6 s in which nothing is asked for."
                .into(),
            "encrypt: 4K at random to dm-crypt on a ramdisk; fio: the same by Debian's fio, its start \
             and end included; collapse: what the worker did from the first phase to the last."
                .into(),
        ]
    }
}

fn disk(options: &Options) -> u64 {
    options.size / DISK_SHARE
}

/// How often the kernel made leaves wider during the phases.
fn collapses(run: &BootResult) -> u64 {
    report(run).map_or(0, |report| match report.moments.len() {
        0 | 1 => 0,
        moments => happened(report, moments - 1, "collapses"),
    })
}

/// Calls of the kernel's worker that makes leaves wider, and their instructions.
fn worker(run: &BootResult) -> (u64, u64) {
    let kernel = run.phases.iter().map(|phase| &phase.kernel);
    let each = kernel.map(|kernel| (kernel.function_calls, kernel.function_instructions));
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn instructions_per_collapse(run: &BootResult) -> String {
    match (worker(run).1, collapses(run)) {
        (_, 0) => "-".into(),
        (instructions, collapses) => (instructions / collapses).to_string(),
    }
}

fn walks_per_1000(run: &BootResult, name: &str) -> String {
    let phase: Option<&PhaseCounts> = run.phases.iter().find(|phase| phase.name == name);
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
    use crate::sample;
    use wideleaf_guest::protocol::{LinearMoment, LinearReport, Outcome};
    use wideleaf_kbuild::Arch;

    /// A run with so many collapses, before the first phase and until the end, and so many calls of
    /// the worker, of 500 instructions each, in each of two phases.
    fn run(before: u64, until: u64, calls: u64) -> BootResult {
        let moment = |collapses| LinearMoment {
            events: [("collapses".to_string(), collapses)].into(),
            ..LinearMoment::default()
        };
        let mut run = sample::run(Variant::LinearMap, 1);
        run.outcome = Outcome::Linear(LinearReport {
            moments: [before, before, until].map(moment).into(),
            ..LinearReport::default()
        });
        let mut phase = run.phases[0].clone();
        phase.kernel.function_calls = calls;
        phase.kernel.function_instructions = calls * 500;
        run.phases = vec![phase.clone(), phase];
        run
    }

    fn agree(run: BootResult) -> Result<()> {
        let mut comparison = sample::comparison(1, 1);
        comparison.runs = vec![run];
        LinearWork.agree(&comparison)
    }

    #[test]
    fn a_collapse_costs_its_share_of_the_worker() {
        let run = run(7, 11, 3);
        let mut figures = Figures::default();
        LinearWork.figures(&run, &mut figures);
        let value = |name| figures.get(name).map(|figure| figure.value);
        assert_eq!(value("collapse_calls"), Some(6));
        assert_eq!(value("collapse_instructions"), Some(3000));
        assert_eq!(instructions_per_collapse(&run), "750");
        agree(run).unwrap();
    }

    #[test]
    fn a_kernel_without_collapses_has_none_to_count() {
        let run = run(7, 7, 0);
        let mut figures = Figures::default();
        LinearWork.figures(&run, &mut figures);
        assert_eq!(figures.get("collapse_calls"), None);
        assert_eq!(instructions_per_collapse(&run), "-");
        agree(run).unwrap();
    }

    #[test]
    fn collapses_without_a_call_are_an_error() {
        let error = agree(run(7, 8, 0)).unwrap_err().to_string();
        assert!(error.contains("no call of its worker"), "{error}");
    }

    #[test]
    fn the_disk_fits_the_ramdisk() {
        let check = |size| {
            let options = Options {
                size,
                ..Options::of(Arch::Arm64)
            };
            LinearWork.check(&options, PageSize::K4)
        };
        check(SIZE).unwrap();
        check(2 << 20).unwrap();
        check(2 << 30).unwrap();
        for wrong in [1 << 20, 3 << 20, (2 << 30) + (2 << 20), 4 << 30] {
            assert!(check(wrong).unwrap_err().contains("half"), "{wrong}");
        }
    }
}
