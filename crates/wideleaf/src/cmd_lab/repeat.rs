// SPDX-License-Identifier: GPL-2.0-only
//! The command that makes a comparison again.

use std::fmt::Display;
use wideleaf_jobs::registry;
use wideleaf_lab::job;
use wideleaf_lab::results::Comparison;

/// `wideleaf lab run JOB ...` with what differs from the defaults.
pub fn command(comparison: &Comparison) -> String {
    let command = ["wideleaf", "lab", "run"].map(String::from);
    shell_words::join(command.into_iter().chain(arguments(comparison)))
}

/// The words after `lab run`.
fn arguments(comparison: &Comparison) -> Vec<String> {
    let mut words = vec![comparison.job.clone()];
    let mut put = |option: &str, value: &dyn Display| {
        words.extend([format!("--{option}"), value.to_string()]);
    };
    put("base", &comparison.base);
    put("arch", &comparison.arch);
    put("page-size", &comparison.page_size);
    let Ok(job) = registry::find(&comparison.job) else {
        return words;
    };
    let variants = comparison.variants();
    if variants != job.facts().variants {
        let names: Vec<_> = variants.iter().map(|variant| variant.name()).collect();
        put("variants", &names.join(","));
    }
    let repeats = comparison.runs.iter().map(|run| run.repeat);
    match repeats.max() {
        None | Some(1) => {}
        Some(times) => put("repeat", &times),
    }
    let commits = comparison.kernels.iter();
    let commits: Vec<_> = commits
        .filter_map(|kernel| Some((kernel.variant, kernel.commit.as_ref()?)))
        .collect();
    if let Some((_, commit)) = commits.first() {
        put("tree", &commit.dir.display());
    }
    for (variant, commit) in commits {
        put(variant.name(), &commit.id);
    }
    words.extend(job::words(job, &comparison.common, &comparison.options));
    words
}
