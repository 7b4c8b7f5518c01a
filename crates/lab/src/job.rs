// SPDX-License-Identifier: GPL-2.0-only
//! What a job is to the lab.
//!
//! A job's room implements [`Job`], with options, task and report of types of its own. The lab
//! knows it as [`AnyJob`], which hides these types: options and reports are JSON there. The jobs
//! themselves are in `crates/jobs`.

use crate::common::Common;
use crate::plan::{Asked, Plan};
use crate::results::figures::{Figure, Figures};
use crate::results::row::Row;
use crate::results::{BootResult, Comparison, Verdict};
use anyhow::{Context, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::ops::Deref;
use wideleaf_kbuild::{Arch, PageSize, Variant};

/// What holds of a job whatever it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// As `lab run` takes it.
    pub name: &'static str,
    /// What it measures, in one line.
    pub about: &'static str,
    /// Arguments of `lab run` that show what it can be asked, beginning with its name.
    pub examples: &'static [&'static str],
    /// Whether users are not told of it.
    pub hidden: bool,
    /// The kernels that it runs with unless others are asked for.
    pub variants: &'static [Variant],
    /// The kernels that it makes sense with: a job that compares takes any.
    pub possible_variants: &'static [Variant],
    /// Defaults of common options that are others than usual, by the names of their fields.
    pub defaults: &'static [(&'static str, &'static str)],
    /// Whether the plugin counts.
    pub counts: bool,
    /// Fragments of `kernel/config` that its kernels need besides the usual.
    pub fragments: &'static [&'static str],
    /// Whether its programs are made from the base's source.
    pub builds_from_base: bool,
    /// What its cases are, where it has several that have an order: the axis of the report's plots.
    pub cases: Option<&'static str>,
}

impl Facts {
    /// Those of a job that compares the kernels without and with the series.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            examples: &[],
            hidden: false,
            variants: &[Variant::Pristine, Variant::Patched],
            possible_variants: Variant::ALL,
            defaults: &[],
            counts: false,
            fragments: &[],
            builds_from_base: false,
            cases: None,
        }
    }
}

/// A part of what a job is asked for: its name, and the options that ask for it alone.
pub type Part<Own> = (String, Own);

/// A job, as its room writes it.
pub trait Job: fmt::Debug + Sync + Sized {
    /// What it takes besides what every job takes.
    type Options: Args + Serialize + DeserializeOwned;
    /// What its guest found.
    type Report: DeserializeOwned;

    /// What holds whatever it is asked.
    fn facts(&self) -> Facts;

    /// What it asks of the lab. Whatever the guest would refuse is refused here, before anything
    /// is built.
    ///
    /// # Errors
    ///
    /// A sentence that names the value and what would be right.
    fn plan(&self, asked: &Asked<'_, Self::Options>) -> Result<Plan>;

    /// The parts that what is asked for falls into, with a disk and a boot each, and their names.
    /// When one fails the others go on. Of a job that is always one, there are none.
    ///
    /// # Errors
    ///
    /// A sentence that names the value and what would be right.
    fn parts(&self, _own: &Self::Options, _arch: Arch) -> Result<Vec<Part<Self::Options>>> {
        Ok(Vec::new())
    }

    /// Whether what the guest found is a success; what is not ends the run.
    ///
    /// # Errors
    ///
    /// What failed.
    fn judge(&self, _report: &Self::Report) -> Result<()> {
        Ok(())
    }

    /// What a reader of the figures must know.
    fn warnings(&self, _report: &Self::Report) -> Vec<String> {
        Vec::new()
    }

    /// What figures it has, besides those of each phase that the plugin counts.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The values of these figures in a run.
    fn measure(&self, _run: &Run<'_, Self>, _figures: &mut Figures) {}

    /// Whether what all runs found fits together; what does not ends the run.
    ///
    /// # Errors
    ///
    /// What differs that must not.
    fn agree(&self, _measured: &Measured<'_, Self>) -> Result<()> {
        Ok(())
    }

    /// Writes what it was asked to write besides the results. `packages` names Debian's packages on
    /// its disk.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    fn keep(
        &self,
        _measured: &Measured<'_, Self>,
        _packages: &dyn Fn() -> Result<Vec<String>>,
    ) -> Result<()> {
        Ok(())
    }

    /// What is expected of every comparison, without being asked for.
    fn verdicts(&self, _measured: &Measured<'_, Self>) -> Vec<Verdict> {
        Vec::new()
    }

    /// The table's title, up to where it names the machine.
    fn title(&self, _measured: &Measured<'_, Self>) -> String {
        format!("{}:", self.facts().name)
    }

    /// The table's rows: those that the figures' definitions ask for, unless it has others.
    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        Row::defined(measured, &self.figures())
    }

    /// Lines below the table.
    fn notes(&self, _measured: &Measured<'_, Self>) -> Vec<String> {
        Vec::new()
    }
}

/// A run, and what its guest found.
pub struct Run<'a, J: Job> {
    boot: &'a BootResult,
    /// What its guest found.
    pub report: J::Report,
}

