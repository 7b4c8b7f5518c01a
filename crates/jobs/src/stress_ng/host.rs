// SPDX-License-Identifier: GPL-2.0-only
//! Options, figures and table.

use super::sets::{self, MEMORY, SWAP};
use super::{End, NAME, Report, Set, Stressed, Task};
use crate::kit::deviations::{Deviation, Deviations, Ending, Endings, deviations};
use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::{Deserialize, Serialize};
use wideleaf_lab::choices;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::image::Room;
use wideleaf_lab::disk::installed::Install;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{Fs, GuestMemory, Overlay, Seed};
use wideleaf_lab::plan::{Asked, MOUNT_POINT, Plan};
use wideleaf_lab::results::Verdict;
use wideleaf_lab::results::figures::{Figure, Figures, figure};

/// Bytes for the files that stressors write, besides the swap file.
const ROOM: u64 = 1 << 30;

/// Files that they may make at once.
const FILES: u64 = 40_000;

/// Seconds that a guest may take besides those of its stressors, and for each besides those that
/// it may take.
const PATIENCE_S: u32 = 600;
const PATIENCE_EACH_S: u32 = 30;

/// Seconds that a stressor may take to begin and to end, and that a task may sleep uninterruptibly.
struct Limits {
    grace: u32,
    hung: u32,
}

const LIMITS: Limits = Limits {
    grace: 120,
    hung: 60,
};

/// Those of a kernel that checks itself.
const SLOW_LIMITS: Limits = Limits {
    grace: 600,
    hung: 120,
};

/// In the table's order.
const ENDINGS: [Ending; 4] = [
    Ending::Passed,
    Ending::Failed,
    Ending::Skipped,
    Ending::Killed,
];

/// Statuses of stress-ng for a stressor that lacks resources, and for one that is not implemented
/// here (its manual, "EXIT STATUS").
const SKIPPED: [i32; 2] = [3, 4];

/// Its status for options that it does not take.
const REFUSED: End = End::Exit(1);

/// fsx's lines that say what is wrong begin so.
const OF_FSX: &str = "[ERROR fsx]";

/// The job.
#[derive(Debug)]
pub struct StressNg;

/// The registry's entry.
pub const JOB: StressNg = StressNg;

/// Its options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Stressors of this set
    #[arg(long, value_name = "SET", default_value = "memory", value_parser = choices!(Set))]
    pub set: Set,
    /// These stressors, of any set [default: all of the set]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(sets::names()),
        hide_possible_values = true
    )]
    pub stressors: Vec<String>,
    /// Seconds that each lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    /// Over the disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub overlay: Overlay,
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub memory: GuestMemory,
    /// Of stress-ng.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
}

impl Job for StressNg {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            defaults: &[("cpus", "4")],
            examples: &[
                "stress-ng --set files --fs ext4",
                "stress-ng --stressors mremap,madvise,swap --seconds 60 --extra debug",
            ],
            ..Facts::new(
                NAME,
                "stress-ng, fsx and fsstress beside text that is executed",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let (own, common) = (asked.own, asked.common);
        let stressors = sets::chosen(&own.stressors, own.set);
        let limits = match common.extra.is_empty() {
            true => LIMITS,
            false => SLOW_LIMITS,
        };
        let each = own.seconds + limits.grace + PATIENCE_EACH_S;
        let limit = PATIENCE_S + each * stressors.len() as u32;
        let task = Task {
            root: MOUNT_POINT.into(),
            stressors,
            seconds: own.seconds,
            instances: common.cpus,
            swap: SWAP,
            seed: own.seed.seed,
            overlay: own.overlay.is_mounted,
            grace_s: limits.grace,
            hung_s: limits.hung,
        };
        let install = Install {
            packages: vec![NAME.into()],
            programs: sets::built(&task.stressors),
            room: Room {
                bytes: ROOM + SWAP,
                files: FILES,
            },
            ..Install::default()
        };
        let mut plan = Plan::new(&task, limit)
            .with_memory(own.memory.memory.unwrap_or(MEMORY))
            .with_disk(own.fs.disk(Contents::Installed(install)));
        plan.fragments.extend(own.overlay.fragments());
        // Debian has System V IPC, and for most kernels no emulation of nodes.
        if common.config.is_none() {
            for (fragment, parameter) in sets::needs(&task.stressors) {
                plan.fragments.push(fragment.into());
                plan.parameters.extend(parameter.map(String::from));
            }
        }
        Ok(plan)
    }

