// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::account::{self, Account, account};
use super::record::trace;
use super::{NAME, Report, Task};
use crate::kit::description::Description;
use crate::kit::known::{self, Chosen};
use crate::kit::text::no_large_folios;
use crate::kit::worked::{self, difference};
use anyhow::{Context, Error, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use wideleaf_kbuild::Arch;
use wideleaf_kit::replace::replace;
use wideleaf_kit::size::short;
use wideleaf_lab::job::{Facts, Job, Measured, Part, Run};
use wideleaf_lab::options::{Fs, Overlay, ReadAhead, Scarce};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures};
use wideleaf_lab::results::row::Row;
use wideleaf_policy::trace::SUFFIX;

/// The job.
#[derive(Debug)]
pub struct Programs;

/// The registry's entry.
pub const JOB: Programs = Programs;

/// The options.
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
    /// Give programs and libraries to 'wideleaf align' before they are put on the
    /// disk
    #[arg(long)]
    pub align: bool,
    /// Write which pages of text are touched first, a file for each program, for
    /// 'wideleaf policy simulate --trace'
    #[arg(long, value_name = "FOLDER")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Over the disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub overlay: Overlay,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub scarce: Scarce,
}

fn help() -> String {
    format!(
        "Programs, with commas between, or all: {} [default: the first {}]",
        known::names(),
        known::USUAL.len()
    )
}

impl Options {
    /// These, but for another choice of programs.
    fn only(&self, chosen: &[&Chosen]) -> Self {
        let names = chosen.iter().map(|chosen| chosen.description.name.clone());
        Self {
            programs: names.collect(),
            add: chosen
                .iter()
                .filter_map(|chosen| chosen.file.clone())
                .collect(),
            ..self.clone()
        }
    }
}