impl<'a, J: Job> Run<'a, J> {
    /// Reads what the guest found.
    ///
    /// # Errors
    ///
    /// If it is nothing that this job finds.
    pub fn of(boot: &'a BootResult) -> Result<Self> {
        let report = report::<J>(&boot.outcome)?;
        Ok(Self { boot, report })
    }
}

impl<J: Job> Deref for Run<'_, J> {
    type Target = BootResult;

    fn deref(&self) -> &BootResult {
        self.boot
    }
}

/// A comparison, with options and reports as the job knows them.
pub struct Measured<'a, J: Job> {
    comparison: &'a Comparison,
    /// What the job was asked for.
    pub own: J::Options,
    /// Every boot, in order.
    pub runs: Vec<Run<'a, J>>,
}

impl<'a, J: Job> Measured<'a, J> {
    /// A row of the table that says something of each variant's first run.
    pub fn row(&self, section: &str, label: &str, cell: impl Fn(&Run<'_, J>) -> String) -> Row {
        let variants = self.variants().into_iter();
        let cell = |variant| self.run(variant).map_or("-".into(), &cell);
        Row::words(section, label, variants.map(cell).collect())
    }

    /// The row that says how long the guests ran.
    pub fn time_row(&self, section: &str) -> Row {
        let label = "time under emulation (not speed)";
        self.row(section, label, |run| format!("{:.2} s", run.wall_s))
    }

    /// Reads options and reports.
    ///
    /// # Errors
    ///
    /// If they are not those of this job.
    pub fn of(comparison: &'a Comparison) -> Result<Self> {
        Ok(Self {
            comparison,
            own: J::Options::deserialize(&comparison.options)
                .with_context(|| format!("options of the job {}", comparison.job))?,
            runs: comparison.runs.iter().map(Run::of).collect::<Result<_>>()?,
        })
    }

    /// The first run of a variant.
    pub fn run(&self, variant: Variant) -> Option<&Run<'a, J>> {
        self.runs.iter().find(|run| run.variant == variant)
    }
}

impl<J: Job> Deref for Measured<'_, J> {
    type Target = Comparison;

    fn deref(&self) -> &Comparison {
        self.comparison
    }
}

fn report<J: Job>(outcome: &Value) -> Result<J::Report> {
    J::Report::deserialize(outcome).context("the guest's answer is nothing that this job finds")
}

/// A job of any kind.
pub trait AnyJob: fmt::Debug + Sync {
    /// What holds whatever it is asked.
    fn facts(&self) -> Facts;

    /// What figures it has.
    fn figures(&self) -> Vec<Figure>;

    /// Adds the options that it takes besides those that every job takes.
    fn augment(&self, command: Command) -> Command;

    /// What it is asked for by a command line.
    ///
    /// # Errors
    ///
    /// Never, if its command has parsed it.
    fn parse(&self, matches: &ArgMatches) -> Result<Value>;

    /// What it asks of the lab.
    ///
    /// # Errors
    ///
    /// If the guest would refuse it, or these are no options of this job.
    fn plan(&self, common: &Common, own: &Value, arch: Arch, page_size: PageSize) -> Result<Plan>;

    /// The parts that what is asked for falls into; none: it is one.
    ///
    /// # Errors
    ///
    /// If the options ask for what there is not.
    fn parts(&self, own: &Value, arch: Arch) -> Result<Vec<Part<Value>>>;

    /// Whether what the guest found is a success, and what a reader must know of it.
    ///
    /// # Errors
    ///
    /// What failed.
    fn judge(&self, outcome: &Value) -> Result<Vec<String>>;

    /// The figures of a run, besides those of its phases.
    ///
    /// # Errors
    ///
    /// If its outcome is nothing that this job finds.
    fn measure(&self, run: &BootResult) -> Result<Figures>;

    /// What it says of a comparison.
    ///
    /// # Errors
    ///
    /// If options or outcomes are not those of this job.
    fn look<'a>(&'a self, comparison: &'a Comparison) -> Result<Box<dyn Look + 'a>>;
}

/// What a job says of a comparison.
pub trait Look {
    /// Whether what all runs found fits together.
    ///
    /// # Errors
    ///
    /// What differs that must not.
    fn agree(&self) -> Result<()>;
    /// Writes what it was asked to write besides the results.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    fn keep(&self, packages: &dyn Fn() -> Result<Vec<String>>) -> Result<()>;
    /// What is expected, without being asked for.
    fn verdicts(&self) -> Vec<Verdict>;
    /// The table's title, up to where it names the machine.
    fn title(&self) -> String;
    /// The table's rows.
    fn rows(&self) -> Vec<Row>;
    /// Lines below the table.
    fn notes(&self) -> Vec<String>;
}

impl<J: Job> AnyJob for J {
    fn facts(&self) -> Facts {
        Job::facts(self)
    }

    fn figures(&self) -> Vec<Figure> {
        Job::figures(self)
    }

