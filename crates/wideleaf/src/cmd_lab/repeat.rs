// SPDX-License-Identifier: GPL-2.0-only
//! The command that makes a comparison again: the inverse of `arguments`.

use std::fmt::Display;
use wideleaf_lab::job::{takes, usual};
use wideleaf_lab::jobs;
use wideleaf_lab::options::joined;
use wideleaf_lab::results::Comparison;

/// `wideleaf lab run ...` with what differs from the defaults.
pub fn command(comparison: &Comparison) -> String {
    let command = ["wideleaf", "lab", "run"].map(String::from);
    shell_words::join(command.into_iter().chain(arguments(comparison)))
}

/// Options of `lab run`, as words.
fn arguments(comparison: &Comparison) -> Vec<String> {
    let mut words = Words::default();
    words.put("--job", &comparison.job);
    words.put("--base", comparison.base);
    words.put("--arch", comparison.arch);
    words.put("--page-size", comparison.page_size);
    let Ok(job) = jobs::find(&comparison.job) else {
        return words.0;
    };
    words.differs(
        "--variants",
        joined(&comparison.variants()),
        joined(job.variants()),
    );
    let repeats = comparison.runs.iter().map(|run| run.repeat);
    words.differs("--repeat", repeats.max().unwrap_or(1), 1);
    for kernel in &comparison.kernels {
        if let Some(commit) = &kernel.commit {
            if !words.0.contains(&"--tree".to_string()) {
                words.put("--tree", commit.dir.display());
            }
            words.put(&format!("--{}", kernel.variant), &commit.id);
        }
    }
    let usual = usual(job, comparison.arch).words();
    let asked = comparison.options.words().into_iter().zip(usual);
    let differing = asked.filter(|(asked, usual)| asked != usual);
    words.0.extend(
        differing
            .filter(|((setting, _), _)| takes(job, *setting))
            .flat_map(|((_, words), _)| words),
    );
    words.0
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn put(&mut self, option: &str, value: impl Display) {
        self.0.extend([option.to_string(), value.to_string()]);
    }

    fn differs<T: PartialEq + Display>(&mut self, option: &str, value: T, usual: T) {
        if value != usual {
            self.put(option, value);
        }
    }
}
