// SPDX-License-Identifier: GPL-2.0-only
//! The side-by-side table.
//!
//! Plain text, no separators within numbers, at least two blanks between
//! columns: `awk -F'  +'` takes it apart.

use crate::figures::{Compared, widest_spread};
use crate::results::{Comparison, Run};
use std::fmt::Write;
use wideleaf_bench::size::{long, short};
use wideleaf_guest::protocol::{KunitStatus, Outcome};
use wideleaf_kernel::Variant;

/// The table's rows of an exec job: section, label, figures. Several figures
/// stand in one cell, with a slash between.
const EXEC_ROWS: &[(&str, &str, &[&str])] = &[
    (
        "cold",
        "faults (minor/major)",
        &["cold.minor_faults", "cold.major_faults"],
    ),
    ("cold", "guest instructions", &["cold.instructions"]),
    ("cold", "bytes read from disk", &["cold.read_bytes"]),
    ("cold", "time under emulation (not speed)", &[]),
    ("random", "L1 iTLB misses", &["random.itlb_l1_misses"]),
    ("random", "page walks", &["random.walks"]),
];

struct Row {
    section: String,
    label: String,
    cells: [String; 3],
}

/// The table of a comparison, with its title, ending in a newline.
pub fn render(comparison: &Comparison) -> String {
    let mut out = title(comparison) + "\n";
    let rows = match comparison.runs.first().map(|run| &run.outcome) {
        Some(Outcome::Exec { .. }) => exec_rows(comparison),
        Some(Outcome::Kunit(_)) => kunit_rows(comparison),
        _ => boot_rows(comparison),
    };
    layout(&mut out, &rows);
    for note in notes(comparison) {
        let _ = writeln!(out, "{note}");
    }
    out
}

fn title(comparison: &Comparison) -> String {
    let Comparison {
        job,
        arch,
        page_size,
        ..
    } = comparison;
    let release = comparison
        .runs
        .first()
        .map(|run| run.guest.release.as_str());
    let release = release.unwrap_or(comparison.base.name());
    let options = &comparison.options;
    let mut title = job.clone();
    if comparison.job == "exec" {
        let size = long(options.size);
        let filesystem = options.filesystem.title();
        let _ = write!(title, " text: {size} of return stubs, {filesystem}");
    } else {
        title.push(':');
    }
    let comma = if title.ends_with(':') { "" } else { "," };
    let _ = write!(title, "{comma} {arch}, {page_size} pages, Linux {release}");
    if let Some(profile) = &comparison.profile {
        let _ = write!(title, ", model {}", profile.name);
    }
    title
}

fn exec_rows(comparison: &Comparison) -> Vec<Row> {
    let mut rows: Vec<Row> = EXEC_ROWS
        .iter()
        .map(|(section, label, figures)| match figures {
            [] => time_row(comparison, section, label),
            figures => figure_row(comparison, section, label, figures),
        })
        .collect();
    rows.push(Row {
        section: "text mapped by leaf".into(),
        label: String::new(),
        cells: cells(comparison, leaves, String::new()),
    });
    rows
}

fn figure_row(comparison: &Comparison, section: &str, label: &str, figures: &[&str]) -> Row {
    let found: Vec<_> = figures
        .iter()
        .map(|name| comparison.figures.get(*name))
        .collect();
    let cell = |pick: fn(&Compared) -> Option<u64>| {
        let values = found.iter().map(|figure| figure.and_then(pick));
        let texts: Vec<_> = values
            .map(|v| v.map_or("-".into(), |v| v.to_string()))
            .collect();
        texts.join("/")
    };
    let sum = |pick: fn(&Compared) -> Option<u64>| {
        let values = found.iter().map(|figure| figure.and_then(pick));
        values.sum::<Option<u64>>()
    };
    let change = match (sum(|f| f.pristine), sum(|f| f.patched)) {
        (Some(pristine), Some(patched)) => change(pristine as f64, patched as f64),
        _ => String::new(),
    };
    Row {
        section: section.into(),
        label: label.into(),
        cells: [cell(|f| f.pristine), cell(|f| f.patched), change],
    }
}

fn time_row(comparison: &Comparison, section: &str, label: &str) -> Row {
    let seconds = |run: &Run| {
        let phase = run.phases.iter().find(|phase| phase.name == section);
        let wall = phase.and_then(|phase| phase.wall_s);
        wall.map_or("-".into(), |wall| format!("{wall:.2} s"))
    };
    Row {
        section: section.into(),
        label: label.into(),
        cells: cells(comparison, seconds, String::new()),
    }
}

fn kunit_rows(comparison: &Comparison) -> Vec<Row> {
    let suites = comparison.runs.iter().flat_map(|run| match &run.outcome {
        Outcome::Kunit(report) => report.suites.as_slice(),
        _ => &[],
    });
    let mut rows = Vec::new();
    for suite in suites {
        let count = |status| {
            suite
                .tests
                .iter()
                .filter(|test| test.status == status)
                .count()
        };
        let text = format!(
            "{} passed, {} failed, {} skipped",
            count(KunitStatus::Pass),
            count(KunitStatus::Fail),
            count(KunitStatus::Skip)
        );
        rows.push(Row {
            section: "kunit".into(),
            label: suite.name.clone(),
            cells: [String::new(), text, String::new()],
        });
    }
    rows
}

fn boot_rows(comparison: &Comparison) -> Vec<Row> {
    vec![Row {
        section: "boot".into(),
        label: "time under emulation (not speed)".into(),
        cells: cells(
            comparison,
            |run| format!("{:.2} s", run.wall_s),
            String::new(),
        ),
    }]
}

