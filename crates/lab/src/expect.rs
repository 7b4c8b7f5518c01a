// SPDX-License-Identifier: GPL-2.0-only
//! What figures should be: `random.walks<=1%`.
//!
//! `FIGURE<=LIMIT` or `FIGURE>=LIMIT`. What is compared is the last kernel's
//! value, mostly the patched one's. A limit with `%` is a share of the pristine
//! kernel's; one without may have a suffix `K`, `M`, `G`. The figure
//! `FIGURE.spread` is the largest difference of a figure between repeated runs,
//! `spread` that of all the table's figures; for both, `%` is a share of the
//! smallest run.

use crate::compare::widest_spread;
use crate::job::AnyJob;
use crate::results::{Comparison, Verdict};
use anyhow::{Result, bail};

/// A figure and its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    text: String,
    figure: String,
    at_most: bool,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// As a fraction.
    Share(f64),
    Value(u64),
}

impl Expectation {
    /// Reads an expectation.
    ///
    /// # Errors
    ///
    /// A sentence that names it and shows the form.
    pub fn parse(text: &str) -> Result<Self> {
        let form = "write FIGURE<=LIMIT or FIGURE>=LIMIT, such as 'random.walks<=1%'";
        let text = text.trim();
        let halves = text.split_once("<=").map(|halves| (halves, true));
        let halves = halves.or_else(|| text.split_once(">=").map(|halves| (halves, false)));
        let Some(((figure, limit), at_most)) = halves else {
            bail!("expectation '{text}': {form}");
        };
        let (figure, limit) = (figure.trim(), limit.trim());
        let limit = match limit.strip_suffix('%') {
            Some(share) => share
                .trim()
                .parse::<f64>()
                .ok()
                .map(|share| Limit::Share(share / 100.0)),
            None => wideleaf_kit::size::parse(limit).ok().map(Limit::Value),
        };
        let limit =
            limit.filter(|limit| !matches!(limit, Limit::Share(s) if !s.is_finite() || *s < 0.0));
        let Some(limit) = limit.filter(|_| !figure.is_empty()) else {
            bail!("expectation '{text}': {form}");
        };
        Ok(Self {
            text: text.to_string(),
            figure: figure.to_string(),
            at_most,
            limit,
        })
    }

    /// Whether it can only be judged with both kernels.
    pub fn needs_both(&self) -> bool {
        matches!(self.limit, Limit::Share(_)) && !self.needs_repeat()
    }

    /// Whether it can only be judged with repeated runs.
    pub fn needs_repeat(&self) -> bool {
        self.figure == "spread" || self.figure.ends_with(".spread")
    }

    /// Holds a comparison against it. A figure that is not there fails: an
    /// expectation with a typing mistake must not pass.
    pub fn judge(&self, job: &dyn AnyJob, comparison: &Comparison) -> Verdict {
        let measured = self.measured(job, comparison);
        let limit = match self.limit {
            Limit::Share(share) => share,
            Limit::Value(value) => value as f64,
        };
        let holds = |value: f64| {
            if self.at_most {
                value <= limit
            } else {
                value >= limit
            }
        };
        Verdict {
            expectation: self.text.clone(),
            comparison: comparison.machine(),
            measured,
            passed: measured.is_some_and(holds),
        }
    }

    fn measured(&self, job: &dyn AnyJob, comparison: &Comparison) -> Option<f64> {
        if self.figure == "spread" {
            return widest_spread(job, comparison).map(|(_, spread)| spread);
        }
        if let Some(figure) = self.figure.strip_suffix(".spread") {
            return comparison.figures.get(figure)?.spread;
        }
        let figure = comparison.figures.get(&self.figure)?;
        match self.limit {
            Limit::Share(_) => figure.ratio,
            Limit::Value(_) => {
                let value = figure.values.values().next_back();
                value.map(|&value| value as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::conclude;
    use crate::sample::{Calls, comparison, run};
    use wideleaf_kbuild::Variant;

    fn verdict(text: &str) -> Verdict {
        let expectation = Expectation::parse(text).unwrap();
        expectation.judge(&Calls, &comparison(1000, 100))
    }

    #[test]
    fn a_share_is_of_pristine() {
        // Instructions with the kernel's 500: 600 of 1500.
        assert!(verdict("cold.instructions<=40%").passed);
        assert!(!verdict("cold.instructions<=39.9%").passed);
        assert!(verdict("cold.instructions >= 40 %").passed);
    }

    #[test]
    fn a_value_is_of_patched() {
        assert!(verdict("cold.instructions<=600").passed);
        assert!(!verdict("cold.instructions<=599").passed);
        assert!(verdict("text.64K>=1M").passed);
        assert!(!verdict("text.64K>=2M").passed);
    }

    #[test]
    fn the_same_kernel_twice_fails() {
        let same = comparison(1000, 1000);
        let verdict = Expectation::parse("cold.walks<=1%")
            .unwrap()
            .judge(&Calls, &same);
        assert!(!verdict.passed);
        assert_eq!(verdict.measured, Some(1.0));
        assert!(
            verdict
                .to_string()
                .starts_with("FAIL  6.12 arm64 64K: cold.walks<=1%: 100.000%")
        );
    }

    #[test]
    fn a_figure_that_is_not_there_fails() {
        let verdict = verdict("random.wakls<=1%");
        assert!(!verdict.passed);
        assert!(verdict.to_string().contains("no such figure"));
    }

    #[test]
    fn spread_needs_repeated_runs() {
        let mut twice = comparison(1000, 100);
        let spread = Expectation::parse("spread<=0.5%").unwrap();
        assert!(spread.needs_repeat() && !spread.needs_both());
        assert!(!spread.judge(&Calls, &twice).passed);
        twice.runs.push(run(Variant::Pristine, 1007));
        twice = conclude(&Calls, twice).unwrap();
        assert!(spread.judge(&Calls, &twice).passed);
        twice.runs.push(run(Variant::Pristine, 1008));
        assert!(
            !spread
                .judge(&Calls, &conclude(&Calls, twice).unwrap())
                .passed
        );
    }

    #[test]
    fn one_figures_spread() {
        let faults = Expectation::parse("cold.minor_faults.spread<=0.5%").unwrap();
        let instructions = Expectation::parse("cold.instructions.spread<=0.5%").unwrap();
        assert!(faults.needs_repeat() && !faults.needs_both());
        let mut twice = comparison(1000, 100);
        twice.runs.push(run(Variant::Pristine, 1100));
        twice = conclude(&Calls, twice).unwrap();
        assert!(faults.judge(&Calls, &twice).passed);
        assert!(!instructions.judge(&Calls, &twice).passed);
    }

    #[test]
    fn nonsense_shows_the_form() {
        for text in [
            "",
            "random.walks",
            "random.walks<1%",
            "<=1%",
            "walks<=",
            "walks<=x%",
            "walks<=-1%",
            "walks<=nan%",
        ] {
            let error = Expectation::parse(text).unwrap_err().to_string();
            assert!(error.contains("random.walks<=1%"), "{text}: {error}");
        }
    }
}
