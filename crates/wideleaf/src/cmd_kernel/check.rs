// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf kernel check`: checkpatch over the series, whether planted faults apply on top of them,
//! and what of it can be said at once.

use crate::screen::Screen;
use crate::stdout::say;
use anyhow::{Context, Result};
use std::process::ExitCode;
use wideleaf_cache::Cache;
use wideleaf_debian::apt;
use wideleaf_kbuild::checkpatch::Report;
use wideleaf_kbuild::series::Series;
use wideleaf_kbuild::source::{self, Source};
use wideleaf_kbuild::{Base, KernelDir, SeriesName, Stack, WorkTree, checkpatch, fault};
use wideleaf_kit::events::{Event, Observer};

/// Checks one series for these bases, or all of them and the faults to plant.
///
/// # Errors
///
/// If a series or a source cannot be had. Complaints give a failure's status.
pub fn run(
    series: Option<SeriesName>,
    bases: &[Base],
    files: &KernelDir,
    cache: &Cache,
    quick: bool,
) -> Result<ExitCode> {
    let names = series.map_or(SeriesName::ALL.to_vec(), |name| vec![name]);
    let mut passed = true;
    let mut tell = |what: String, verdict: Verdict| {
        passed &= !matches!(verdict, Verdict::Failed(..));
        verdict.tell(&what)
    };
    let kernels = Kernels {
        files,
        cache,
        quick,
    };
    for &name in &names {
        for &base in bases {
            let verdict = kernels.checkpatch(name, base)?;
            tell(format!("checkpatch {name} {base}"), verdict)?;
        }
    }
    for &base in bases.iter().filter(|_| series.is_none()) {
        let verdict = kernels.faults(base)?;
        tell(format!("planted faults {base}"), verdict)?;
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

enum Verdict {
    Nothing,
    Skipped(String),
    PassedBefore,
    Passed(usize),
    Failed(usize, String),
}

impl Verdict {
    fn tell(&self, what: &str) -> Result<()> {
        match self {
            Self::Nothing => say!("{what}: no patches"),
            // scripts/steps counts these lines.
            Self::Skipped(why) => say!("SKIPPED: {what}: {why}"),
            Self::PassedBefore => say!("{what}: ok, passed before"),
            Self::Passed(patches) => say!("{what}: {patches} patches: ok"),
            Self::Failed(patches, messages) => {
                say!("{what}: {patches} patches: FAILED\n{messages}")
            }
        }
    }
}

impl From<&Report> for Verdict {
    fn from(report: &Report) -> Self {
        match report.passed() {
            true => Self::Passed(report.patches),
            false => Self::Failed(report.patches, report.messages.clone()),
        }
    }
}

/// The kernel files, and how they are checked.
struct Kernels<'a> {
    files: &'a KernelDir,
    cache: &'a Cache,
    /// As far as it takes seconds and no network.
    quick: bool,
}

impl Kernels<'_> {
    fn checkpatch(&self, name: SeriesName, base: Base) -> Result<Verdict> {
        let folder = self.files.series(name);
        let series = Series::load(base, &folder)?;
        if series.steps().is_empty() {
            return Ok(Verdict::Nothing);
        }
        let source = match self.source(base)? {
            Ok(source) => source,
            Err(skipped) => return Ok(skipped),
        };
        if self.quick && checkpatch::passed_before(&folder, &source, self.cache)? {
            return Ok(Verdict::PassedBefore);
        }
        let tree = match self.tree(&source, &format!("checking the series {name} for"))? {
            Ok(tree) => tree,
            Err(skipped) => return Ok(skipped),
        };
        let ground = Stack::ground(base, name, self.files)?;
        let report = checkpatch::check(&tree, &series, &ground)
            .with_context(|| format!("checkpatch on the series {name} for {source}"))?;
        if report.passed() {
            checkpatch::keep_pass(&folder, &source, self.cache)?;
        }
        Ok(Verdict::from(&report))
    }

    fn faults(&self, base: Base) -> Result<Verdict> {
        let source = match self.source(base)? {
            Ok(source) => source,
            Err(skipped) => return Ok(skipped),
        };
        match self.tree(&source, "planting faults in")? {
            Ok(tree) => Ok(Verdict::from(&fault::check(&tree, self.files)?)),
            Err(skipped) => Ok(skipped),
        }
    }

    /// The base's source, or why there is none at hand.
    fn source(&self, base: Base) -> Result<Result<Source, Verdict>> {
        if !self.quick {
            return Source::newest(base, false, self.cache, &Screen::new()).map(Ok);
        }
        let version = apt::newest(source::cached(base, self.cache)?)?;
        Ok(version
            .map(|version| Source { base, version })
            .ok_or_else(|| {
                Verdict::Skipped(format!(
                    "its source is not in the cache: 'wideleaf kernel fetch --base {base}' gets it"
                ))
            }))
    }

    /// Its tree, or why it is not at hand.
    fn tree(&self, source: &Source, step: &str) -> Result<Result<WorkTree, Verdict>> {
        if self.quick && !WorkTree::is_at_hand(source, self.cache)? {
            return Ok(Err(Verdict::Skipped(format!(
                "{source} is not unpacked, or another run works on it"
            ))));
        }
        let screen = Screen::new();
        let tree = WorkTree::open(source, self.cache, &screen)?;
        screen.event(Event::Step(&format!("{step} {source}")));
        Ok(Ok(tree))
    }
}
