// SPDX-License-Identifier: GPL-2.0-only
//! The side-by-side table.
//!
//! Plain text, no separators within numbers, at least two blanks between
//! columns: `awk -F'  +'` takes it apart.

use crate::compare::widest_spread;
use crate::job::{AnyJob, Look};
use crate::referee;
use crate::results::Comparison;
use crate::results::row::Row;
use anyhow::Result;
use std::fmt::Write;
use wideleaf_kbuild::Variant;
use wideleaf_kit::table::{Table, left, right};

/// The table of a comparison, with its title, ending in a newline.
///
/// # Errors
///
/// If the comparison is none of this job.
pub fn render(job: &dyn AnyJob, comparison: &Comparison) -> Result<String> {
    let look = job.look(comparison)?;
    let mut out = title(look.as_ref(), comparison) + "\n";
    layout(&mut out, &comparison.variants(), &look.rows());
    for note in notes(job, look.as_ref(), comparison) {
        let _ = writeln!(out, "{note}");
    }
    Ok(out)
}

/// The table's title: what was measured, on which machine.
pub fn title(look: &dyn Look, comparison: &Comparison) -> String {
    let Comparison {
        arch, page_size, ..
    } = comparison;
    let release = comparison
        .runs
        .first()
        .map(|run| run.guest.release.as_str());
    let release = release.unwrap_or(comparison.base.name());
    let mut title = look.title();
    let _ = write!(title, " {arch}, {page_size} pages, Linux {release}");
    if let Some(config) = &comparison.common.config {
        let _ = write!(title, ", configuration {config}");
    }
    if let Some(profile) = &comparison.profile {
        let _ = write!(title, ", model {}", profile.name);
    }
    title
}

fn layout(out: &mut String, variants: &[Variant], rows: &[Row]) {
    let parted = rows.iter().filter(|row| !row.label.is_empty());
    let sections = parted.map(|row| row.section.chars().count());
    let section = sections.max().unwrap_or(0);
    let mut heads: Vec<String> = variants.iter().map(ToString::to_string).collect();
    let changes = rows.iter().any(|row| !row.change.is_empty());
    if changes {
        heads.push("change".into());
    }
    let heads = heads.into_iter().map(right);
    let mut table = Table::new([left("")].into_iter().chain(heads))
        .indent("  ")
        .gap("  ");
    let mut last = "";
    for row in rows {
        let shown = if row.section == last {
            ""
        } else {
            &row.section
        };
        last = &row.section;
        let head = match row.label.as_str() {
            "" => shown.to_string(),
            label => format!("{shown:section$}  {label}"),
        };
        let change = changes.then(|| row.change.clone());
        table.row([head].into_iter().chain(row.cells.clone()).chain(change));
    }
    out.push_str(&table.render(true));
}

/// What a reader must know about the figures.
pub fn notes(job: &dyn AnyJob, look: &dyn Look, comparison: &Comparison) -> Vec<String> {
    let mut notes = look.notes();
    if let Some((name, spread)) = widest_spread(job, comparison) {
        let runs = comparison
            .runs
            .iter()
            .map(|run| run.repeat)
            .max()
            .unwrap_or(1);
        let spread = spread * 100.0;
        notes.push(format!(
            "  {runs} runs of each kernel: counts differ by at most {spread:.3}% ({name})"
        ));
    }
    let mut warnings: Vec<_> = comparison
        .runs
        .iter()
        .flat_map(|run| {
            run.warnings
                .iter()
                .map(|text| format!("  warning: {}: {text}", run.variant))
        })
        .collect();
    warnings.dedup();
    notes.extend(warnings);
    notes.extend(referee::lines(comparison));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::conclude;
    use crate::sample::{Calls, comparison};

    #[test]
    fn the_table_as_a_whole() {
        let text = render(&Calls, &comparison(1000, 100)).unwrap();
        let expected = "\
calls: arm64, 64K pages, Linux 6.12.117, model neoverse-v2
                                            pristine  patched  change
  cold    faults (minor/major)                   3/4      3/4      0%
          guest instructions                    1500      600  -60.0%
  random  page walks                               -        -
  guests  time under emulation (not speed)    2.50 s   2.50 s
  4 calls
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn one_variant_alone() {
        let mut comparison = comparison(1000, 100);
        comparison.runs.remove(1);
        comparison.kernels.remove(1);
        let comparison = conclude(&Calls, comparison).unwrap();
        let text = render(&Calls, &comparison).unwrap();
        assert!(text.contains("  1500\n"), "\n{text}");
        assert!(
            !text.contains("patched") && !text.contains("change"),
            "\n{text}"
        );
    }

    #[test]
    fn warnings_are_told() {
        let mut comparison = comparison(1000, 100);
        comparison.runs[1].warnings.push("walk failed".into());
        let text = render(&Calls, &comparison).unwrap();
        assert!(text.contains("warning: patched: walk failed"), "{text}");
    }

    #[test]
    fn what_another_job_found_is_an_error() {
        let mut comparison = comparison(1000, 100);
        comparison.runs[0].outcome = serde_json::json!({ "suites": [] });
        let error = format!("{:#}", render(&Calls, &comparison).unwrap_err());
        assert!(error.contains("nothing that this job finds"), "{error}");
    }
}
