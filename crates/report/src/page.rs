// SPDX-License-Identifier: GPL-2.0-only
//! The page: text, tables, and the plots in their places. It loads nothing and runs nothing.

use crate::days::{self, Again};
use crate::plot::{COLOURS, Plot};
use crate::{Command, Source, headline, job, machine, pictures};
use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;
use wideleaf_lab::results::Comparison;
use wideleaf_lab::results::row::{self, Row};
use wideleaf_lab::table;

pub(crate) const STYLE: &str = include_str!("style.css");

/// The report of all `sources` as an HTML document; `command` tells how to repeat a comparison.
///
/// # Errors
///
/// If a plot cannot be drawn.
pub fn page(sources: &[Source], command: Command<'_>) -> Result<String> {
    let comparisons: Vec<_> = sources
        .iter()
        .flat_map(|source| &source.results.comparisons)
        .collect();
    let mut machines: BTreeMap<String, Vec<&Comparison>> = BTreeMap::new();
    for comparison in &comparisons {
        machines
            .entry(machine(comparison))
            .or_default()
            .push(comparison);
    }
    let mut numbers = 0..;
    let mut sections = Vec::new();
    for (name, comparisons) in &machines {
        let parts: Result<Vec<_>> = comparisons
            .iter()
            .map(|comparison| section(comparison, command, &mut numbers))
            .collect();
        sections.push((anchor(name), name, parts?));
    }
    let again = days::again(sources);
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
                    (headlines(&comparisons))
                    nav aria-label="Machines" {
                        ul {
                            @for (anchor, name, _) in &sections {
                                li { a href={ "#" (anchor) } { (name) } }
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
                    @if !again.is_empty() { (measured_again(&again)) }
                    (origins(sources))
                }
            }
        }
    };
    Ok(page.into_string())
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

fn headlines(comparisons: &[&Comparison]) -> Markup {
    let sentences: Vec<_> = comparisons
        .iter()
        .filter_map(|c| headline::sentence(c))
        .collect();
    html! {
        p {
            "Counts from guests in QEMU, the patched kernel's against the pristine one's. "
            "TLB misses and walks are those of a model of the named CPU. "
            "Time under emulation is no measure of speed, so none is compared."
        }
        @if !sentences.is_empty() {
            ul.headline { @for sentence in &sentences { li { (sentence) } } }
        }
    }
}

fn section(
    comparison: &Comparison,
    command: Command<'_>,
    numbers: &mut impl Iterator<Item = usize>,
) -> Result<Markup> {
    let job = job(comparison);
    let title = title(comparison);
    let look = job.and_then(|job| Some((job, job.look(comparison).ok()?)));
    let (notes, rows) = look.map_or_else(Default::default, |(job, look)| {
        (table::notes(job, look.as_ref(), comparison), look.rows())
    });
    let figures: Result<Vec<_>> = pictures::of(job, comparison)
        .iter()
        .map(|plot| figure(plot, numbers.next().unwrap_or_default()))
        .collect();
    let figures = figures?;
    Ok(html! {
        article {
            h3 { (title) }
            (table_of(&rows, comparison, &title))
            @for note in &notes { p.note { (note.trim()) } }
            p { "To repeat it: " code { (command(comparison)) } }
            @for figure in &figures { (figure) }
        }
    })
}

/// What was measured, on which machine; of an unknown job only the machine.
fn title(comparison: &Comparison) -> String {
    let look = job(comparison).and_then(|job| job.look(comparison).ok());
    look.map_or_else(
        || machine(comparison),
        |look| table::title(look.as_ref(), comparison),
    )
}

fn table_of(rows: &[Row], comparison: &Comparison, title: &str) -> Markup {
    let variants = comparison.variants();
    let changes = rows.iter().any(|row| !row.change.is_empty());
    html! {
        div.wide role="region" aria-label=(title) tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "Count" }
                        @for variant in &variants { th scope="col" { (variant) } }
                        @if changes { th scope="col" { "change" } }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { (row.section) " " (row.label) }
                            @for cell in &row.cells { td { (cell) } }
                            @if changes { td { (row.change) } }
                        }
                    }
                }
            }
        }
    }
}

/// A plot with its legend, and with its values as a table for who cannot see it.
pub(crate) fn figure(plot: &Plot, number: usize) -> Result<Markup> {
    let id = format!("plot-{number}");
    let drawn = plot.svg()?;
    let named = drawn.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-labelledby=\"{id}\" "),
        1,
    );
    Ok(html! {
        figure.plot {
            figcaption id=(id) { (plot.title) }
            div.wide role="region" aria-labelledby=(id) tabindex="0" { (PreEscaped(named)) }
            @if plot.series.len() > 1 {
                ul.legend {
                    @for (n, series) in plot.series.iter().enumerate() {
                        li { span class={ "key c" (n % COLOURS) } aria-hidden="true" {} (series.name) }
                    }
                }
            }
            details { summary { "Values, " (plot.y) } (values(plot)) }
        }
    })
}

fn values(plot: &Plot) -> Markup {
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { @if plot.x.is_empty() { "count" } @else { (plot.x) } }
                        @for series in &plot.series { th scope="col" { (series.name) } }
                    }
                }
                tbody {
                    @for (n, category) in plot.categories.iter().enumerate() {
                        tr {
                            th scope="row" { (category) }
                            @for series in &plot.series { td { (shown(series.values[n])) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.2}"))
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
                            table {
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
                                            td { (change.values.0) }
                                            td { (change.values.1) }
                                            td { (row::change(change.values.0 as f64, change.values.1 as f64)) }
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
                    table {
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
                                        td { (kernel.package_version.as_deref().unwrap_or("given")) }
                                        td { code { (kernel.image_hash) } }
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
        .unwrap()
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
            let found = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(foreign), "{foreign}");
        }
        assert!(page.contains("lab run --job exec"), "{page}");
        assert!(page.contains("99.90 % fewer page walks"), "{page}");
        assert!(page.contains("a &lt;b&gt; CPU"), "{page}");
    }

    #[test]
    fn each_plot_has_a_name_and_its_values() {
        let page = shown(&[source(1, "exec", &exec(5))]);
        let plots = page.matches("<figure").count();
        // Counts, coverage, spread.
        assert_eq!(plots, 3, "{page}");
        for n in 0..plots {
            assert!(
                page.contains(&format!("aria-labelledby=\"plot-{n}\"")),
                "{n}"
            );
            assert!(page.contains(&format!("id=\"plot-{n}\"")), "{n}");
        }
        assert_eq!(page.matches("<summary>Values").count(), plots);
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
            again.contains("random.walks</th><td>patched</td><td>5</td><td>7</td><td>+40.0%"),
            "{again}"
        );
        assert!(!again.contains("cold.faults"), "{again}");
        let other = [source(1, "exec", &exec(5)), source(2, "sparse", &exec(5))];
        assert!(!shown(&other).contains("id=\"again\""));
    }
}
