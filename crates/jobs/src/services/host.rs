// SPDX-License-Identifier: GPL-2.0-only
//! The host's side: options, figures, table.

use super::{NAME, Report, Task, Way, name_of};
use crate::kit::known::{self, Chosen};
use crate::kit::text::no_large_folios;
use crate::kit::worked::{self, failure};
use anyhow::{Context, Error, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wideleaf_guest::kit::program::Worked;
use wideleaf_kbuild::Arch;
use wideleaf_kit::size::short;
use wideleaf_lab::choices;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::system::{IMAGE, ROOT};
use wideleaf_lab::job::{Facts, Job, Measured, Part, Run};
use wideleaf_lab::options::{Fs, ReadAhead};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures};
use wideleaf_lab::results::row::Row;

/// The loads that run unless told.
const USUAL: [&str; 2] = ["openssl-alone", "redis"];

/// Seconds of the host that a guest may take: it boots a system, and starts containers.
const SECONDS: u32 = 3600;

/// Memory of a guest: its system's, and what images are read into.
const MEMORY: u64 = 2 << 30;

/// The job.
#[derive(Debug)]
pub struct Services;

/// The registry's entry.
pub const JOB: Services = Services;

/// Its options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    // The names are those of files.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = help())]
    #[allow(missing_docs)]
    pub programs: Vec<String>,
    /// A program of your own (docs/jobs/program.md); may be repeated
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    pub add: Vec<PathBuf>,
    /// How each runs: as a service of systemd, in a container on an overlay over a
    /// folder, in one over an EROFS image
    #[arg(
        long,
        value_name = "WAYS",
        value_delimiter = ',',
        default_value = "service,overlay,erofs",
        value_parser = choices!(Way)
    )]
    pub ways: Vec<Way>,
    /// Seconds of guest time after which a program is ended that still runs; one is
    /// a thousand million instructions
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
}

fn help() -> String {
    format!(
        "Programs, with commas between, with packages of their own, as the job program knows them \
         [default: {}]",
        USUAL.join(",")
    )
}

impl Options {
    /// The programs, each with a disk of its own.
    fn chosen(&self, arch: Arch) -> Result<Vec<Chosen>> {
        let mut names = self.programs.clone();
        if names.is_empty() && self.add.is_empty() {
            names = USUAL.map(String::from).to_vec();
        }
        known::choose(&names, &self.add, arch).map_err(Error::msg)
    }

    /// These, but for one program.
    fn only(&self, chosen: &Chosen) -> Self {
        Self {
            programs: vec![chosen.description.name.clone()],
            add: chosen.file.iter().cloned().collect(),
            ..self.clone()
        }
    }
}

