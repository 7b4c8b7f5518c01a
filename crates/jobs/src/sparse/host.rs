// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table.

use super::pattern::pattern;
use super::{NAME, Report, Task};
use crate::kit::text::{self, Settle, guest_phase, no_large_folios, of_phase, stub_file};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_bench::mapping::Advice;
use wideleaf_bench::sparse::{Access, SparseReport};
use wideleaf_kbuild::PageSize;
use wideleaf_kit::size::{long, parse, short};
use wideleaf_lab::choices;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{Fs, ReadAhead, Scarce, Seed};
use wideleaf_lab::plan::{Asked, Plan};
use wideleaf_lab::results::figures::{self, Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{Row, shown};

/// Phase numbers end at 127, and each pattern has two.
const MOST: usize = 63;

/// The row after which the table tells of [`amplification`].
const READ: &str = "bytes read";

/// The job.
#[derive(Debug)]
pub struct Sparse;

/// The registry's entry.
pub const JOB: Sparse = Sparse;

/// The options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Size of the stub file, a multiple of 2M; 128M is the text of a large program
    #[arg(long, default_value = "128M", value_parser = parse)]
    pub size: u64,
    /// Pages to execute, patterns of 'policy simulate' with commas between: from
    /// pages:10, 1 % of all pages, to sweep, all in order
    #[arg(
        long,
        value_name = "PATTERNS",
        value_delimiter = ',',
        default_value = "pages:10,pages:50,pages:200,clusters:64K:50,clusters:256K:50,pages:1000,sweep"
    )]
    pub touch: Vec<String>,
    /// Advice to the kernel on the mapping [default: none]
    #[arg(long, value_name = "ADVICE", value_parser = choices!(Advice))]
    pub advice: Option<Advice>,
    /// Map the file as data and read where else is executed
    #[arg(long)]
    pub data: bool,
    /// Write this to fault_around_bytes first [default: nothing]
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    pub fault_around: Option<u64>,
    /// Its time.
    #[command(flatten)]
    #[serde(flatten)]
    pub settle: Settle,
    /// Of patterns and calls.
    #[command(flatten)]
    #[serde(flatten)]
    pub seed: Seed,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub scarce: Scarce,
}

impl Options {
    fn check(&self, page_size: PageSize) -> Result<()> {
        let Self { size, touch, .. } = self;
        if *size == 0 || !size.is_multiple_of(2 << 20) {
            bail!("--size {}: want a multiple of 2M", short(*size));
        }
        if touch.is_empty() || touch.len() > MOST {
            bail!("--touch: give 1 to {MOST} patterns");
        }
        for text in touch {
            pattern(text).map_err(anyhow::Error::msg)?;
            if touch.iter().filter(|other| *other == text).count() > 1 {
                bail!("--touch: {text} is there twice");
            }
        }
        match self.fault_around {
            Some(bytes) if bytes < page_size.bytes() || !bytes.is_power_of_two() => Err(anyhow!(
                "--fault-around {}: want a power of two, a page of {page_size} at least",
                short(bytes)
            )),
            _ => Ok(()),
        }
    }
}

impl Job for Sparse {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            cases: Some("what is executed"),
            examples: &[
                "sparse --expect 'pages:10.cold.read_bytes<=125%'",
                "sparse --touch pages:1000 --size 32M --advice random",
            ],
            ..Facts::new(
                NAME,
                "text of which 1 to 100 % is executed: bytes read, walks",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        own.check(asked.page_size)?;
        let task = Task {
            file: stub_file(own.size).into(),
            patterns: own.touch.clone(),
            seed: own.seed.seed,
            access: Access {
                advice: own.advice,
                is_data: own.data,
                settle_s: own.settle.settle,
            },
            fault_around: own.fault_around,
        };
        let disk = own.fs.disk(Contents::Stubs(vec![own.size]));
        let plan = Plan {
            pressure: own.scarce.pressure(),
            ..Plan::new(&task, 1200).with_memory(own.scarce.memory(own.size))
        };
        Ok(plan.with_disk(own.window.of(disk, asked.page_size)?))
    }

