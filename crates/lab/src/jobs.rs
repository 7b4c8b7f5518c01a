// SPDX-License-Identifier: GPL-2.0-only
//! The jobs, one file each, and the registry by which they are found.
//!
//! To add a job, write its file here and its side of the guest in
//! `crates/guest/src`, and name it below.

pub mod boot;
pub mod contpte;
pub mod entropy;
pub mod exec;
pub mod fault;
pub mod kunit;
pub mod linear_map;
pub mod linear_others;
pub mod linear_storm;
pub mod linear_work;
pub mod maintenance;
pub mod mm_selftests;
pub mod program;
pub mod shared_writes;
pub mod sizes;
pub mod sparse;
pub mod storm;

use crate::job::{Job, takes};
use crate::options::Setting;

/// The jobs that users are told of.
pub const JOBS: [&dyn Job; 16] = [
    &exec::Exec,
    &sizes::ExecSizes,
    &sparse::Sparse,
    &program::Programs,
    &entropy::Entropy,
    &storm::Storm,
    &linear_map::LinearMap,
    &linear_storm::LinearStorm,
    &linear_others::LinearOthers,
    &linear_work::LinearWork,
    &mm_selftests::MmSelftests,
    &kunit::Kunit,
    &shared_writes::SharedWrites,
    &contpte::Contpte,
    &maintenance::Maintenance,
    &boot::Boot,
];

/// The job of this name.
///
/// # Errors
///
/// A sentence that lists the known ones.
pub fn find(name: &str) -> Result<&'static dyn Job, String> {
    let faults = fault::FAULTS.iter().map(|fault| fault as &dyn Job);
    JOBS.into_iter()
        .chain(faults)
        .find(|job| job.name() == name)
        .ok_or_else(|| {
            let known = JOBS.map(|job| job.name()).join(", ");
            format!("unknown job '{name}': known are {known}")
        })
}