impl Job for Services {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            fragments: &["systemd"],
            examples: &[
                "services --base 7.3 --arch x86_64",
                "services --programs postgresql --ways service,overlay --fs ext4",
            ],
            ..Facts::new(NAME, "programs as services of systemd, and in containers")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let chosen = own.chosen(asked.arch)?;
        let description = &chosen
            .first()
            .context("--programs: name one at least")?
            .description;
        let Contents::Installed(install) = &description.disk else {
            bail!(
                "--programs: {} is one of the lab's small user land, and has no packages that a \
                 machine could have: known are those of docs/jobs/services.md, and --add takes others",
                description.name
            );
        };
        let task = Task {
            program: description.program.clone(),
            ways: own.ways.clone(),
            limit_s: own.limit,
            root: ROOT.into(),
            image: IMAGE.into(),
        };
        let loads = own.limit.saturating_mul(own.ways.len() as u32);
        let disk = own.fs.disk(Contents::System(install.clone()));
        let plan = Plan {
            fragments: description.kernel.clone(),
            ..Plan::new(
                &task,
                SECONDS.max(description.seconds).saturating_add(loads),
            )
        };
        let plan = plan.with_memory(MEMORY.max(description.memory));
        Ok(plan.with_disk(own.window.of(disk, asked.page_size)?))
    }

    fn parts(&self, own: &Options, arch: Arch) -> Result<Vec<Part<Options>>> {
        let chosen = own.chosen(arch)?;
        let part = |chosen: &Chosen| (chosen.description.name.clone(), own.only(chosen));
        Ok(chosen.iter().map(part).collect())
    }

    fn warnings(&self, report: &Report) -> Vec<String> {
        let failed = report.loads.iter().filter_map(failure);
        failed
            .chain(report.loads.iter().filter_map(worked::unseen))
            .collect()
    }

    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        let reports = measured.runs.iter().map(|run| &run.report);
        let failed = reports
            .clone()
            .flat_map(|report| &report.loads)
            .filter_map(failure)
            .count();
        let first = measured.runs.first().map(|run| &run.report.loads);
        let outputs = first
            .into_iter()
            .flatten()
            .filter(|load| failure(load).is_none());
        let others = |load: &&Worked| {
            let mut all = reports.clone().flat_map(|report| &report.loads);
            all.any(|other| failure(other).is_none() && other.cold.output != load.cold.output)
        };
        let verdict = |expectation: &str, count: usize| Verdict {
            expectation: expectation.into(),
            comparison: measured.machine(),
            measured: Some(count as f64),
            passed: count == 0,
        };
        vec![
            verdict("no load fails", failed),
            verdict(
                "a load writes the same each way, with each kernel",
                outputs.filter(others).count(),
            ),
        ]
    }

    fn figures(&self) -> Vec<Figure> {
        worked::figures()
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        let done = run
            .report
            .loads
            .iter()
            .filter(|load| failure(load).is_none());
        done.for_each(|load| worked::measure(run, load, figures));
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let own = &measured.own;
        let fs = own.fs.fs.title();
        format!(
            "{} of Debian 13 under systemd and Podman on {fs},",
            own.programs.join(", ")
        )
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let own = &measured.own;
        let names = own.programs.iter();
        let names = names.flat_map(|program| own.ways.iter().map(|way| name_of(program, *way)));
        let rows = |name: String| {
            worked::rows(measured, &name, |report: &Report| {
                report.loads.iter().find(|load| load.name == name)
            })
        };
        names.flat_map(rows).collect()
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let own = &measured.own;
        let mut notes = vec![
            format!("  readahead window {}", short(own.window.read_ahead)),
            "  service: under systemd; overlay: in a container, over a folder of the disk; erofs: the \
             same over\n  an EROFS image"
                .into(),
        ];
        notes.extend(no_large_folios(own.fs.fs, measured.base));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json, to_value};
    use wideleaf_kbuild::{PageSize, Variant};
    use wideleaf_lab::job::{AnyJob, usual};
    use wideleaf_lab::sample;

    fn asked(change: Value) -> Value {
        let mut own = usual(&Services).1;
        for (name, value) in change.as_object().unwrap() {
            own[name] = value.clone();
        }
        own
    }

    #[test]
    fn each_program_has_a_boot_of_its_own() {
        let parts = |own: Value| {
            let parts = AnyJob::parts(&Services, &own, Arch::X86_64).unwrap();
            parts.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(parts(asked(json!({}))), USUAL);
        let asked = asked(json!({ "programs": ["redis", "gcc"] }));
        assert_eq!(parts(asked), ["gcc", "redis"]);
    }

    #[test]
    fn a_program_without_packages_is_refused() {
        let (common, own) = (usual(&Services).0, asked(json!({ "programs": ["perl"] })));
        let plan = |own| AnyJob::plan(&Services, &common, own, Arch::X86_64, PageSize::K4);
        let error = plan(&own).unwrap_err().to_string();
        assert!(error.contains("perl") && error.contains("--add"), "{error}");
        assert!(plan(&asked(json!({}))).is_ok());
    }

    /// A load as the guest answers.
    fn load(way: Way, output: &str, complaint: &str) -> Worked {
        let mut load = Worked {
            name: name_of("x", way),
            complaint: complaint.into(),
            ..Worked::default()
        };
        load.cold.output = output.into();
        load.warm.output = output.into();
        load.warm.minor_faults = 7;
        load
    }

    #[test]
    fn a_load_that_fails_is_named_and_the_others_keep_their_figures() {
        let loads = [
            load(Way::Service, "a", ""),
            load(Way::Overlay, "", "no such image"),
        ];
        let run = |loads: &[Worked]| {
            let mut run = sample::run(Variant::Pristine, 1);
            run.outcome = to_value(Report {
                loads: loads.to_vec(),
            })
            .unwrap();
            run
        };
        let figures = AnyJob::measure(&Services, &run(&loads)).unwrap();
        assert_eq!(
            figures
                .get("x.service.warm.faults")
                .map(|count| count.value),
            Some(7)
        );
        assert!(figures.get("x.overlay.warm.faults").is_none());
        let warnings = AnyJob::judge(&Services, &run(&loads).outcome).unwrap();
        assert_eq!(warnings, ["x.overlay failed: no such image"]);
        let passed = |loads: &[Worked]| {
            let comparison = sample::comparison_of(&Services, vec![run(loads)]);
            let verdicts = AnyJob::look(&Services, &comparison).unwrap().verdicts();
            verdicts
                .iter()
                .map(|verdict| verdict.passed)
                .collect::<Vec<_>>()
        };
        assert_eq!(passed(&loads), [false, true]);
        assert_eq!(passed(&loads[..1]), [true, true]);
        let other = [load(Way::Service, "a", ""), load(Way::Erofs, "b", "")];
        assert_eq!(passed(&other), [true, false]);
    }
}
