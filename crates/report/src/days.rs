// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons that were made more than once, on different days or with different series.

use crate::{Source, job};
use std::collections::BTreeMap;
use wideleaf_lab::common::Common;
use wideleaf_lab::results::Comparison;

/// The same comparison, in the order in which it was made.
pub struct Again<'a> {
    /// What was measured and when it was done, in seconds since 1970-01-01 UTC.
    pub made: Vec<(u64, &'a Comparison)>,
}

/// A count that differs between the first and the last time.
#[derive(Debug, PartialEq)]
pub struct Change {
    /// Name of the figure.
    pub figure: String,
    /// Name of the variant.
    pub variant: String,
    /// Its value the first time and the last.
    pub values: (u64, u64),
}

/// Every comparison that was made, once: of one that was made more than once the newest.
pub fn newest(sources: &[Source]) -> Vec<&Comparison> {
    let newest = |made: Vec<(u64, _)>| made.last().map(|(_, comparison)| *comparison);
    groups(sources).into_values().filter_map(newest).collect()
}

/// Whatever was measured at least twice.
pub fn again(sources: &[Source]) -> Vec<Again<'_>> {
    let repeated = groups(sources).into_values().filter(|made| made.len() > 1);
    repeated.map(|made| Again { made }).collect()
}

/// All comparisons by what they are of, each in the order in which it was made.
fn groups(sources: &[Source]) -> BTreeMap<String, Vec<(u64, &Comparison)>> {
    let mut groups: BTreeMap<String, Vec<(u64, &Comparison)>> = BTreeMap::new();
    for source in sources {
        for comparison in &source.results.comparisons {
            let made = (source.results.created_unix_s, comparison);
            groups.entry(what(comparison)).or_default().push(made);
        }
    }
    for made in groups.values_mut() {
        made.sort_by_key(|(when, _)| *when);
    }
    groups
}

/// What makes two comparisons the same one: all that was asked for, but the patience.
fn what(comparison: &Comparison) -> String {
    format!("{} {}", kind(comparison), comparison.options)
}

/// Comparisons of one kind have this in common: all that was asked for but the cases, which are
/// the lists among the job's options.
pub fn kind(comparison: &Comparison) -> String {
    let common = Common {
        timeout: None,
        ..comparison.common.clone()
    };
    let options = comparison.options.as_object().into_iter().flatten();
    let own: Vec<_> = options.filter(|(_, value)| !value.is_array()).collect();
    let Comparison {
        job,
        base,
        arch,
        page_size,
        ..
    } = comparison;
    format!("{base} {arch} {page_size} {job} {common:?} {own:?}")
}

impl Again<'_> {
    /// The headline counts that both times have and that are not the same.
    pub fn changes(&self) -> Vec<Change> {
        let [(_, first), .., (_, last)] = self.made.as_slice() else {
            return Vec::new();
        };
        let job = job(first);
        let mut changes = Vec::new();
        for (name, old) in &first.figures {
            if !job.is_some_and(|job| job.is_headline(name)) {
                continue;
            }
            let Some(new) = last.figures.get(name) else {
                continue;
            };
            for (variant, &before) in &old.values {
                if let Some(after) = new.of(*variant).filter(|after| *after != before) {
                    changes.push(Change {
                        figure: name.clone(),
                        variant: variant.to_string(),
                        values: (before, after),
                    });
                }
            }
        }
        changes
    }
}
