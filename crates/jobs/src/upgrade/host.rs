// SPDX-License-Identifier: GPL-2.0-only
//! The host's side: options, figures, table.

use super::{NAME, Report, Task, Text};
use crate::kit::text::no_large_folios;
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::installed::Install;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::Fs;
use wideleaf_lab::plan::{Asked, MEMORY, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::{Row, shares};

/// The service's packages, and dpkg's.
const PACKAGES: [&str; 5] = ["diffutils", "dpkg", "libc-bin", "openssl", "tar"];

/// Seconds that all but waiting may take.
const SECONDS: u32 = 600;

/// The job.
#[derive(Debug)]
pub struct Upgrade;

/// The registry's entry.
pub const JOB: Upgrade = Upgrade;

/// Its options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Seconds of guest time that text gets to become wide, twice: before the upgrade
    /// and after
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub patience: u32,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
}

impl Job for Upgrade {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            fragments: &["systemd"],
            examples: &[
                "upgrade --base 7.3 --arch x86_64",
                "upgrade --fs ext4 --patience 120",
            ],
            ..Facts::new(NAME, "dpkg upgrades a library that a running service maps")
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let task = Task {
            patience_s: own.patience,
        };
        let install = Install {
            packages: PACKAGES.map(String::from).to_vec(),
            ..Install::default()
        };
        let disk = own.fs.disk(Contents::System(install));
        let plan = Plan::new(&task, SECONDS + 2 * own.patience).with_memory(2 * MEMORY);
        Ok(plan.with_disk(disk))
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        vec![
            figure("<when>.wide", "bytes", "of libcrypto's text in the service that leaves wider than a page map: `before` the upgrade, `replaced` by it while it runs, `after` a restart"),
            figure("<when>.wide_after", "ms", "of guest time from the process' start, `before` the upgrade and `after` a restart, until no more of that text became wide; absent: none did"),
            figure("<when>.text.<leaf>", "bytes", "of that text that leaves of this size map"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for (when, _, text) in texts(&run.report) {
            figures.put(format!("{when}.wide"), text.wide);
            if let Some(cs) = text.wide_after_cs {
                figures.put(format!("{when}.wide_after"), 10 * cs);
            }
            figures.put_leaves(&format!("{when}.text"), &text.leaves);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        format!("an upgrade of libcrypto on {},", measured.own.fs.fs.title())
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let Some(first) = measured.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for (place, (_, section, _)) in texts(&first.report).into_iter().enumerate() {
            let of = |run: &Run<'_, Self>| texts(&run.report)[place].2.clone();
            rows.push(measured.row(section, "text by leaf", |run| {
                shares(&of(run).leaves, of(run).size)
            }));
            if section != REPLACED {
                let label = "wide after, of guest time (not speed)";
                rows.push(measured.row(section, label, |run| when(&of(run))));
            }
        }
        rows
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let own = &measured.own;
        let mut notes = vec![format!(
            "  text had {} s to become wide; looked at twice a second, from /proc",
            own.patience
        )];
        notes.extend(no_large_folios(own.fs.fs, measured.base));
        notes
    }
}

/// The section of text that a process has of a file that is not there any more.
const REPLACED: &str = "old, replaced";

/// By name and section.
fn texts(report: &Report) -> [(&'static str, &'static str, &Text); 3] {
    [
        ("before", "old", &report.before),
        ("replaced", REPLACED, &report.replaced),
        ("after", "new", &report.after),
    ]
}

/// When text was as wide as it became.
fn when(text: &Text) -> String {
    let seconds = |cs: u64| format!("{}.{} s", cs / 100, cs / 10 % 10);
    text.wide_after_cs.map_or("never".into(), seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wideleaf_kbuild::Variant;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::sample;

    #[test]
    fn text_is_counted_before_and_after() {
        let text = |wide: u64| json!({ "size": 4 << 20, "leaves": { "2M": wide, "4K": 5 }, "wide": wide, "wide_after_cs": (wide > 0).then_some(12) });
        let mut run = sample::run(Variant::Patched, 1);
        run.outcome =
            json!({ "before": text(2 << 20), "replaced": text(2 << 20), "after": text(0) });
        let figures = AnyJob::measure(&Upgrade, &run).unwrap();
        let value = |name| figures.get(name).map(|count| count.value);
        assert_eq!(value("before.wide"), Some(2 << 20));
        assert_eq!(value("before.wide_after"), Some(120));
        assert_eq!(value("after.wide_after"), None);
        assert_eq!(value("after.text.4K"), Some(5));
        assert_eq!(figures.undefined().count(), 0);
    }

    #[test]
    fn text_that_never_became_wide_says_so() {
        let mut text = Text::default();
        assert_eq!(when(&text), "never");
        text.wide_after_cs = Some(1234);
        assert_eq!(when(&text), "12.3 s");
    }
}
