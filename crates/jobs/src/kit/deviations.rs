// SPDX-License-Identifier: GPL-2.0-only
//! Holds tests of two kernels against each other.
//!
//! A test is known by its name. One that does not end the same way in two runs
//! of one kernel is flaky: it says nothing about a difference between kernels,
//! but it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wideleaf_guest::kit::tap::Status;
use wideleaf_kbuild::Variant;

/// How a test ended in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// It says that it cannot run here.
    Skipped,
    /// It ran into its limit.
    Killed,
    /// Other runs had it, this one did not.
    Absent,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Killed => "killed",
            Self::Absent => "absent",
        })
    }
}

impl From<Status> for Ending {
    fn from(status: Status) -> Self {
        match status {
            Status::Pass => Self::Passed,
            Status::Fail => Self::Failed,
            Status::Skip => Self::Skipped,
        }
    }
}

/// A test that did not always end the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// Its name: `khugepaged -s 2: collapse_full`, `mremap`.
    pub test: String,
    /// All ways in which it ended, by kernel.
    pub endings: BTreeMap<Variant, BTreeSet<Ending>>,
}

impl Ending {
    /// The higher, the worse. A test that a kernel skips shows less than one that passes.
    fn badness(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Skipped | Self::Absent => 1,
            Self::Failed => 2,
            Self::Killed => 3,
        }
    }
}

impl Deviation {
    /// Whether it ended worse with a further kernel than it ever did with the first.
    pub fn is_worse(&self) -> bool {
        let worst = |endings: &BTreeSet<Ending>| endings.iter().map(|e| e.badness()).max();
        let mut kernels = self.endings.values().map(worst);
        let first = kernels.next().flatten();
        kernels.any(|other| other > first)
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_one = |(variant, endings): (&Variant, &BTreeSet<Ending>)| {
            let endings: Vec<_> = endings.iter().map(Ending::to_string).collect();
            format!("{variant} {}", endings.join(" or "))
        };
        let all: Vec<_> = self.endings.iter().map(of_one).collect();
        write!(f, "{}: {}", self.test, all.join(", "))
    }
}

/// What the runs do not agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deviations {
    /// One ending with each kernel, but not the same.
    pub differences: Vec<Deviation>,
    /// What the first kernel skips and all others pass: tests of what they have and it has not.
    pub gained: Vec<Deviation>,
    /// More than one ending with the same kernel.
    pub flaky: Vec<Deviation>,
}

/// What these runs do not agree on.
pub fn deviations(runs: impl Iterator<Item = (Variant, Endings)>) -> Deviations {
    let mut results: Vec<_> = runs.collect();
    if let Some(((_, first), others)) = results.split_first_mut() {
        others
            .iter_mut()
            .for_each(|(_, other)| other.name_as(first));
    }
    let names: BTreeSet<&String> = results.iter().flat_map(|(_, r)| r.endings.keys()).collect();
    let mut found = Deviations::default();
    for test in names {
        let mut endings: BTreeMap<Variant, BTreeSet<Ending>> = BTreeMap::new();
        for (variant, results) in &results {
            let of_kernel = endings.entry(*variant).or_default();
            of_kernel.extend(results.ending(test));
        }
        endings.retain(|_, endings| !endings.is_empty());
        let all: BTreeSet<_> = endings.values().flatten().collect();
        let flaky = endings.values().any(|endings| endings.len() > 1);
        let list = match all.len() {
            0 | 1 => continue,
            _ if flaky => &mut found.flaky,
            _ if gained(&endings) => &mut found.gained,
            _ => &mut found.differences,
        };
        list.push(Deviation {
            test: test.clone(),
            endings,
        });
    }
    found
}

/// How the tests of one run ended.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    endings: BTreeMap<String, Ending>,
    /// Of programs that ran into their limit or skipped: tests that they did not come to are not
    /// missing.
    ended_early: Vec<String>,
}

