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
    fn without_source(base: Base) -> Self {
        Self::Skipped(format!(
            "its source is not in the cache: 'wideleaf kernel fetch --base {base}' gets it"
        ))
    }

    fn without_tree(source: &Source) -> Self {
        Self::Skipped(format!(
            "{source} is not unpacked, or another run works on it"
        ))
    }

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
        let Some(source) = self.source(base)? else {
            return Ok(Verdict::without_source(base));
        };
        if self.quick && checkpatch::passed_before(&folder, &source, self.cache)? {
            return Ok(Verdict::PassedBefore);
        }
        let step = format!("checking the series {name} for");
        let Some(tree) = self.tree(&source, &step)? else {
            return Ok(Verdict::without_tree(&source));
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
        let Some(source) = self.source(base)? else {
            return Ok(Verdict::without_source(base));
        };
        let Some(tree) = self.tree(&source, "planting faults in")? else {
            return Ok(Verdict::without_tree(&source));
        };
        Ok(Verdict::from(&fault::check(&tree, self.files)?))
    }

    /// The base's source; `None` with `--quick` if it is not in the cache.
    fn source(&self, base: Base) -> Result<Option<Source>> {
        if !self.quick {
            return Source::newest(base, false, self.cache, &Screen::new()).map(Some);
        }
        let version = apt::newest(source::cached(base, self.cache)?)?;
        Ok(version.map(|version| Source { base, version }))
    }

    /// Its tree; `None` with `--quick` if it is not unpacked, or in use.
    fn tree(&self, source: &Source, step: &str) -> Result<Option<WorkTree>> {
        if self.quick && !WorkTree::is_at_hand(source, self.cache)? {
            return Ok(None);
        }
        let screen = Screen::new();
        let tree = WorkTree::open(source, self.cache, &screen)?;
        screen.event(Event::Step(&format!("{step} {source}")));
        Ok(Some(tree))
    }
}