impl Job for Programs {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &[
                "program --base 7.3",
                "program --programs openssl-shifted --page-size 16K --align",
                "program --programs gcc,clang --arch x86_64",
                "program --programs all --base all",
            ],
            ..Facts::new(NAME, "programs of Debian, from perl to a database")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let chosen = known::choose(&own.programs, &own.add, asked.arch).map_err(Error::msg)?;
        let mut all = chosen.iter().map(|chosen| &chosen.description);
        let first = all.next().context("--programs: name one at least")?;
        if let Some(other) = all.find(|other| other.disk != first.disk) {
            let (one, other) = (&first.name, &other.name);
            bail!("{one} and {other} have a disk each: run one of them");
        }
        let all = || chosen.iter().map(|chosen| &chosen.description);
        let task = Task {
            root: MOUNT_POINT.into(),
            programs: all().map(|known| known.program.clone()).collect(),
            record: own.trace.is_some(),
            overlay: own.overlay.is_mounted,
        };
        if task.record && task.overlay {
            bail!("--trace records files of the disk itself: leave out --overlay");
        }
        let disk = Disk {
            aligned: own.align,
            ..own.fs.disk(first.disk.clone())
        };
        let fragments = all().flat_map(|known| known.kernel.iter().cloned());
        let fragments: BTreeSet<_> = fragments.chain(own.overlay.fragments()).collect();
        let most = |of: fn(&Description) -> u64| all().map(of).max().unwrap_or_default();
        let plan = Plan {
            pressure: own.scarce.pressure(),
            fragments: fragments.into_iter().collect(),
            ..Plan::new(&task, most(|known| known.seconds.into()) as u32)
        };
        let plan = plan.with_memory(most(|known| known.memory));
        Ok(plan.with_disk(own.window.of(disk, asked.page_size)?))
    }

    fn parts(&self, own: &Options, arch: Arch) -> Result<Vec<Part<Options>>> {
        if own.programs.is_empty() && own.add.is_empty() {
            return Ok(Vec::new());
        }
        let chosen = known::choose(&own.programs, &own.add, arch).map_err(Error::msg)?;
        let (shared, alone): (Vec<_>, Vec<_>) = chosen
            .iter()
            .partition(|chosen| chosen.description.shares_its_disk());
        let groups = [shared].into_iter().filter(|shared| !shared.is_empty());
        let groups = groups.chain(alone.into_iter().map(|one| vec![one]));
        let part = |group: Vec<&Chosen>| {
            let own = own.only(&group);
            (own.programs.join(","), own)
        };
        Ok(groups.map(part).collect())
    }

    fn judge(&self, report: &Report) -> Result<()> {
        match report
            .programs
            .iter()
            .find_map(|program| worked::failure(program))
        {
            Some(why) => bail!(why),
            None => Ok(()),
        }
    }

    fn warnings(&self, report: &Report) -> Vec<String> {
        let programs = report.programs.iter();
        programs
            .filter_map(|program| worked::unseen(program))
            .collect()
    }

    fn keep(
        &self,
        measured: &Measured<'_, Self>,
        packages: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<()> {
        let (Some(folder), Some(run)) = (&measured.own.trace, measured.runs.first()) else {
            return Ok(());
        };
        let packages = packages()?;
        fs::create_dir_all(folder)
            .with_context(|| format!("--trace: cannot create {}", folder.display()))?;
        for worked in &run.report.programs {
            let trace = trace(worked, &run.touched, measured.arch, &packages)?;
            let path = folder.join(file_of(&worked.name, measured.arch));
            replace(&path, trace.text())
                .with_context(|| format!("--trace: cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn agree(&self, measured: &Measured<'_, Self>) -> Result<()> {
        let Some((first, others)) = measured.runs.split_first() else {
            return Ok(());
        };
        for run in others {
            let pairs = first.report.programs.iter().zip(&run.report.programs);
            for (one, other) in pairs {
                if one.cold.output != other.cold.output {
                    let (a, b) = (first.variant, run.variant);
                    bail!(
                        "{} wrote something else in {a} and in {b}: {}",
                        one.name,
                        difference(&one.cold.output, &other.cold.output)
                    );
                }
            }
        }
        Ok(())
    }

    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        let of_run = |run: &Run<'_, Self>| {
            let programs = run.report.programs.iter();
            let differing = programs.map(|program| account(run, program).disagreements());
            let differing: u64 = differing.sum();
            Verdict {
                expectation: format!("{}: whole blocks are as inspect predicts", run.variant),
                comparison: measured.machine(),
                measured: Some(differing as f64),
                passed: differing == 0,
            }
        };
        measured.runs.iter().map(of_run).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        [worked::figures(), account::figures()].concat()
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for program in &run.report.programs {
            worked::measure(run, program, figures);
            account(run, program).measure(&program.name, figures);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let own = &measured.own;
        let aligned = if own.align { "aligned " } else { "" };
        let names = match own.programs.is_empty() {
            true => "programs".into(),
            false => own.programs.join(", "),
        };
        let overlay = own.overlay.title();
        format!(
            "{aligned}{names} of Debian 13 on {overlay}{},",
            own.fs.fs.title()
        )
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let first = measured.runs.first().map(|run| &run.report.programs);
        let names = first.into_iter().flatten().map(|program| &program.name);
        let rows = |name: &String| {
            let found = |report: &'_ Report| {
                let mut programs = report.programs.iter();
                programs.position(|program| program.name == *name)
            };
            let worked = worked::rows(measured, name, |report: &Report| {
                found(report).map(|at| &report.programs[at].of)
            });
            let account = |cell: fn(&Account) -> String| {
                move |run: &Run<'_, Self>| {
                    let program = found(&run.report).map(|at| &run.report.programs[at]);
                    program.map_or("-".into(), |program| cell(&account(run, program)))
                }
            };
            let rows = [
                measured.row(name, "all text", account(Account::shares)),
                measured.row(
                    name,
                    "whole blocks, by inspect",
                    account(Account::agreement),
                ),
            ];
            worked.into_iter().chain(rows).collect::<Vec<_>>()
        };
        names.flat_map(rows).collect()
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let own = &measured.own;
        let mut notes = vec![
            format!("  readahead window {}", short(own.window.read_ahead)),
            "  text: of each process of a third run, at its exit; aligned: the widest power of two that \
             divides address - offset"
                .into(),
        ];
        if let Some(folder) = &own.trace {
            let names = own.programs.iter().map(|name| file_of(name, measured.arch));
            let names: Vec<_> = names.collect();
            notes.push(format!(
                "  traces: {} in {}",
                names.join(", "),
                folder.display()
            ));
        }
        notes.extend(no_large_folios(own.fs.fs, measured.base));
        notes
    }
}

