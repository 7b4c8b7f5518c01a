// SPDX-License-Identifier: GPL-2.0-only
//! The first screen: of each machine the largest changes, and the largest of all in a sentence.

use crate::count::{Count, changed, counts};
use crate::{amount, job, strips};
use maud::{Markup, html};
use std::collections::BTreeMap;
use wideleaf_kbuild::Variant;
use wideleaf_lab::results::Comparison;

/// So many of each machine.
const SHOWN: usize = 3;

/// A count that differs from the pristine kernel's.
struct Change<'a> {
    count: Count<'a>,
    /// The case, or the job.
    of: String,
    last: Variant,
}

impl Change<'_> {
    fn distance(&self) -> f64 {
        self.count.distance(self.last)
    }
}

/// The changes of a machine, largest first, and how many counts have none.
#[derive(Default)]
struct Changes<'a> {
    largest: Vec<Change<'a>>,
    unchanged: usize,
}

impl<'a> Changes<'a> {
    fn of(comparisons: &[&'a Comparison]) -> Self {
        let mut all = Self::default();
        for comparison in comparisons {
            let (Some(job), Some(last)) = (job(comparison), changed(comparison).pop()) else {
                continue;
            };
            // The sum of all CPUs stands beside each CPU's part of it.
            for count in counts(job, comparison)
                .into_iter()
                .filter(|c| !is_of_one_cpu(c))
            {
                if !count.has_changed(last) {
                    all.unchanged += 1;
                    continue;
                }
                let of = match &count.case[..] {
                    "" => comparison.job.clone(),
                    case => case.to_owned(),
                };
                all.largest.push(Change { count, of, last });
            }
        }
        all.largest
            .sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        all
    }
}

/// By its case, which begins with `cpu0.` or the like, or is that alone.
fn is_of_one_cpu(count: &Count<'_>) -> bool {
    let first = count.case.split('.').next().unwrap_or_default();
    first
        .strip_prefix("cpu")
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The first screen of a report: `machines` are names, with what was compared on them.
pub(crate) fn summary(machines: &BTreeMap<String, Vec<&Comparison>>) -> Markup {
    let of = |(name, comparisons): (&'_ String, &Vec<_>)| (name.clone(), Changes::of(comparisons));
    let all: Vec<(String, Changes<'_>)> = machines.iter().map(of).collect();
    let firsts = all
        .iter()
        .filter_map(|(name, c)| Some((name, c.largest.first()?)));
    let largest = firsts.max_by(|(_, a), (_, b)| a.distance().total_cmp(&b.distance()));
    html! {
        @if let Some((name, change)) = largest { p.headline { (sentence(name, change)) } }
        p {
            "Counts from guests in QEMU; TLB misses and walks are those of a model of the named CPU. "
            "Time under emulation is no measure of speed, so none is compared."
        }
        @if largest.is_some() {
            table.stack {
                caption { "The largest changes of each machine" }
                thead {
                    tr {
                        th scope="col" { "count" }
                        @for name in ["pristine", "with the series", "of pristine", "spread"] {
                            th scope="col" { (name) }
                        }
                    }
                }
                @for (name, changes) in &all { (machine(name, changes)) }
            }
        } @else {
            p { "Nothing was held against a pristine kernel." }
        }
    }
}

fn machine(name: &str, changes: &Changes<'_>) -> Markup {
    let rest = changes.largest.len().saturating_sub(SHOWN);
    html! {
        tbody {
            tr { th.group scope="rowgroup" colspan="5" { (name) } }
            @for change in changes.largest.iter().take(SHOWN) {
                @let values = values(change);
                tr title=(strips::exactly(&change.count)) {
                    th scope="row" { (change.of) ": " (change.count.what) }
                    td data-label="pristine" { (values.0) }
                    td data-label="with the series" { (values.1) }
                    td data-label="of pristine" { (values.2) }
                    td data-label="spread" { (amount::spread(change.count.compared.spread)) }
                }
            }
            tr {
                td.note.rest colspan="5" {
                    (rest) " more changed, " (changes.unchanged) " did not"
                }
            }
        }
    }
}

/// Before, after, and their ratio; from nothing there is none.
fn values(change: &Change<'_>) -> (String, String, String) {
    let value = |variant| change.count.of(variant).map_or("-".into(), amount::rounded);
    let percent = change.count.percent(change.last);
    (
        value(Variant::Pristine),
        value(change.last),
        percent.map_or("-".into(), amount::share),
    )
}

/// `gcc, L1 iTLB misses, warm: 8.65 M with the pristine kernel, 3.65 M with patched (Linux 7.3).`
fn sentence(name: &str, change: &Change<'_>) -> String {
    let (before, after, _) = values(change);
    format!(
        "{}, {}: {before} with the pristine kernel, {after} with {} ({name}).",
        change.of, change.count.what, change.last
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    #[test]
    fn the_largest_change_is_first_and_what_did_not_change_is_a_number() {
        let source = source(
            1,
            "exec",
            &json!({
                "cold.faults": count(8192, 8192, 260),
                "cold.instructions": count(1000, 900, 950),
                "cold.read_bytes": count(1000, 900, 1000),
                "random.itlb_l1_misses": count(65163, 60000, 53482),
                "random.walks": count(49396, 100, 0),
            }),
        );
        let comparison = &source.results.comparisons[0];
        let machines = BTreeMap::from([("a machine".to_string(), vec![comparison])]);
        let page = summary(&machines).into_string();
        let sentence = "49.4\u{a0}k with the pristine kernel, 0 with patched (a machine).";
        assert!(page.contains(sentence), "{page}");
        let order = ["page walks", "faults", "L1 iTLB misses"].map(|what| {
            let row = format!("exec: {what}");
            page.find(&row).unwrap_or_else(|| panic!("{row}: {page}"))
        });
        assert!(order.is_sorted(), "{page}");
        assert!(
            !page.contains("exec: guest instructions"),
            "the fourth: {page}"
        );
        assert!(page.contains("1 more changed, "), "{page}");
    }

    #[test]
    fn a_cpus_part_of_a_count_is_not_shown_beside_the_sum() {
        let source = source(
            1,
            "program",
            &json!({
                "gcc.warm.itlb_l1_misses": count(1000, 900, 10),
                "cpu0.gcc.warm.itlb_l1_misses": count(990, 890, 9),
            }),
        );
        let comparison = &source.results.comparisons[0];
        let machines = BTreeMap::from([("a machine".to_string(), vec![comparison])]);
        let page = summary(&machines).into_string();
        assert!(page.contains(">gcc: L1 iTLB misses, warm<"), "{page}");
        assert!(!page.contains("cpu0"), "{page}");
        assert!(page.contains(">0 more changed, 0 did not<"), "{page}");
    }

    #[test]
    fn without_a_pristine_kernel_nothing_is_compared() {
        let page = summary(&BTreeMap::new()).into_string();
        assert!(page.contains("Nothing was held against a pristine kernel."));
    }
}
