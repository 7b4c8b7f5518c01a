// SPDX-License-Identifier: GPL-2.0-only
//! The page: text, tables, and the pictures in their places. It loads nothing and runs nothing.

use crate::count::counts;
use crate::days::{self, Again};
use crate::summary::summary;
use crate::{Command, Source, amount, hardware, job, machine, strips};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;
use wideleaf_lab::results::Comparison;
use wideleaf_lab::results::row::{self, Row};
use wideleaf_lab::sweep;
use wideleaf_lab::table;

pub(crate) const STYLE: &str = include_str!("style.css");

/// The report of all `sources` as an HTML document; `command` tells how to repeat a comparison.
///
pub fn page(sources: &[Source], command: Command<'_>) -> String {
    let mut machines: BTreeMap<String, Vec<&Comparison>> = BTreeMap::new();
    for comparison in days::newest(sources) {
        machines
            .entry(machine(comparison))
            .or_default()
            .push(comparison);
    }
    let mut numbers = 0..;
    let mut sections = Vec::new();
    for (name, comparisons) in &machines {
        let mut parts = Vec::new();
        for alike in of_a_kind(comparisons) {
            let together =
                (alike.len() > 1).then(|| together(&alike, &format!("{}-all", numbers.start)));
            let is_drawn = together.flatten().map(|drawn| parts.push(drawn)).is_some();
            for comparison in alike {
                let number = numbers.next().unwrap_or_default();
                parts.push(section(comparison, command, number, is_drawn));
            }
        }
        sections.push((anchor(name), name, parts));
    }
    let again = days::again(sources);
    let counted = hardware::counted(sources);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Wideleaf lab report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Wideleaf lab report" }
                    (summary(&machines))
                    nav aria-label="Machines" {
                        ul {
                            @for (anchor, name, _) in &sections {
                                li { a href={ "#" (anchor) } { (name) } }
                            }
                            @if !counted.is_empty() {
                                li { a href="#hardware" { "What processors counted" } }
                            }
                            @if !again.is_empty() {
                                li { a href="#again" { "Measured more than once" } }
                            }
                            li { a href="#sources" { "Where this comes from" } }
                        }
                    }
                }
                main {
                    @for (anchor, name, parts) in &sections {
                        section id=(anchor) {
                            h2 { (name) }
                            @for part in parts { (part) }
                        }
                    }
                    @if !counted.is_empty() { (hardware::section(&counted, sources)) }
                    @if !again.is_empty() { (measured_again(&again)) }
                    (origins(sources))
                }
            }
        }
    };
    page.into_string()
}

/// `Linux 6.12, arm64` as a name that a link can have.
fn anchor(name: &str) -> String {
    let plain = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    plain.collect()
}

/// Comparisons that differ in nothing but their cases stand together, each kind where its first is.
fn of_a_kind<'a>(comparisons: &[&'a Comparison]) -> Vec<Vec<&'a Comparison>> {
    let mut kinds: Vec<(String, Vec<&Comparison>)> = Vec::new();
    for comparison in comparisons {
        let kind = format!("{} {:?}", days::kind(comparison), comparison.variants());
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, alike)) => alike.push(comparison),
            None => kinds.push((kind, vec![comparison])),
        }
    }
    kinds.into_iter().map(|(_, alike)| alike).collect()
}

/// One picture of the counts of comparisons that differ in nothing but their cases.
fn together(alike: &[&Comparison], id: &str) -> Option<Markup> {
    let first = alike.first()?;
    let job = job(first)?;
    let all: Vec<_> = alike.iter().flat_map(|other| counts(job, other)).collect();
    let drawn = strips::points(&all, first, id)?;
    Some(html! {
        article {
            h3 { (alike.len()) " comparisons of the job " (job.facts().name) }
            (drawn)
        }
    })
}

/// `is_drawn`: whether its counts stand in a picture with others already.
fn section(comparison: &Comparison, command: Command<'_>, number: usize, is_drawn: bool) -> Markup {
    let job = job(comparison);
    let title = title(comparison);
    let look = job.and_then(|job| Some((job, job.look(comparison).ok()?)));
    let (notes, rows) = look.map_or_else(Default::default, |(job, look)| {
        (table::notes(job, look.as_ref(), comparison), look.rows())
    });
    let counts = job.map_or_else(Vec::new, |job| counts(job, comparison));
    let id = |what: &str| format!("{what}-{number}");
    html! {
        article {
            h3 { (title) }
            @if !is_drawn {
                (strips::points(&counts, comparison, &id("points")).unwrap_or_default())
            }
            (strips::coverage(comparison, &id("coverage")).unwrap_or_default())
            details open[counts.is_empty()] { summary { "All counts" } (table_of(&rows, comparison)) }
            @for note in &notes { p.note { (note.trim()) } }
            (swept(comparison))
            p { "To repeat it: " code { (command(comparison)) } }
        }
    }
}