    fn augment(&self, command: Command) -> Command {
        J::Options::augment_args(command)
    }

    fn parse(&self, matches: &ArgMatches) -> Result<Value> {
        let own = J::Options::from_arg_matches(matches)?;
        Ok(serde_json::to_value(own)?)
    }

    fn plan(&self, common: &Common, own: &Value, arch: Arch, page_size: PageSize) -> Result<Plan> {
        let own = &J::Options::deserialize(own)?;
        let asked = Asked {
            arch,
            page_size,
            common,
            own,
        };
        Job::plan(self, &asked)
    }

    fn parts(&self, own: &Value, arch: Arch) -> Result<Vec<Part<Value>>> {
        let own = J::Options::deserialize(own)?;
        let parts = Job::parts(self, &own, arch)?;
        let as_json = |(name, own)| Ok((name, serde_json::to_value(own)?));
        parts.into_iter().map(as_json).collect()
    }

    fn judge(&self, outcome: &Value) -> Result<Vec<String>> {
        let report = report::<J>(outcome)?;
        Job::judge(self, &report)?;
        Ok(self.warnings(&report))
    }

    fn measure(&self, run: &BootResult) -> Result<Figures> {
        let mut figures = Figures::of(Job::figures(self));
        Job::measure(self, &Run::of(run)?, &mut figures);
        Ok(figures)
    }

    fn look<'a>(&'a self, comparison: &'a Comparison) -> Result<Box<dyn Look + 'a>> {
        let measured = Measured::of(comparison)?;
        Ok(Box::new((self, measured)))
    }
}

impl<J: Job> Look for (&J, Measured<'_, J>) {
    fn agree(&self) -> Result<()> {
        self.0.agree(&self.1)
    }

    fn keep(&self, packages: &dyn Fn() -> Result<Vec<String>>) -> Result<()> {
        self.0.keep(&self.1, packages)
    }

    fn verdicts(&self) -> Vec<Verdict> {
        self.0.verdicts(&self.1)
    }

    fn title(&self) -> String {
        self.0.title(&self.1)
    }

    fn rows(&self) -> Vec<Row> {
        self.0.rows(&self.1)
    }

    fn notes(&self) -> Vec<String> {
        self.0.notes(&self.1)
    }
}

impl dyn AnyJob + '_ {
    /// As `lab run` takes it.
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Whether `spread` is judged by this figure.
    pub fn is_headline(&self, figure: &str) -> bool {
        let definitions = self.figures();
        let known = crate::results::figures::find(&definitions, figure);
        known.is_some_and(|figure| figure.is_headline)
    }
}

impl fmt::Display for dyn AnyJob + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Adds what any job takes to a command of its own: its options, then the common ones with the
/// defaults that it has.
pub fn command(job: &dyn AnyJob, command: Command) -> Command {
    let facts = job.facts();
    let command = command.next_help_heading("The job's work");
    let command = job.augment(command).next_help_heading("Guest and kernels");
    let command = Common::augment_args(command);
    facts.defaults.iter().fold(command, |command, (id, value)| {
        command.mut_arg(*id, |option| option.default_value(*value))
    })
}

/// The options of a job unless told: the common ones, and its own.
///
/// # Panics
///
/// If one of its own has no default.
pub fn usual(job: &dyn AnyJob) -> (Common, Value) {
    let command = command(job, Command::new("usual").no_binary_name(true));
    let matches = command.get_matches_from([""; 0]);
    let common = Common::from_arg_matches(&matches).expect("each option has a default");
    let own = job.parse(&matches).expect("each option has a default");
    (common, own)
}

/// Words of a command line by which a job is asked for just this; nothing for what it is asked for
/// unless told.
pub fn words(job: &dyn AnyJob, common: &Common, own: &Value) -> Vec<String> {
    let (usual_common, usual_own) = usual(job);
    let of = |common: &Common| serde_json::to_value(common).unwrap_or_default();
    let (common, usual_common) = (of(common), of(&usual_common));
    let command = command(job, Command::new("words"));
    let mut words = Vec::new();
    for option in command.get_arguments() {
        let id = option.get_id().as_str();
        let asked = own.get(id).or(common.get(id));
        let usual = usual_own.get(id).or(usual_common.get(id));
        let (Some(asked), Some(flag)) = (asked.filter(|_| asked != usual), option.get_long())
        else {
            continue;
        };
        let flag = format!("--{flag}");
        match asked {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(flag),
            Value::Array(values) if option.get_value_delimiter().is_some() => {
                let texts: Vec<_> = values.iter().map(plain).collect();
                words.extend([flag, texts.join(",")]);
            }
            Value::Array(values) => {
                words.extend(values.iter().flat_map(|value| [flag.clone(), plain(value)]));
            }
            value => words.extend([flag, plain(value)]),
        }
    }
    words
}

/// A value as a command line has it.
fn plain(value: &Value) -> String {
    value.as_str().map_or(value.to_string(), String::from)
}