fn cells(comparison: &Comparison, cell: impl Fn(&Run) -> String, change: String) -> [String; 3] {
    let of = |variant| comparison.run(variant).map_or("-".into(), &cell);
    [of(Variant::Pristine), of(Variant::Patched), change]
}

/// `2M 98%, 64K 2%`, widest share first.
fn leaves(run: &Run) -> String {
    let Some(coverage) = run.coverage.first() else {
        return "-".into();
    };
    let mut shares: Vec<_> = coverage
        .leaves
        .iter()
        .filter(|(_, bytes)| **bytes > 0)
        .collect();
    shares.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let texts: Vec<_> = shares
        .into_iter()
        .map(|(leaf, bytes)| format!("{leaf} {}%", percent(*bytes, coverage.len)))
        .collect();
    texts.join(", ")
}

/// A share in whole percent, but never 0 or 100 for what is not.
fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    match share.round() {
        100.0 if part < whole => ">99".into(),
        0.0 if part > 0 => "<1".into(),
        rounded => rounded.to_string(),
    }
}

/// The change in percent of pristine; two digits more where next to all is
/// gone, because the last percent is what matters then.
fn change(pristine: f64, patched: f64) -> String {
    if pristine == patched {
        return "0%".into();
    }
    if pristine == 0.0 {
        return String::new();
    }
    let percent = 100.0 * (patched - pristine) / pristine;
    let digits = if percent < -99.0 { 2 } else { 1 };
    format!("{percent:+.digits$}%")
}

fn layout(out: &mut String, rows: &[Row]) {
    let section = width(rows.iter().filter(|row| !row.label.is_empty()), |row| {
        &row.section
    });
    let label = width(rows.iter(), |row| &row.label);
    let heads = ["pristine", "patched", "change"];
    let widths: Vec<_> = (0..3)
        .map(|n| width(rows.iter(), |row| &row.cells[n]).max(heads[n].len()))
        .collect();
    let mut line = |head: &str, cells: [&str; 3]| {
        let left = section + 2 + label;
        let text = format!(
            "  {head:left$}  {:>w0$}  {:>w1$}  {:>w2$}",
            cells[0],
            cells[1],
            cells[2],
            w0 = widths[0],
            w1 = widths[1],
            w2 = widths[2]
        );
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line("", heads);
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
        line(&head, row.cells.each_ref().map(String::as_str));
    }
}

fn width<'a>(rows: impl Iterator<Item = &'a Row>, text: impl Fn(&'a Row) -> &'a String) -> usize {
    rows.map(|row| text(row).chars().count()).max().unwrap_or(0)
}

/// What a reader must know about the figures.
fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let options = &comparison.options;
    if let Some(Outcome::Exec { report, .. }) = comparison.runs.first().map(|run| &run.outcome) {
        let calls = report.random.as_ref().map_or(0, |random| random.calls);
        notes.push(format!(
            "  stride {}, {calls} random calls, seed {}, readahead window {}",
            short(report.stride),
            report.seed,
            short(u64::from(options.read_ahead_kb) << 10),
        ));
        if !options.filesystem.has_large_folios(comparison.base) {
            notes.push(format!(
                "  note: {} has no large folios in Linux {}, so no kernel can map its files by wide leaves",
                options.filesystem.title(),
                comparison.base
            ));
        }
    }
    if let Some((name, spread)) = widest_spread(&comparison.figures) {
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
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::comparison;

    #[test]
    fn the_table_as_a_whole() {
        let text = render(&comparison(1000, 100));
        let expected = "\
exec text: 512 MiB of return stubs, XFS, arm64, 64K pages, Linux 6.12.117, model neoverse-v2
                                            pristine   patched  change
  cold    faults (minor/major)                   3/4       3/4      0%
          guest instructions                    1500       600  -60.0%
          bytes read from disk               1048576   1048576      0%
          time under emulation (not speed)    0.50 s    0.50 s
  random  L1 iTLB misses                           -         -
          page walks                               -         -
  text mapped by leaf                       64K 100%  64K 100%
  stride 64K, 16 random calls, seed 1, readahead window 128K
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn one_variant_alone() {
        let mut comparison = comparison(1000, 100);
        comparison.runs.remove(1);
        let text = render(&comparison.conclude());
        assert!(text.contains("1500        -"), "\n{text}");
        assert!(!text.contains('%') || text.contains("100%"), "\n{text}");
    }

    #[test]
    fn changes() {
        assert_eq!(change(100.0, 100.0), "0%");
        assert_eq!(change(1000.0, 5.0), "-99.50%");
        assert_eq!(change(100.0, 41.3), "-58.7%");
        assert_eq!(change(100.0, 250.0), "+150.0%");
        assert_eq!(change(0.0, 3.0), "");
    }

    #[test]
    fn shares_never_round_to_all_or_nothing() {
        assert_eq!(percent(1, 1000), "<1");
        assert_eq!(percent(999, 1000), ">99");
        assert_eq!(percent(1000, 1000), "100");
    }

    #[test]
    fn warnings_and_missing_large_folios_are_told() {
        let mut comparison = comparison(1000, 100);
        comparison.options.filesystem = crate::image::Filesystem::Ext4;
        comparison.runs[1].warnings.push("walk failed".into());
        let text = render(&comparison);
        assert!(text.contains("warning: patched: walk failed"), "{text}");
        assert!(
            text.contains("ext4 has no large folios in Linux 6.12"),
            "{text}"
        );
    }
}