    fn figures(&self) -> Vec<Figure> {
        let about = "base pages of which something was executed";
        let mut all = vec![
            figure("<pattern>.executed_bytes", "bytes", about).row("", "bytes executed"),
            of_phase("<pattern>.cold.read_bytes")
                .row("", READ)
                .plotted("bytes read, cold"),
            of_phase("<pattern>.cold.read_requests").row("", "requests to the disk"),
            of_phase("<pattern>.cold.faults")
                .row("", "faults")
                .plotted("faults, cold"),
            counted("<pattern>.cold.instructions").plotted("guest instructions, cold"),
            counted("<pattern>.random.itlb_l1_misses")
                .row("", "random L1 iTLB misses")
                .plotted("L1 iTLB misses, random"),
            counted("<pattern>.random.text_walks").row("", "random walks for text"),
            counted("<pattern>.random.walks").plotted("page walks, random"),
            figures::text("<pattern>.text.<leaf>"),
        ];
        all.extend(text::rest());
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for (report, id) in run.report.reports.iter().zip(1..) {
            let name = &report.pattern;
            figures.put(format!("{name}.executed_bytes"), report.executed_bytes);
            guest_phase(figures, &format!("{name}.cold"), &report.cold);
            guest_phase(figures, &format!("{name}.random"), &report.random);
            figures.put_text(&format!("{name}."), run, id);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let own = &measured.own;
        let filesystem = own.fs.fs.title();
        let what = if own.data { "data" } else { "text" };
        let advice = own.advice.map(|advice| format!(" with advice '{advice}'"));
        format!(
            "parts of {} of {what}{}, {filesystem},{}",
            long(own.size),
            advice.unwrap_or_default(),
            own.settle.title()
        )
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (pattern, nth) in measured.own.touch.iter().zip(0..) {
            for shown in shown(&self.figures()) {
                rows.push(shown.of_case(measured, pattern, pattern, shown.label));
                if shown.label == READ {
                    let cell = |run: &Run<'_, Self>| {
                        let report = run.report.reports.get(nth);
                        report.map_or("-".into(), amplification)
                    };
                    rows.push(measured.row(pattern, "read per byte executed", cell));
                }
            }
            let (label, id) = ("text mapped by leaf", nth as u64 + 1);
            rows.push(Row::leaves(measured, pattern, label, id));
        }
        rows
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let own = &measured.own;
        let window = short(own.window.read_ahead);
        let mut notes = vec![format!(
            "  executed: whole pages of which something was; seed {}, readahead window {window}",
            own.seed.seed
        )];
        notes.extend(no_large_folios(own.fs.fs, measured.base));
        notes
    }
}

/// Bytes read for each byte executed.
fn amplification(report: &SparseReport) -> String {
    let read = report.cold.read_bytes.value();
    read.map_or("-".into(), |read| {
        format!("{:.2}", read as f64 / report.executed_bytes as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_lab::job::usual;

    fn options() -> Options {
        serde_json::from_value(usual(&Sparse).1).unwrap()
    }

    #[test]
    fn the_issues_touches() {
        let options = options();
        assert_eq!(options.size, 128 << 20);
        options.check(PageSize::K64).unwrap();
        for share in ["pages:10", "pages:50", "pages:200"] {
            assert!(options.touch.iter().any(|pattern| pattern == share));
        }
    }

    #[test]
    fn impossible_touches_are_named() {
        let mut options = options();
        for (patterns, word) in [
            (vec![], "1 to 63"),
            (vec!["sweep", "sweep"], "sweep is there twice"),
            (vec!["page"], "no pattern"),
        ] {
            options.touch = patterns.into_iter().map(String::from).collect();
            let error = options.check(PageSize::K64).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