/// Refuses an option that the job does not take.
///
/// # Errors
///
/// A sentence that names the option, the job, and the jobs that take it.
pub fn check_takes(job: &dyn Job, setting: Setting) -> Result<(), String> {
    if takes(job, setting) {
        return Ok(());
    }
    let takers = JOBS.into_iter().filter(|job| takes(*job, setting));
    let takers: Vec<_> = takers.map(|job| job.name()).collect();
    let flag = setting.flag();
    Err(format!(
        "{flag} is no option of the job {}, only of {}",
        job.name(),
        takers.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{for_guest, usual};
    use crate::results::BootResult;
    use crate::results::figures::Figures;
    use crate::sample::{exec_report, run};
    use wideleaf_bench::sparse::SparseReport;
    use wideleaf_guest::protocol::{
        KunitReport, LinearMoment, LinearReport, Outcome, ProgramReport, ProgramRun,
        SelftestReport, SharedCase, SharedWritesReport, Spread,
    };
    use wideleaf_kbuild::Arch;
    use wideleaf_kbuild::Variant;

    #[test]
    fn names_round_trip_and_unknown_ones_list_the_public_ones() {
        for job in JOBS {
            assert_eq!(find(&job.name()).unwrap().name(), job.name());
        }
        let fault = find("selftest-early-power-off").unwrap();
        assert_eq!(fault.name(), "selftest-early-power-off");
        let error = find("exce").unwrap_err();
        assert!(
            error.starts_with("unknown job 'exce': known are exec, "),
            "{error}"
        );
        assert!(!error.contains("selftest-hang"), "{error}");
    }

    #[test]
    fn a_disk_is_mounted_where_there_is_one() {
        for job in JOBS {
            let options = usual(job, Arch::Arm64);
            let has_disk = job.contents(&options).is_some();
            assert_eq!(for_guest(job, &options).disk.is_some(), has_disk);
        }
    }

    /// An outcome of each job whose guest counts anything.
    fn outcomes() -> Vec<Outcome> {
        let report = exec_report();
        let phase = || report.random.clone().unwrap();
        let sparse = SparseReport {
            pattern: "sweep".into(),
            size: 1 << 20,
            page_size: 65536,
            executed_bytes: 1,
            address: 0,
            cold: phase(),
            random: phase(),
            resident: 0,
        };
        let program = ProgramReport {
            name: "perl".into(),
            cold: ProgramRun::default(),
            warm: ProgramRun::default(),
            complaint: String::new(),
            text: Vec::new(),
        };
        let shared = SharedWritesReport {
            cases: vec![SharedCase {
                name: "disk.large".into(),
                id: 1,
                ..SharedCase::default()
            }],
            ..SharedWritesReport::default()
        };
        let spread = Spread {
            name: "pie-1M".into(),
            loads: 2,
            varying: 1,
            min: 0,
            max: 1,
            distinct: 2,
        };
        vec![
            Outcome::Exec {
                report: exec_report(),
                read_ahead_kb: None,
            },
            Outcome::ExecSizes {
                reports: vec![exec_report()],
                read_ahead_kb: None,
            },
            Outcome::Sparse {
                reports: vec![sparse],
                read_ahead_kb: None,
            },
            Outcome::Programs {
                programs: vec![program],
            },
            Outcome::Entropy {
                spreads: vec![spread],
            },
            Outcome::MmSelftests(SelftestReport::default()),
            Outcome::Linear(linear()),
            Outcome::Kunit(KunitReport { suites: Vec::new() }),
            Outcome::SharedWrites(shared),
        ]
    }

    fn linear() -> LinearReport {
        let moment = |(name, collapses): (&str, u64)| LinearMoment {
            name: name.into(),
            leaves: [("2M".to_string(), 1)].into(),
            table_bytes: Some(1),
            events: [("splits".to_string(), 1), ("collapses".into(), collapses)].into(),
        };
        let counts = [
            "secrets",
            "filters",
            "refused",
            "checked_bytes",
            "settled_ms",
        ];
        LinearReport {
            moments: [("boot", 2), ("settled", 3)].map(moment).into(),
            counts: counts.map(|name| (name.to_string(), 1)).into(),
        }
    }

    /// Whether a name of docs/lab-schema.md is that of a figure: `<leaf>` stands for
    /// anything, `*` for the rest, and what is in front may be a phase or a program.
    fn names(pattern: &str, figure: &str) -> bool {
        let parts = pattern.split('.').skip_while(|part| part.starts_with('<'));
        let parts: Vec<_> = parts.collect();
        let figure: Vec<_> = figure.split('.').collect();
        let same =
            |(part, word): (&&str, &&str)| part == word || part.starts_with('<') || *part == "*";
        // What is called `unmapped` is said beside `text.<leaf>`.
        figure.len() >= parts.len()
            && parts
                .iter()
                .zip(&figure[figure.len() - parts.len()..])
                .all(same)
    }

    /// Whether a row of the table, `| names | unit | what |`, documents a figure.
    fn documents(row: &str, name: &str, unit: &str) -> bool {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, names_cell, unit_cell, ..] = cells[..] else {
            return false;
        };
        let names_of_it = names_cell.split('`').skip(1).step_by(2);
        let mut named = names_of_it.filter(|pattern| *pattern != "*");
        unit_cell.split(", ").any(|known| known == unit)
            && named.any(|pattern| names(pattern, name))
    }

    #[test]
    fn every_jobs_figures_are_documented_with_their_units() {
        let doc = std::fs::read_to_string("../../docs/lab-schema.md").unwrap();
        for outcome in outcomes() {
            let run = BootResult {
                outcome,
                ..run(Variant::Patched, 1)
            };
            let mut all = Figures::default();
            JOBS.iter().for_each(|job| job.figures(&run, &mut all));
            assert!(all.iter().count() > 2, "{:?}", run.outcome);
            for (name, figure) in all.iter() {
                assert!(
                    doc.lines().any(|row| documents(row, name, figure.unit)),
                    "docs/lab-schema.md lacks {name} in {}",
                    figure.unit
                );
            }
        }
        let row = "| `text.<leaf>` | bytes | of the mapping |";
        assert!(documents(row, "2M.text.64K", "bytes"));
        assert!(!documents(row, "2M.text.64K", "pages"));
        assert!(!documents(row, "2M.txt.64K", "bytes"));
    }
}
