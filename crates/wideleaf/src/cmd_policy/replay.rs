// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf policy simulate --trace`: what recorded programs cost under each rule.

use crate::stdout::{write_json, write_out};
use crate::usage::Usage;
use anyhow::Result;
use serde_json::json;
use std::path::{Path, PathBuf};
use wideleaf_kit::size::short;
use wideleaf_kit::table::{Table as Lines, left, right};
use wideleaf_policy::Table;
use wideleaf_policy::replay::{Conditions, Outcome, replay};
use wideleaf_policy::strategy::Strategy;
use wideleaf_policy::trace::Trace;

/// Rules that run unless others are named.
const USUAL: [&str; 8] = [
    "6.12",
    "7.3",
    "size",
    "patched",
    "khugepaged",
    "7.3+collapse:50",
    "density:40+collapse:50",
    "density:40+collapse:50+credit:25",
];

/// Rules that all others are compared with.
pub const PRISTINE: [&str; 2] = ["6.12", "7.3"];

/// Shares, in percent, that a curve goes through.
const SHARES: [u8; 9] = [0, 10, 20, 30, 40, 50, 60, 75, 90];

/// Traces, rules and machines that are asked for.
pub struct Runs<'a> {
    /// Files of traces.
    pub traces: &'a [PathBuf],
    /// The rules; none: the usual ones.
    pub rules: &'a [Strategy],
    /// Whether a curve over parameters is wanted.
    pub curve: bool,
    /// The machines.
    pub tables: Vec<Table>,
    /// Readahead window in bytes.
    pub window: u64,
    /// Whether JSON is wanted.
    pub json: bool,
}

/// A program, or all of them together, on a machine.
struct Group {
    program: String,
    table: Table,
    outcomes: Vec<(Strategy, Outcome)>,
    /// Of 6.12 and of 7.3.
    pristine: [Outcome; 2],
}

impl Runs<'_> {
    /// Runs all, and prints what came of it.
    pub fn run(&self) -> Result<()> {
        let read = |path: &PathBuf| read(path);
        let traces = self.traces.iter().map(read).collect::<Result<Vec<_>>>()?;
        let rules = self.rules();
        let mut groups = Vec::new();
        for table in &self.tables {
            let ran: Vec<_> = traces
                .iter()
                .map(|trace| self.group(trace, *table, &rules))
                .collect();
            let all = together(&ran);
            if !self.curve {
                groups.extend(ran);
            }
            if self.curve || traces.len() > 1 {
                groups.extend(all);
            }
        }
        if self.json {
            return groups.iter().try_for_each(Group::write_json);
        }
        let words = ["PROGRAM", "MACHINE", "RULE"].map(left);
        let amounts = [
            "TOUCHED", "READ", "/6.12", "/7.3", "MAJOR", "/7.3", "MINOR", "WIDE", "OF-HELD",
            "NARROW~", "ENTRIES~",
        ];
        let mut lines = Lines::new(words.into_iter().chain(amounts.map(right)));
        for group in &mut groups {
            if self.curve {
                group.outcomes.sort_by_key(|(_, outcome)| outcome.read);
            }
            for (strategy, outcome) in &group.outcomes {
                lines.row(group.row(*strategy, outcome));
            }
        }
        write_out(&lines.render(true))
    }

    fn rules(&self) -> Vec<Strategy> {
        let mut rules = self.rules.to_vec();
        if rules.is_empty() {
            rules.extend(USUAL.map(ours));
        }
        if self.curve {
            rules.extend(curve().iter().map(|text| ours(text)));
        }
        let mut once = Vec::new();
        for rule in rules {
            if !once.contains(&rule) {
                once.push(rule);
            }
        }
        once
    }

    fn group(&self, trace: &Trace, table: Table, rules: &[Strategy]) -> Group {
        let on = Conditions {
            table,
            window: self.window,
        };
        let pristine = PRISTINE.map(ours);
        Group {
            program: trace.program.clone(),
            table,
            outcomes: rules
                .iter()
                .map(|rule| (*rule, replay(trace, *rule, &on)))
                .collect(),
            pristine: pristine.map(|rule| replay(trace, rule, &on)),
        }
    }
}

/// # Panics
///
/// If it is none.
pub(super) fn ours(rule: &str) -> Strategy {
    rule.parse().expect("a rule of ours")
}

fn read(path: &Path) -> Result<Trace> {
    Trace::read(path).map_err(|why| Usage(format!("--trace {}: {why}", path.display())).into())
}

/// Rules between 7.3's and reads by size.
fn curve() -> Vec<String> {
    let collapse = SHARES
        .iter()
        .flat_map(|share| ["collapse", "idle"].map(|when| format!("7.3+{when}:{share}")));
    let density = SHARES
        .iter()
        .flat_map(|share| [25, 50, 75].map(|full| format!("density:{share}+collapse:{full}")));
    let all: Vec<_> = collapse.chain(density).collect();
    let bounded = all.iter().map(|rule| format!("{rule}+credit:25"));
    all.iter().cloned().chain(bounded).collect()
}

/// The sums over programs of one machine; nothing of none.
fn together(groups: &[Group]) -> Option<Group> {
    let first = groups.first()?;
    let mut all = Group {
        program: "all".into(),
        table: first.table,
        outcomes: first.outcomes.clone(),
        pristine: first.pristine,
    };
    for group in &groups[1..] {
        for ((_, sum), (_, outcome)) in all.outcomes.iter_mut().zip(&group.outcomes) {
            *sum += *outcome;
        }
        for (sum, outcome) in all.pristine.iter_mut().zip(group.pristine) {
            *sum += outcome;
        }
    }
    Some(all)
}

impl Group {
    fn machine(&self) -> String {
        format!(
            "{} {}",
            self.table.arch(),
            short(1 << self.table.page_shift())
        )
    }

    fn row(&self, strategy: Strategy, outcome: &Outcome) -> [String; 14] {
        let mib = |bytes: u64| format!("{:.1}M", bytes as f64 / f64::from(1 << 20));
        let ratio = |part: u64, of: u64| match of {
            0 => "-".to_string(),
            of => format!("{:.2}", part as f64 / of as f64),
        };
        let percent = |part: u64, of: u64| match of {
            0 => "-".to_string(),
            of => format!("{:.0}%", 100.0 * part as f64 / of as f64),
        };
        let [of_612, of_73] = &self.pristine;
        [
            self.program.clone(),
            self.machine(),
            strategy.to_string(),
            mib(outcome.touched),
            mib(outcome.read),
            ratio(outcome.read, of_612.read),
            ratio(outcome.read, of_73.read),
            outcome.major.to_string(),
            ratio(outcome.major, of_73.major),
            outcome.minor.to_string(),
            percent(outcome.wide_touched, outcome.touched),
            percent(outcome.wide_touched, outcome.held_touched),
            mib(outcome.touched - outcome.wide_touched),
            outcome.entries.to_string(),
        ]
    }

    fn write_json(&self) -> Result<()> {
        for (strategy, outcome) in &self.outcomes {
            write_json(&json!({
                "program": self.program,
                "arch": self.table.arch(),
                "page_size": 1u64 << self.table.page_shift(),
                "rule": strategy.to_string(),
                "outcome": outcome,
                "pristine": { "6.12": self.pristine[0], "7.3": self.pristine[1] },
                "narrow_estimate": outcome.touched - outcome.wide_touched,
                "entries_estimate": outcome.entries,
            }))?;
        }
        Ok(())
    }
}