/// The name of a program's trace.
fn file_of(program: &str, arch: Arch) -> String {
    format!("{program}.{arch}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::super::{Predicted, Reach};
    use super::*;
    use std::collections::BTreeMap;
    use wideleaf_guest::kit::program::Worked;
    use wideleaf_guest::kit::trace::Mapped;
    use wideleaf_kbuild::{PageSize, Variant};
    use wideleaf_lab::job::{AnyJob, usual};
    use wideleaf_lab::sample;
    use wideleaf_outlook::Kernel;

    fn options(words: &str) -> Options {
        let command = clap::Command::new("x").no_binary_name(true);
        let matches = Options::augment_args(command).get_matches_from(words.split_whitespace());
        clap::FromArgMatches::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn programs_that_share_a_disk_run_in_one_boot_and_others_alone() {
        let parts = |words: &str| {
            let parts = Job::parts(&Programs, &options(words), Arch::X86_64).unwrap();
            parts.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(parts(""), [""; 0]);
        let asked = "--programs gcc,stubs-musl,perl,clang";
        assert_eq!(parts(asked), ["perl,stubs-musl", "clang", "gcc"]);
        assert_eq!(parts("--programs all")[0], known::USUAL.join(","));
        let asked = options(&format!("{asked} --align"));
        let of_gcc = &Job::parts(&Programs, &asked, Arch::X86_64).unwrap()[2];
        assert_eq!(of_gcc.1, options("--programs gcc --align"));
    }

    #[test]
    fn programs_that_share_a_boot_get_what_each_of_them_needs() {
        let dir = tempfile::tempdir().unwrap();
        let add = |name: &str, more: &str| {
            let path = dir.path().join(name);
            let text = format!("about = 'x'\ndisk = 'userland'\ncommands = ['/bin/x']\n{more}");
            fs::write(&path, text).unwrap();
            format!("--add {}", path.display())
        };
        let one = add("one.toml", "memory = '4G'\nkernel = ['sysvipc']\n");
        let other = add("two.toml", "seconds = 1000\nkernel = ['numa']\n");
        let own = serde_json::to_value(options(&format!("--programs perl,one,two {one} {other}")))
            .unwrap();
        let (common, _) = usual(&Programs);
        let plan = AnyJob::plan(&Programs, &common, &own, Arch::X86_64, PageSize::K4).unwrap();
        assert_eq!(plan.memory, 4 << 30);
        assert_eq!(plan.fragments, ["numa", "sysvipc"]);
        assert!(plan.time_limit_s >= 1000, "{}", plan.time_limit_s);
    }

    fn worked(change: impl FnOnce(&mut Worked)) -> Report {
        let mut worked = Worked {
            name: "x".into(),
            ..Worked::default()
        };
        change(&mut worked);
        Report {
            programs: vec![worked.into()],
        }
    }

    #[test]
    fn a_program_that_failed_or_wrote_something_else_is_named() {
        assert!(Job::judge(&Programs, &worked(|_| ())).is_ok());
        let error = Job::judge(&Programs, &worked(|w| w.complaint = "status 3".into()));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("x failed: status 3")
        );
        let error = Job::judge(
            &Programs,
            &worked(|w| {
                w.cold.output = "a\nb\n".into();
                w.warm.output = "a\nc\n".into();
            }),
        );
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("x wrote") && error.contains("'b' and 'c'"),
            "{error}"
        );
        assert_eq!(Programs.warnings(&worked(|_| ())), [""; 0]);
        let warnings = Programs.warnings(&worked(|w| (w.processes, w.unseen) = (5, 2)));
        assert!(warnings[0].contains("2 of 5"), "{warnings:?}");
    }

    #[test]
    fn a_mapping_that_inspect_predicts_otherwise_fails_the_run() {
        const M2: u64 = 2 << 20;
        let passed = |block: u64| {
            let reach = Reach {
                aligned: M2,
                leaves: BTreeMap::from([(M2, M2)]),
            };
            let mut report = worked(|worked| {
                worked.text = vec![Mapped {
                    id: 0,
                    file: "/x".into(),
                    start: M2,
                    len: M2,
                    offset: 0,
                    block,
                    mapping: 0,
                }];
            });
            report.programs[0].predicted = vec![Predicted {
                file: "/x".into(),
                len: M2,
                kernels: BTreeMap::from([(Kernel::Pristine73.name().into(), reach)]),
                ..Predicted::default()
            }];
            let mut run = sample::run(Variant::Pristine, 1);
            run.outcome = serde_json::to_value(report).unwrap();
            let comparison = sample::comparison_of(&Programs, vec![run]);
            let looked = AnyJob::look(&Programs, &comparison).unwrap();
            looked.verdicts()[0].passed
        };
        assert!(passed(M2));
        assert!(!passed(64 << 10));
    }

    #[test]
    fn the_tables_figures_are_headlines() {
        let job: &dyn AnyJob = &Programs;
        assert!(job.is_headline("stubs-musl.warm.walks"));
        assert!(!job.is_headline("perl.warm.kernel_instructions"));
        assert!(!job.is_headline("perl.libc.so.6.text.64K"));
    }
}