impl Endings {
    /// Adds a test; gives the name under which it is found. Some programs
    /// have several tests of one name, and the runner runs some twice.
    pub fn add(&mut self, name: String, ending: Ending) -> String {
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.endings.contains_key(name));
        let free = free.unwrap_or(name);
        self.endings.insert(free.clone(), ending);
        free
    }

    /// Other runs may have further tests whose names begin with this.
    pub fn ended_early(&mut self, prefix: String) {
        self.ended_early.push(prefix);
    }

    /// Takes over the other run's names of tests that put a figure of the run
    /// in their name: `reaping a child with 2MB`.
    fn name_as(&mut self, other: &Self) {
        let unknown = |results: &Self, known: &Self| -> Vec<String> {
            let names = results.endings.keys();
            names
                .filter(|n| !known.endings.contains_key(*n))
                .cloned()
                .collect()
        };
        let mut theirs = unknown(other, self);
        for own in unknown(self, other) {
            let Some(at) = theirs.iter().position(|n| same_but_for_figures(n, &own)) else {
                continue;
            };
            if let Some(ending) = self.endings.remove(&own) {
                self.endings.insert(theirs.remove(at), ending);
            }
        }
    }

    fn ending(&self, test: &str) -> Option<Ending> {
        if let Some(ending) = self.endings.get(test) {
            return Some(*ending);
        }
        let cut_off = self
            .ended_early
            .iter()
            .any(|program| test.starts_with(program));
        (!cut_off).then_some(Ending::Absent)
    }
}

fn gained(endings: &BTreeMap<Variant, BTreeSet<Ending>>) -> bool {
    let only = |endings: &BTreeSet<Ending>, what| endings.iter().eq([&what]);
    let mut all = endings.values();
    all.next().is_some_and(|first| only(first, Ending::Skipped))
        && all.all(|other| only(other, Ending::Passed))
}