/// How far changes depend on the model, if variants of it counted.
fn swept(comparison: &Comparison) -> Markup {
    let text = sweep::render(comparison);
    html! {
        @if !text.is_empty() {
            details { summary { "How far the changes depend on the model" } pre { (text) } }
        }
    }
}

/// What was measured, on which machine; of an unknown job only the machine.
fn title(comparison: &Comparison) -> String {
    let look = job(comparison).and_then(|job| job.look(comparison).ok());
    look.map_or_else(
        || machine(comparison),
        |look| table::title(look.as_ref(), comparison),
    )
}

/// Rows of a section, a program for instance, stand together below its name.
fn table_of(rows: &[Row], comparison: &Comparison) -> Markup {
    let variants = comparison.variants();
    let changes = rows.iter().any(|row| !row.change.is_empty());
    let columns = 1 + variants.len() + usize::from(changes);
    html! {
        table.stack {
            thead {
                tr {
                    th scope="col" { "count" }
                    @for variant in &variants { th scope="col" { (variant) } }
                    @if changes { th scope="col" { "change" } }
                }
            }
            @for rows in rows.chunk_by(|a, b| a.section == b.section) {
                tbody {
                    @if rows.iter().any(|row| !row.label.is_empty()) && !rows[0].section.is_empty() {
                        tr { th.group scope="rowgroup" colspan=(columns) { (rows[0].section) } }
                    }
                    @for row in rows {
                        tr {
                            th scope="row" {
                                @if row.label.is_empty() { (row.section) } @else { (row.label) }
                            }
                            @for (variant, cell) in variants.iter().zip(&row.cells) {
                                td data-label=(variant) { (readable(cell)) }
                            }
                            @if changes { td data-label="change" { (row.change) } }
                        }
                    }
                }
            }
        }
    }
}

/// The numbers of a cell, `1/8191`, with all their digits in threes.
fn readable(cell: &str) -> String {
    let part = |part: &str| part.parse().map_or_else(|_| part.into(), amount::exact);
    cell.split('/').map(part).collect::<Vec<_>>().join(" / ")
}