    fn judge(&self, report: &Report) -> Result<()> {
        let refused = report.stressors.iter().find(|one| one.end == REFUSED);
        if let Some(stressed) = refused {
            bail!(
                "stress-ng does not run {}: it takes no such options, or lacks memory to begin \
                 (status 1): {}",
                stressed.name,
                stressed.said
            );
        }
        let endings: Vec<_> = report.stressors.iter().map(ending).collect();
        let all_skipped = endings.iter().all(|ending| *ending == Ending::Skipped);
        // One alone may be what the series break: that is for a verdict.
        let none_passed = endings.len() > 1 && !endings.contains(&Ending::Passed);
        if all_skipped || none_passed {
            bail!(
                "no stressor passed: something is wrong with the guest: {}",
                complaints(report).join("; ")
            );
        }
        let executed = report.counts.get("executed").copied();
        ensure!(
            executed.unwrap_or_default() > 0,
            "the program beside the stressors was never executed"
        );
        Ok(())
    }

    fn warnings(&self, report: &Report) -> Vec<String> {
        let stressors = report.stressors.iter();
        let idle = stressors.filter(|one| ending(one) == Ending::Passed && one.operations == 0);
        idle.map(|one| format!("{}: passed, and did nothing", one.name))
            .collect()
    }

    fn verdicts(&self, measured: &Measured<'_, Self>) -> Vec<Verdict> {
        let alone = measured.variants().len() < 2;
        let reports = measured.runs.iter().map(|run| &run.report);
        let (expectation, count) = match alone {
            true => ("no stressor fails", reports.map(failures).sum()),
            false => ("no stressor ends worse", worse(&found(measured)).len()),
        };
        vec![Verdict {
            expectation: expectation.into(),
            comparison: measured.machine(),
            measured: Some(count as f64),
            passed: count == 0,
        }]
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let ended = |name, label| {
            figure(name, "stressors", "that ended so").row("stressors", label)
        };
        vec![
            ended("stressors.passed", "passed"),
            ended("stressors.failed", "failed"),
            ended("stressors.skipped", "skipped"),
            ended("stressors.killed", "killed"),
            figure("executed", "times", "the program was executed, and said what it should").shown("text", "executed"),
            figure("replaced", "times", "its file was replaced by another of the same name").shown("text", "replaced"),
            figure("truncated", "times", "what it was before was truncated").shown("text", "truncated"),
            figure("dropped", "times", "its pages were asked to leave the page cache").shown("text", "dropped"),
            figure("reclaimed", "pages", "taken by reclaim").shown("memory", "pages reclaimed"),
            figure("swapped_out", "pages", "written to the swap file").shown("memory", "pages swapped out"),
            figure("<stressor>.operations", "operations", "operations of all instances, bogo operations of stress-ng's; how many depends on the host's load"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        let name = |ending| format!("stressors.{ending}");
        for ending in ENDINGS {
            figures.put(name(ending), 0);
        }
        for stressed in &run.report.stressors {
            figures.add(&name(ending(stressed)), 1);
            figures.put(format!("{}.operations", stressed.name), stressed.operations);
        }
        for (name, count) in &run.report.counts {
            figures.put(name, *count);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let own = &measured.own;
        let overlay = own.overlay.title();
        format!(
            "stress-ng: {} s each, {} CPUs, {overlay}{},",
            own.seconds,
            measured.common.cpus,
            own.fs.fs.title()
        )
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let found = found(measured);
        let worse = worse(&found).into_iter().map(|d| format!("  worse: {d}"));
        let others = found.differences.iter().chain(&found.flaky);
        let others = others.filter(|one| !one.is_worse());
        let others = others.map(|d| format!("  differs: {d}"));
        let gained = found.gained.iter().map(|d| format!("  gained: {d}"));
        let of_run = |run: &Run<'_, Self>| {
            let of_one = |words| format!("  {}: {words}", run.variant);
            complaints(&run.report).into_iter().map(of_one).collect()
        };
        let said: Vec<Vec<String>> = measured.runs.iter().map(of_run).collect();
        let lines = worse.chain(others).chain(gained);
        lines.chain(said.into_iter().flatten()).collect()
    }
}

/// How a stressor ended.
fn ending(stressed: &Stressed) -> Ending {
    match stressed.end {
        End::Exit(0) => Ending::Passed,
        End::Exit(status) if SKIPPED.contains(&status) => Ending::Skipped,
        End::Exit(_) | End::Signal(_) => Ending::Failed,
        End::Killed => Ending::Killed,
    }
}

fn found(measured: &Measured<'_, StressNg>) -> Deviations {
    let endings = |report: &Report| {
        let mut endings = Endings::default();
        for stressed in &report.stressors {
            endings.add(stressed.name.clone(), ending(stressed));
        }
        endings
    };
    let runs = measured.runs.iter();
    deviations(runs.map(|run| (run.variant, endings(&run.report))))
}

/// Those that a further kernel ended worse than the first.
fn worse(found: &Deviations) -> Vec<&Deviation> {
    let all = found.differences.iter().chain(&found.flaky);
    all.filter(|one| one.is_worse()).collect()
}

/// Stressors that should have passed.
fn failures(report: &Report) -> usize {
    let endings = report.stressors.iter().map(ending);
    endings
        .filter(|ending| matches!(ending, Ending::Failed | Ending::Killed))
        .count()
}

/// The last words of stressors that did not pass.
fn complaints(report: &Report) -> Vec<String> {
    let stressors = report.stressors.iter();
    let others = stressors.filter(|one| ending(one) != Ending::Passed);
    others
        .map(|one| format!("{} {}: {}", one.name, ending(one), reason(one)))
        .collect()
}

/// The first line that says what is wrong: `stress-ng: fail:  [97] mmap: ...`, `[ERROR fsx] ...`; of
/// one that was killed, what its processes did.
fn reason(stressed: &Stressed) -> &str {
    let said = stressed.said.as_str();
    if stressed.end == End::Killed {
        return said.lines().next().unwrap_or_default();
    }
    let tells = |line: &&str| {
        let kinds = ["fail:", "error:", "info:", "warn:"];
        let kind = line.strip_prefix("stress-ng: ").unwrap_or_default();
        kinds.iter().any(|known| kind.starts_with(known)) || line.starts_with(OF_FSX)
    };
    let words = ["fail:", "skip", OF_FSX];
    let fails = |line: &&str| words.iter().any(|word| line.contains(word));
    let lines: Vec<_> = said.lines().filter(tells).collect();
    let first = lines.iter().copied().find(fails);
    first.or(lines.last().copied()).unwrap_or("said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_kbuild::Variant;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::sample::{comparison_of, run};

    fn stressed(end: End) -> Stressed {
        Stressed {
            name: "mremap".into(),
            end,
            operations: 7,
            said: String::new(),
        }
    }

    /// A pristine and a patched kernel under one stressor that ended so.
    fn compared(pristine: End, patched: End) -> wideleaf_lab::results::Comparison {
        let of = |variant, end| {
            let report = Report {
                stressors: vec![stressed(end)],
                counts: [("executed".to_owned(), 3)].into(),
            };
            let mut run = run(variant, 1);
            run.outcome = serde_json::to_value(report).unwrap();
            run
        };
        let runs = vec![
            of(Variant::Pristine, pristine),
            of(Variant::Patched, patched),
        ];
        comparison_of(&StressNg, runs)
    }

    #[test]
    fn what_fails_only_with_the_series_fails_the_run_and_is_named() {
        let (passed, failed) = (End::Exit(0), End::Exit(2));
        for (pristine, patched, is_right) in [
            (passed, passed, true),
            (failed, failed, true),
            (failed, passed, true),
            (End::Exit(4), passed, true),
            (passed, failed, false),
            (passed, End::Signal(11), false),
            (passed, End::Killed, false),
            (passed, End::Exit(3), false),
        ] {
            let comparison = compared(pristine, patched);
            let look = StressNg.look(&comparison).unwrap();
            assert_eq!(
                look.verdicts()[0].passed,
                is_right,
                "{pristine:?} {patched:?}"
            );
            let notes = look.notes().join("\n");
            assert_eq!(notes.contains("worse: mremap: "), !is_right, "{notes}");
        }
    }

    #[test]
    fn what_fails_where_nothing_stands_beside_fails_the_run() {
        let passed = |end| {
            let mut comparison = compared(end, end);
            comparison.runs.truncate(1);
            comparison.kernels.truncate(1);
            StressNg.look(&comparison).unwrap().verdicts()[0].passed
        };
        assert!(passed(End::Exit(0)) && passed(End::Exit(4)));
        assert!(!passed(End::Exit(2)) && !passed(End::Killed));
    }

    #[test]
    fn a_run_without_a_success_or_without_text_is_none() {
        let mut report = Report {
            stressors: vec![stressed(End::Exit(4))],
            counts: [("executed".to_owned(), 3)].into(),
        };
        let error = |report: &Report| Job::judge(&StressNg, report).unwrap_err().to_string();
        assert!(
            error(&report).contains("mremap skipped"),
            "{}",
            error(&report)
        );
        for end in [End::Exit(0), End::Exit(2)] {
            report.stressors[0].end = end;
            Job::judge(&StressNg, &report).unwrap();
        }
        report.stressors.push(stressed(End::Exit(2)));
        assert!(error(&report).contains("mremap failed"));
        report.stressors.pop();
        report.stressors[0].end = REFUSED;
        assert!(error(&report).contains("takes no such options"));
        report.stressors[0].end = End::Exit(0);
        report.stressors[0].operations = 0;
        assert!(StressNg.warnings(&report)[0].contains("mremap"));
        report.counts.clear();
        assert!(error(&report).contains("never executed"));
    }

    #[test]
    fn the_line_that_tells_is_shown() {
        let of = |end, said: &str| {
            let mut stressed = stressed(end);
            stressed.said = said.into();
            reason(&stressed).to_owned()
        };
        let said = "stress-ng: info:  [9] setting to a 10 secs run per stressor\n\
                    stress-ng: fail:  [11] mremap: mmap failed\n\
                    stress-ng: info:  [9] unsuccessful run completed\n";
        let failed = End::Exit(2);
        assert!(of(failed, said).contains("mmap failed"));
        let fsx = "[ERROR fsx] miscompare: offset= 0x1\n[ERROR fsx] Using seed 7\n";
        assert!(of(failed, fsx).contains("miscompare"));
        assert_eq!(of(failed, ""), "said nothing");
        let doing = "2 × stress-ng-link R running";
        assert_eq!(of(End::Killed, &format!("{doing}\n{said}")), doing);
    }

    #[test]
    fn stressors_are_chosen_by_name_or_by_set() {
        let names = |names: &[&str], set| -> Vec<String> {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let chosen = sets::chosen(&names, set);
            chosen.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names(&["vm", "rename"], Set::Files), ["vm", "rename"]);
        let memory = names(&[], Set::Memory);
        assert!(memory.len() > 30 && !memory.contains(&"rename".to_owned()));
    }

    #[test]
    fn only_stressors_that_need_more_of_the_kernel_ask_for_it() {
        let needs = |names: &[&str]| -> Vec<_> {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            sets::needs(&sets::chosen(&names, Set::Memory)).collect()
        };
        let nodes = ("numa", Some("numa=fake=2"));
        assert_eq!(needs(&["vm", "mremap"]), []);
        assert_eq!(needs(&["numa", "vm"]), [nodes]);
        assert_eq!(needs(&[]), [("sysvipc", None), nodes]);
    }
}
