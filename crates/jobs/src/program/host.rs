// SPDX-License-Identifier: GPL-2.0-only
//! What is asked, counted and shown.

use super::known::{self, Chosen};
use super::record::trace;
use super::{NAME, Report, Task, Worked};
use crate::kit::text::no_large_folios;
use anyhow::{Context, Error, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use wideleaf_guest::kit::trace::Mapped;
use wideleaf_kbuild::Arch;
use wideleaf_kit::replace::replace;
use wideleaf_kit::size::short;
use wideleaf_lab::job::{Facts, Job, Measured, Part, Run};
use wideleaf_lab::options::{Fs, Overlay, ReadAhead, Scarce};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::BootResult;
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{self, Row, shown};
use wideleaf_policy::trace::SUFFIX;

/// Text below this is of no file that a wide leaf could map.
const SMALL: u64 = 64 << 10;

/// The job.
#[derive(Debug)]
pub struct Programs;

/// The registry's entry.
pub const JOB: Programs = Programs;

/// What it takes.
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
    /// Write into this folder, a file for each program, which pages of text it
    /// touches first and in which order: 'wideleaf policy simulate --trace' runs
    /// them
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

/// How two texts differ first: the lines, cut to what a message can hold.
fn difference(one: &str, other: &str) -> String {
    let cut = |line: Option<&str>| match line {
        Some(line) => format!("'{}'", line.chars().take(100).collect::<String>()),
        None => "nothing".into(),
    };
    let (mut one, mut other) = (one.lines(), other.lines());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return "ends of lines".into(),
            (a, b) if a != b => return format!("{} and {}", cut(a), cut(b)),
            _ => {}
        }
    }
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
            ..Facts::new(
                NAME,
                "programs of Debian, from perl to a database, under the real ld.so, and a library under \
                 musl's: faults, instructions, bytes read, TLB misses, page walks, leaves by file",
            )
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
        let plan = Plan {
            pressure: own.scarce.pressure(),
            fragments: first
                .kernel
                .iter()
                .cloned()
                .chain(own.overlay.fragments())
                .collect(),
            ..Plan::new(
                &task,
                all().map(|known| known.seconds).max().unwrap_or_default(),
            )
        };
        let plan = plan.with_memory(first.memory);
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
        for Worked {
            name,
            complaint,
            cold,
            warm,
            ..
        } in &report.programs
        {
            ensure!(complaint.is_empty(), "{name} failed: {complaint}");
            ensure!(
                cold.output == warm.output,
                "{name} wrote something else the second time: {}",
                difference(&cold.output, &warm.output)
            );
        }
        Ok(())
    }

    fn warnings(&self, report: &Report) -> Vec<String> {
        let unseen = report.programs.iter().filter(|worked| worked.unseen > 0);
        let warning = |worked: &Worked| {
            format!(
                "{}: the text of {} of {} processes was not seen: a signal ended them, or they were \
                 too many",
                worked.name, worked.unseen, worked.processes
            )
        };
        unseen.map(warning).collect()
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

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let cold = "cold faults (minor/major)";
        vec![
            figure("<program>.cold.minor_faults", "faults", "of its processes in a run from an empty page cache, without reading from the disk").row("", cold),
            figure("<program>.cold.major_faults", "faults", "with reading").row("", cold),
            figure("<program>.cold.faults", "faults", "both").plotted("faults, cold"),
            counted("<program>.cold.instructions").row("", "cold guest instructions").plotted("guest instructions, cold"),
            figure("<program>.cold.read_bytes", "bytes", "read from the guest's disk").row("", "cold bytes read from disk").plotted("bytes read, cold"),
            figure("<program>.cold.page_cache", "bytes", "by which the page cache grew").row("", "page cache, cold"),
            figure("<program>.warm.minor_faults", "faults", "of the run after that, without reading from the disk"),
            figure("<program>.warm.major_faults", "faults", "with reading"),
            figure("<program>.warm.faults", "faults", "both").row("", "warm faults"),
            figure("<program>.warm.read_bytes", "bytes", "read from the guest's disk"),
            counted("<program>.warm.instructions").row("", "warm guest instructions").plotted("guest instructions, warm"),
            counted("<program>.warm.itlb_l1_misses").row("", "warm L1 iTLB misses").plotted("L1 iTLB misses, warm"),
            counted("<program>.warm.walks").row("", "warm page walks").plotted("page walks, warm"),
            counted("<program>.warm.text_walks").row("", "warm page walks for text"),
            figure("<program>.page_tables", "bytes", "of page tables of the process that had most, at its end").row("", "page tables"),
            figure("<program>.<file>.text.<leaf>", "bytes", "of the file's executable mappings that leaves of this size map at the end, in all processes"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for report in &run.report.programs {
            for (phase, of) in [("cold", &report.cold), ("warm", &report.warm)] {
                let mut put = |what, value| {
                    figures.put(format!("{}.{phase}.{what}", report.name), value);
                };
                put("minor_faults", of.minor_faults);
                put("major_faults", of.major_faults);
                put("faults", of.minor_faults + of.major_faults);
                put("read_bytes", of.read_bytes);
            }
            let name = &report.name;
            figures.put(format!("{name}.cold.page_cache"), report.cold.page_cache);
            figures.put(format!("{name}.page_tables"), report.page_tables);
            for (file, text) in texts(run, report) {
                figures.put_leaves(&format!("{}.{file}.text", report.name), &text.leaves);
            }
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
        let Some(run) = measured.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for report in &run.report.programs {
            let name = &report.name;
            let figures = self.figures();
            let shown = shown(&figures).into_iter();
            rows.extend(shown.map(|shown| shown.of_case(measured, name, name, shown.label)));
            rows.extend(text_rows(measured, report));
        }
        rows
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

/// What maps a file's text.
#[derive(Default)]
struct Text {
    leaves: BTreeMap<String, u64>,
    len: u64,
    /// Address less offset, of the first mapping.
    bias: u64,
}

/// By file, without those that are too small to matter.
fn texts(run: &BootResult, report: &Worked) -> BTreeMap<String, Text> {
    let mut texts: BTreeMap<String, Text> = BTreeMap::new();
    for mapped in &report.text {
        let Some(coverage) = run.coverage.iter().find(|c| c.id == mapped.id) else {
            continue;
        };
        let text = texts.entry(file_name(mapped)).or_insert_with(|| Text {
            bias: mapped.start - mapped.offset,
            ..Text::default()
        });
        text.add(coverage.len, &coverage.leaves);
    }
    texts.retain(|_, text| text.len >= SMALL);
    texts
}

impl Text {
    fn add(&mut self, len: u64, leaves: &BTreeMap<String, u64>) {
        self.len += len;
        for (leaf, bytes) in leaves {
            *self.leaves.entry(leaf.clone()).or_default() += bytes;
        }
    }

    fn is_wide(&self, page: &str) -> bool {
        let mut mapped = self.leaves.iter().filter(|(_, bytes)| **bytes > 0);
        mapped.any(|(leaf, _)| leaf != page && leaf != "unmapped")
    }

    fn shares(&self) -> String {
        row::shares(&self.leaves, self.len)
    }

    fn alignment(&self) -> u64 {
        1 << self.bias.trailing_zeros()
    }
}

fn file_name(mapped: &Mapped) -> String {
    let name = mapped.file.rsplit('/').next();
    name.unwrap_or(&mapped.file).to_string()
}

/// A row for each file that a kernel maps by a leaf wider than a page, and one for all others.
fn text_rows(measured: &Measured<'_, Programs>, report: &Worked) -> Vec<Row> {
    let of = |run: &Run<'_, Programs>| {
        let mut programs = run.report.programs.iter();
        let of_run = programs.find(|known| known.name == report.name);
        of_run.map_or_else(BTreeMap::new, |report| texts(run, report))
    };
    let all: Vec<_> = measured.runs.iter().map(of).collect();
    let (wide, narrow) = by_width(&all, &measured.page_size.to_string());
    let of_file = |file: &String| {
        let label = format!("text of {file}");
        measured.row(&report.name, &label, |run| match of(run).get(file) {
            Some(text) => format!("{}; aligned {}", text.shares(), short(text.alignment())),
            None => "-".into(),
        })
    };
    let of_others = || {
        let label = match narrow.len() {
            1 => "text of 1 narrow file".into(),
            n => format!("text of {n} narrow files"),
        };
        measured.row(&report.name, &label, |run| {
            let mut sum = Text::default();
            let texts = of(run).into_iter();
            let texts = texts.filter(|(file, _)| narrow.contains(file));
            texts.for_each(|(_, text)| sum.add(text.len, &text.leaves));
            sum.shares()
        })
    };
    let others = (!narrow.is_empty()).then(of_others);
    wide.iter().map(of_file).chain(others).collect()
}

/// The files of which a run maps something by a leaf wider than a page, and the others.
fn by_width(runs: &[BTreeMap<String, Text>], page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let wide = |file: &String| {
        let mut texts = runs.iter().filter_map(|texts| texts.get(file));
        texts.any(|text| text.is_wide(page))
    };
    let files = runs.iter().flat_map(|texts| texts.keys().cloned());
    files.partition(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_lab::job::AnyJob;

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

    fn worked(change: impl FnOnce(&mut Worked)) -> Report {
        let mut worked = Worked {
            name: "x".into(),
            ..Worked::default()
        };
        change(&mut worked);
        Report {
            programs: vec![worked],
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
    fn files_that_no_kernel_maps_wide_are_one_row() {
        let text = |leaves: &[(&str, u64)]| {
            let mut text = Text::default();
            text.add(
                8 << 20,
                &leaves.iter().map(|(l, b)| ((*l).into(), *b)).collect(),
            );
            text
        };
        let run = |cc1: Text| {
            let narrow = text(&[("4K", 100), ("unmapped", 50), ("2M", 0)]);
            BTreeMap::from([("cc1".into(), cc1), ("libc.so.6".into(), narrow)])
        };
        let runs = [run(text(&[("4K", 100)])), run(text(&[("2M", 100)]))];
        let (wide, narrow) = by_width(&runs, "4K");
        assert_eq!(wide, BTreeSet::from(["cc1".into()]));
        assert_eq!(narrow, BTreeSet::from(["libc.so.6".into()]));
    }

    #[test]
    fn the_tables_figures_are_headlines() {
        let job: &dyn AnyJob = &Programs;
        assert!(job.is_headline("stubs-musl.warm.walks"));
        assert!(!job.is_headline("perl.warm.kernel_instructions"));
        assert!(!job.is_headline("perl.libc.so.6.text.64K"));
    }
}
