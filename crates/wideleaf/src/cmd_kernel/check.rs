// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf kernel check`: checkpatch over the series, and what of it can be said at once.

use crate::screen::Screen;
use crate::stdout::say;
use anyhow::{Context, Result};
use std::process::ExitCode;
use wideleaf_cache::Cache;
use wideleaf_debian::apt;
use wideleaf_kbuild::series::Series;
use wideleaf_kbuild::source::{self, Source};
use wideleaf_kbuild::{Base, KernelDir, SeriesName, Stack, WorkTree, checkpatch};
use wideleaf_kit::events::{Event, Observer};

/// Checks these series for these bases.
///
/// # Errors
///
/// If a series or a source cannot be had. Complaints of checkpatch give a failure's status.
pub fn run(
    names: &[SeriesName],
    bases: &[Base],
    files: &KernelDir,
    cache: &Cache,
    quick: bool,
) -> Result<ExitCode> {
    let mut passed = true;
    for &name in names {
        for &base in bases {
            let series = Series::load(base, &files.series(name))?;
            let verdict = match series.steps().is_empty() {
                true => Verdict::Nothing,
                false if quick => at_hand(name, &series, base, files, cache)?,
                false => whole(name, &series, base, files, cache)?,
            };
            passed &= !matches!(verdict, Verdict::Failed(..));
            verdict.tell(name, base)?;
        }
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
    fn tell(&self, name: SeriesName, base: Base) -> Result<()> {
        let what = format!("checkpatch {name} {base}");
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

/// The verdict as far as it takes seconds and no network.
fn at_hand(
    name: SeriesName,
    series: &Series,
    base: Base,
    files: &KernelDir,
    cache: &Cache,
) -> Result<Verdict> {
    let Some(version) = apt::newest(source::cached(base, cache)?)? else {
        return Ok(Verdict::Skipped(format!(
            "its source is not in the cache: 'wideleaf kernel fetch --base {base}' gets it"
        )));
    };
    let source = Source { base, version };
    if checkpatch::passed_before(&files.series(name), &source, cache)? {
        return Ok(Verdict::PassedBefore);
    }
    if !WorkTree::is_at_hand(&source, cache)? {
        return Ok(Verdict::Skipped(format!(
            "{source} is not unpacked, or another run works on it"
        )));
    }
    check(name, series, &source, files, cache)
}

fn whole(
    name: SeriesName,
    series: &Series,
    base: Base,
    files: &KernelDir,
    cache: &Cache,
) -> Result<Verdict> {
    let source = Source::newest(base, false, cache, &Screen::new())?;
    check(name, series, &source, files, cache)
}

fn check(
    name: SeriesName,
    series: &Series,
    source: &Source,
    files: &KernelDir,
    cache: &Cache,
) -> Result<Verdict> {
    let screen = Screen::new();
    let tree = WorkTree::open(source, cache, &screen)?;
    screen.event(Event::Step(&format!(
        "checking the series {name} for {source}"
    )));
    let ground = Stack::ground(source.base, name, files)?;
    let report = checkpatch::check(&tree, series, &ground)
        .with_context(|| format!("checkpatch on the series {name} for {source}"))?;
    if !report.passed() {
        return Ok(Verdict::Failed(report.patches, report.messages));
    }
    checkpatch::keep_pass(&files.series(name), source, cache)?;
    Ok(Verdict::Passed(report.patches))
}
