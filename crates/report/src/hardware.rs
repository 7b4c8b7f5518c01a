// SPDX-License-Identifier: GPL-2.0-only
//! Counts of processors, beside those of the model for the same work.

use crate::amount;
use crate::{Source, machine};
use maud::{Markup, html};
use std::collections::BTreeMap;
use wideleaf_jobs::exec::hardware::{command, does_the_same};
use wideleaf_kbuild::Variant;
use wideleaf_lab::host::Host;
use wideleaf_lab::results::{Comparison, Counted};

/// A count of the processor of a machine.
pub(crate) type OnHost<'a> = (&'a Host, &'a Counted);

/// All that processors counted.
pub(crate) fn counted(sources: &[Source]) -> Vec<OnHost<'_>> {
    let mut all = Vec::new();
    for Source { results, .. } in sources {
        all.extend(
            results
                .hardware
                .iter()
                .map(|counted| (&results.host, counted)),
        );
    }
    all
}

/// The section of the page: each with the comparisons of `sources` that did the same.
pub(crate) fn section(all: &[OnHost<'_>], sources: &[Source]) -> Markup {
    let comparisons = || {
        sources
            .iter()
            .flat_map(|source| &source.results.comparisons)
    };
    html! {
        section id="hardware" {
            h2 { "What processors counted" }
            p {
                "A processor counts its own misses and walks in user mode alone. The lab's "
                code { "itlb_l1_misses" } " are those of the kernel too, its " code { "text_walks" }
                " are not. Counts of two machines can be compared where the kernel's configuration and \
                 the layout of the text are the same."
            }
            @for (host, counted) in all {
                @let same = comparisons().filter(|other| does_the_same(other, counted));
                (article(host, counted, &same.collect::<Vec<_>>()))
            }
        }
    }
}

/// A kernel of a comparison, and what its column is called.
struct Column<'a> {
    name: String,
    comparison: &'a Comparison,
    variant: Variant,
}

fn article(host: &Host, counted: &Counted, same: &[&Comparison]) -> Markup {
    let mut columns = Vec::new();
    for comparison in same {
        columns.extend(columns_of(comparison));
    }
    html! {
        article {
            h3 { (counted.job) ", " (host.cpu) ", Linux " (host.kernel) ", " (counted.page_size) " pages" }
            div.wide { (table(counted, &columns)) }
            @for (reason, names) in reasons(counted) {
                p.note { "Not counted: " (names.join(", ")) ": " (reason) }
            }
            @if let (true, Some(command)) = (same.is_empty(), command(counted)) {
                p { "No comparison here did the same. To make one: " code { (command) } }
            }
        }
    }
}

/// Figures by name, then the time of each phase.
fn table(counted: &Counted, columns: &[Column<'_>]) -> Markup {
    html! {
        table.stack {
            thead {
                tr {
                    th scope="col" { "count" }
                    th scope="col" { "this processor" }
                    @for column in columns { th scope="col" { (column.name) } }
                }
            }
            tbody {
                @for (name, value) in figures(counted) {
                    tr {
                        th scope="row" { (name) }
                        td data-label="this processor" { (value.map_or("-".into(), amount::exact)) }
                        @for column in columns { td data-label=(column.name) { (column.cell(name)) } }
                    }
                }
                @for (phase, ns) in &counted.nanoseconds {
                    tr {
                        th scope="row" { (phase) ", elapsed ms" }
                        td data-label="this processor" { (format!("{:.1}", *ns as f64 / 1e6)) }
                        @for column in columns { td data-label=(column.name) { "-" } }
                    }
                }
            }
        }
    }
}

/// Called by the kernel, and by the processor that was modelled.
fn columns_of(comparison: &Comparison) -> impl Iterator<Item = Column<'_>> {
    let profile = comparison.profile.as_ref();
    let model = profile.map_or("no model", |profile| profile.name.as_str());
    let variants = comparison.variants().into_iter();
    variants.map(move |variant| Column {
        name: format!("{}, {variant}, {model}", machine(comparison)),
        comparison,
        variant,
    })
}

impl Column<'_> {
    fn cell(&self, figure: &str) -> String {
        let figure = self.comparison.figures.get(figure);
        let value = figure.and_then(|figure| figure.of(self.variant));
        value.map_or("-".into(), amount::exact)
    }
}

/// All figures by name, those that the processor lacks too: the model may have them.
fn figures(counted: &Counted) -> BTreeMap<&str, Option<u64>> {
    let there = counted
        .figures
        .iter()
        .map(|(name, value)| (name.as_str(), Some(*value)));
    let missing = counted.missing.keys().map(|name| (name.as_str(), None));
    there.chain(missing).collect()
}

/// Why figures are missing, each reason once.
fn reasons(counted: &Counted) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, reason) in &counted.missing {
        reasons.entry(reason).or_default().push(name);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use crate::page::page;
    use crate::sample::{count, hardware, source};
    use serde_json::json;

    fn shown(lab_calls: u64) -> String {
        let figures = json!({
            "random.text_walks": count(5000, 2000, 7),
            "random.itlb_l1_misses": count(6000, 2000, 8),
        });
        let mut lab = source(1, "exec", &figures);
        lab.results.comparisons[0].runs = crate::sample::exec_run(lab_calls);
        page(&[lab, hardware(64)], &|comparison| comparison.job.clone())
    }

    #[test]
    fn a_processor_s_counts_stand_beside_those_of_the_same_work() {
        let page = shown(64);
        let part = &page[page.find("id=\"hardware\"").unwrap()..];
        assert!(part.contains("a &lt;b&gt; CPU"), "{part}");
        assert!(part.contains("4\u{202f}321"), "{part}");
        assert!(part.contains("5\u{202f}000"), "{part}");
        assert!(
            part.contains("6\u{202f}000"),
            "the processor lacks it: {part}"
        );
        assert!(part.contains("random.itlb_l1_misses: EACCES"), "{part}");
        assert!(!part.contains("To make one"), "{part}");
    }

    #[test]
    fn other_work_is_not_compared_and_the_command_for_it_named() {
        let page = shown(65);
        let part =
            &page[page.find("id=\"hardware\"").unwrap()..page.find("id=\"sources\"").unwrap()];
        assert!(!part.contains("5\u{202f}000"), "{part}");
        assert!(
            part.contains("lab run exec --arch arm64 --page-size 4K --size 32K"),
            "{part}"
        );
    }
}