fn same_but_for_figures(one: &str, other: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        name.split(|c: char| c.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .map(String::from)
            .collect()
    };
    words(one) == words(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of `name ending` or, within a program, `  name ending`.
    fn run_of(variant: Variant, text: &str) -> (Variant, Endings) {
        let mut endings = Endings::default();
        let mut program = String::new();
        for line in text.lines() {
            let (name, word) = line.trim().rsplit_once(' ').unwrap();
            let all = [
                Ending::Passed,
                Ending::Failed,
                Ending::Skipped,
                Ending::Killed,
            ];
            let ending = all.into_iter().find(|e| e.to_string() == word).unwrap();
            if line.starts_with(' ') {
                endings.add(format!("{program}: {name}"), ending);
                continue;
            }
            program = endings.add(name.into(), ending);
            if matches!(ending, Ending::Killed | Ending::Skipped) {
                endings.ended_early(format!("{program}: "));
            }
        }
        (variant, endings)
    }

    fn deviations(runs: &[(Variant, Endings)]) -> Deviations {
        super::deviations(runs.iter().cloned())
    }

    fn texts(deviations: &[Deviation]) -> Vec<String> {
        deviations.iter().map(Deviation::to_string).collect()
    }

    const PRISTINE: &str = "cow failed\n  fork passed\n  pin failed\nrmap skipped";

    #[test]
    fn the_same_failures_are_no_difference() {
        let runs = [Variant::Pristine, Variant::Patched].map(|v| run_of(v, PRISTINE));
        assert_eq!(deviations(&runs), Deviations::default());
    }

    #[test]
    fn a_difference_in_a_program_and_in_a_test_of_it() {
        let patched = "cow passed\n  fork passed\n  pin passed\nrmap skipped\nnew passed";
        let runs = [
            run_of(Variant::Pristine, PRISTINE),
            run_of(Variant::Patched, patched),
        ];
        let found = deviations(&runs);
        assert_eq!(
            texts(&found.differences),
            [
                "cow: pristine failed, patched passed",
                "cow: pin: pristine failed, patched passed",
                "new: pristine absent, patched passed",
            ]
        );
        assert_eq!(found.flaky, []);
    }

    #[test]
    fn what_differs_with_one_kernel_is_flaky_and_shown() {
        let runs = [
            run_of(Variant::Pristine, "cow passed"),
            run_of(Variant::Patched, "cow failed"),
            run_of(Variant::Pristine, "cow failed"),
            run_of(Variant::Patched, "cow failed"),
        ];
        let found = deviations(&runs);
        assert_eq!(found.differences, []);
        assert_eq!(
            texts(&found.flaky),
            ["cow: pristine passed or failed, patched failed"]
        );
    }

    #[test]
    fn a_failure_of_a_further_kernel_is_worse_unless_the_first_has_it_too() {
        let is_worse = |pristine: &[&str], patched: &str| {
            let mut runs: Vec<_> = pristine
                .iter()
                .map(|text| run_of(Variant::Pristine, text))
                .collect();
            runs.push(run_of(Variant::Patched, patched));
            let found = deviations(&runs);
            let mut all = found.differences.iter().chain(&found.flaky);
            all.any(Deviation::is_worse)
        };
        assert!(is_worse(&["cow passed"], "cow failed"));
        assert!(is_worse(&["cow passed"], "cow skipped"));
        assert!(is_worse(&["cow failed", "cow passed"], "cow killed"));
        assert!(!is_worse(&["cow failed", "cow passed"], "cow failed"));
        assert!(!is_worse(&["cow killed"], "cow passed"));
    }

    #[test]
    fn tests_that_a_killed_program_did_not_come_to_are_not_missing() {
        let runs = [
            run_of(Variant::Pristine, "cow killed\n  fork passed"),
            run_of(Variant::Patched, "cow killed\n  fork passed\n  pin passed"),
        ];
        assert_eq!(deviations(&runs), Deviations::default());
        let ended = [
            run_of(Variant::Pristine, "cow failed\n  fork passed"),
            run_of(Variant::Patched, "cow failed\n  fork passed\n  pin passed"),
        ];
        assert_eq!(deviations(&ended).differences.len(), 1);
    }

    #[test]
    fn what_only_the_patched_kernel_can_be_tested_for_is_gained() {
        let against = |patched| {
            let pristine = run_of(Variant::Pristine, "leaves skipped");
            deviations(&[pristine, run_of(Variant::Patched, patched)])
        };
        let found = against("leaves passed\n  wide passed");
        assert_eq!(found.differences, []);
        assert_eq!(
            texts(&found.gained),
            ["leaves: pristine skipped, patched passed"]
        );
        let found = against("leaves failed\n  wide failed");
        assert_eq!(found.gained, []);
        assert_eq!(
            texts(&found.differences),
            ["leaves: pristine skipped, patched failed"]
        );
    }

    #[test]
    fn a_figure_in_a_name_is_no_difference() {
        let pristine = "k passed\n  4K move passed\n  used 9MB passed";
        let same = "k passed\n  4K move passed\n  used 12MB passed";
        let worse = "k passed\n  4K move passed\n  used 12MB failed";
        let against = |patched| {
            let runs = [
                run_of(Variant::Pristine, pristine),
                run_of(Variant::Patched, patched),
            ];
            texts(&deviations(&runs).differences)
        };
        assert_eq!(against(same), Vec::<String>::new());
        assert_eq!(
            against(worse),
            ["k: used 9MB: pristine passed, patched failed"]
        );
    }

    #[test]
    fn tests_of_one_name_are_told_apart_by_their_order() {
        let runs = [
            run_of(Variant::Pristine, "k passed\n  full passed\n  full passed"),
            run_of(Variant::Patched, "k passed\n  full passed\n  full failed"),
        ];
        let found = deviations(&runs);
        assert_eq!(
            texts(&found.differences),
            ["k: full (2): pristine passed, patched failed"]
        );
    }
}