fn measured_again(again: &[Again<'_>]) -> Markup {
    html! {
        section id="again" {
            h2 { "Measured more than once" }
            @for group in again {
                @let times: Vec<_> = group.made.iter().map(|(when, _)| date(*when)).collect();
                @let changes = group.changes();
                article {
                    @if let Some((_, comparison)) = group.made.last() {
                        h3 { (title(comparison)) }
                    }
                    p { (times.join(", ")) }
                    @if changes.is_empty() {
                        p { "No count of the table differs between the first and the last time." }
                    } @else {
                        div.wide {
                            table.stack {
                                thead {
                                    tr {
                                        th scope="col" { "Count" }
                                        th scope="col" { "kernel" }
                                        th scope="col" { (times.first().map_or("", |t| t)) }
                                        th scope="col" { (times.last().map_or("", |t| t)) }
                                        th scope="col" { "change" }
                                    }
                                }
                                tbody {
                                    @for change in &changes {
                                        tr {
                                            th scope="row" { (change.figure) }
                                            td { (change.variant) }
                                            @let (first, last) = change.values;
                                            td data-label="first" title=(amount::exact(first)) {
                                                (amount::rounded(first))
                                            }
                                            td data-label="last" title=(amount::exact(last)) {
                                                (amount::rounded(last))
                                            }
                                            td data-label="change" {
                                                (row::change(first as f64, last as f64))
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn origins(sources: &[Source]) -> Markup {
    html! {
        section id="sources" {
            h2 { "Where this comes from" }
            @for source in sources {
                @let results = &source.results;
                h3 { (source.name) }
                p {
                    (date(results.created_unix_s)) ", wideleaf " (results.wideleaf) ", on "
                    (results.host.cpu) ", " (results.host.cpus) " CPUs, Linux " (results.host.kernel)
                }
                @for expectation in results.expectations.iter().filter(|verdict| !verdict.passed) {
                    p.failed { "Not met: " (expectation.expectation) " (" (expectation.comparison) ")" }
                }
                div.wide {
                    table.stack {
                        thead {
                            tr {
                                th scope="col" { "Kernel" }
                                th scope="col" { "variant" }
                                th scope="col" { "source" }
                                th scope="col" { "image" }
                            }
                        }
                        tbody {
                            @for comparison in &results.comparisons {
                                @for kernel in &comparison.kernels {
                                    tr {
                                        th scope="row" { (machine(comparison)) }
                                        td { (kernel.variant) }
                                        td data-label="source" { (kernel.package_version.as_deref().unwrap_or("given")) }
                                        td data-label="image" { code { (kernel.image_hash) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Seconds since 1970-01-01 as a date in UTC.
fn date(unix_s: u64) -> String {
    let timestamp = i64::try_from(unix_s)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok());
    timestamp.map_or_else(
        || format!("@{unix_s}"),
        |t| t.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    fn shown(sources: &[Source]) -> String {
        page(sources, &|comparison| {
            format!("lab run --job {}", comparison.job)
        })
    }

    fn exec(walks: u64) -> serde_json::Value {
        json!({
            "cold.faults": count(1000, 100, 10),
            "random.walks": count(5000, 2000, walks),
            "text.4K": count(512, 256, 0),
            "text.2M": count(0, 256, 512),
        })
    }

    #[test]
    fn a_page_stands_alone_and_says_how_to_repeat_it() {
        let page = shown(&[source(1, "exec", &exec(5))]);
        for foreign in ["http:", "https:", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("lab run --job exec"), "{page}");
        assert!(page.contains("5 with patched"), "{page}");
        assert!(page.contains("a &lt;b&gt; CPU"), "{page}");
    }

    #[test]
    fn programs_of_a_matrix_stand_in_one_picture_and_what_was_measured_twice_counts_once() {
        let of = |day, program: &str, misses| {
            let mut source = source(
                day,
                "program",
                &json!({ format!("{program}.warm.itlb_l1_misses"): count(1000, 1000, misses) }),
            );
            source.results.comparisons[0].options["programs"] = json!([program]);
            source
        };
        let page = shown(&[of(1, "gcc", 10), of(1, "clang", 20), of(2, "clang", 30)]);
        assert_eq!(page.matches("<figure").count(), 1, "{page}");
        let picture = &page[page.find("<figure").unwrap()..page.find("</figure>").unwrap()];
        for row in [">gcc</th>", ">clang</th>", "3.00\u{a0}%"] {
            assert!(picture.contains(row), "{row}: {picture}");
        }
        assert!(!picture.contains("2.00\u{a0}%"), "{picture}");
        assert!(page.contains(">0 more changed, 0 did not<"), "{page}");
    }

    #[test]
    fn each_picture_has_a_name() {
        let page = shown(&[source(1, "exec", &exec(5))]);
        // Counts and coverage.
        assert_eq!(page.matches("<figure").count(), 2, "{page}");
        for name in ["points-0", "coverage-0"] {
            assert!(
                page.contains(&format!("aria-labelledby=\"{name}\"")),
                "{page}"
            );
            assert!(page.contains(&format!("id=\"{name}\"")), "{page}");
        }
        let (pictures, named) = ("<svg viewBox", "role=\"img\" aria-label=");
        assert_eq!(page.matches(pictures).count(), page.matches(named).count());
    }

    #[test]
    fn rows_of_a_program_stand_below_its_name() {
        let row = |section: &str, label: &str| {
            Row::words(
                section,
                label,
                vec!["1/8191".into(), "12345".into(), "2M 98%".into()],
            )
        };
        let source = source(1, "exec", &exec(5));
        let rows = [row("gcc", "walks"), row("gcc", "faults"), row("text", "")];
        let table = table_of(&rows, &source.results.comparisons[0]).into_string();
        assert_eq!(table.matches("scope=\"rowgroup\"").count(), 1, "{table}");
        assert!(table.contains("<th scope=\"row\">faults</th>"), "{table}");
        assert!(table.contains(">1 / 8\u{202f}191</td>"), "{table}");
        assert!(table.contains(">2M 98%</td>"), "{table}");
    }

    #[test]
    fn what_differs_between_two_days_is_shown_and_nothing_else() {
        let days = [source(2, "exec", &exec(7)), source(1, "exec", &exec(5))];
        let page = shown(&days);
        let again = &page[page.find("id=\"again\"").unwrap()..page.find("id=\"sources\"").unwrap()];
        assert!(
            again.contains("1970-01-02 00:00 UTC, 1970-01-03 00:00 UTC"),
            "{again}"
        );
        assert!(
            again.contains("random.walks</th><td>patched</td>")
                && again.contains("title=\"7\">7</td><td data-label=\"change\">+40.0%"),
            "{again}"
        );
        assert!(!again.contains("cold.faults"), "{again}");
        let other = [source(1, "exec", &exec(5)), source(2, "sparse", &exec(5))];
        assert!(!shown(&other).contains("id=\"again\""));
    }
}
