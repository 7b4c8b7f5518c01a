// SPDX-License-Identifier: GPL-2.0-only
//! Two sides against each other. A pair is one run of each, one after the other; what slows both
//! down leaves their ratio alone.

use crate::Run;
use criterion_stats::univariate::Sample;
use serde::Serialize;

/// How sure an interval is.
const LEVEL: f64 = 0.95;
/// Resamples of a bootstrap: the interval's ends then repeat to a few parts in a thousand.
const RESAMPLES: usize = 20_000;
/// Fewer pairs say nothing: of five, an interval of this level has all.
const LEAST: usize = 5;
/// Of a normal distribution, for 95 % confidence to be reached in four of five trials.
const CONFIDENCE_AND_POWER: f64 = 1.96 + 0.84;
/// A median of normal values varies more than their mean: the ratio of variances.
const MEDIAN: f64 = std::f64::consts::FRAC_PI_2;
/// The least difference that is worth telling.
const WORTH: f64 = 0.01;

/// A quantity to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// CPU time, of all processes that the command has waited for.
    Cpu,
    /// Time from start to end.
    Wall,
    /// Memory of the largest process.
    Memory,
    /// Misses of the first-level instruction TLB, as the CPU counts them.
    ItlbMisses,
    /// Page walks for instructions.
    ItlbWalks,
    /// Cycles of these.
    ItlbWalkCycles,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cpu,
        Self::Wall,
        Self::Memory,
        Self::ItlbMisses,
        Self::ItlbWalks,
        Self::ItlbWalkCycles,
    ];

    /// That of a run, if it was counted.
    pub fn of(self, run: &Run) -> Option<f64> {
        let count = |count: Option<u64>| count.map(|count| count as f64);
        match self {
            Self::Cpu => Some(run.cpu.as_secs_f64()),
            Self::Wall => Some(run.wall.as_secs_f64()),
            Self::Memory => Some(run.memory as f64),
            Self::ItlbMisses => count(run.itlb_misses),
            Self::ItlbWalks => count(run.itlb_walks),
            Self::ItlbWalkCycles => count(run.itlb_walk_cycles),
        }
    }

    /// The median over runs, if all were counted.
    pub fn median(self, runs: &[Run]) -> Option<f64> {
        let values: Option<Vec<f64>> = runs.iter().map(|run| self.of(run)).collect();
        median(&values.filter(|values| values.len() > 1)?)
    }
}

/// The median of values; there must be two.
fn median(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| Sample::new(values).percentiles().median())
}

/// A side against the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the pairs' ratios: below 1 the side has less.
    pub median: f64,
    /// The lower end of its 95 % interval, by a bootstrap over pairs.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many pairs there are.
    pub pairs: usize,
    /// How many it would take to tell this difference, or one of 1 % if it is smaller.
    pub needed: usize,
}

/// The meaning of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Less than plainly.
    Gains,
    /// More.
    Loses,
    /// Noise could have done it.
    CannotBeTold,
}

impl Ratio {
    /// Of pairs of runs in the order in which they were made; none if something was not counted.
    pub fn new(quantity: Quantity, plain: &[Run], side: &[Run]) -> Option<Self> {
        let ratios: Option<Vec<f64>> = plain
            .iter()
            .zip(side)
            .map(|(plain, side)| {
                let (plain, side) = (quantity.of(plain)?, quantity.of(side)?);
                (plain > 0.0 && side > 0.0).then(|| (side / plain).ln())
            })
            .collect();
        Self::of_logarithms(&ratios?)
    }

    fn of_logarithms(ratios: &[f64]) -> Option<Self> {
        let middle = median(ratios)?;
        let sample = Sample::new(ratios);
        let medians = sample.bootstrap(RESAMPLES, |again| (again.percentiles().median(),));
        let (low, high) = medians.0.confidence_interval(LEVEL);
        let effect = middle.abs().max(WORTH);
        let needed = MEDIAN * (CONFIDENCE_AND_POWER * sample.std_dev(None) / effect).powi(2);
        Some(Self {
            median: middle.exp(),
            low: low.exp(),
            high: high.exp(),
            pairs: ratios.len(),
            needed: (needed.ceil() as usize).max(LEAST),
        })
    }

    /// Its meaning.
    pub fn verdict(&self) -> Verdict {
        match () {
            () if self.pairs < LEAST => Verdict::CannotBeTold,
            () if self.high < 1.0 => Verdict::Gains,
            () if self.low > 1.0 => Verdict::Loses,
            () => Verdict::CannotBeTold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratios around `middle` by as much as `spread`.
    fn ratio(middle: f64, spread: f64, pairs: usize) -> Ratio {
        let at = |n: usize| middle * (1.0 + spread * ((n * 7 % pairs) as f64 / pairs as f64 - 0.5));
        let ratios: Vec<f64> = (0..pairs).map(|n| at(n).ln()).collect();
        Ratio::of_logarithms(&ratios).unwrap()
    }

    #[test]
    fn a_difference_beyond_the_noise_is_told_and_its_direction() {
        assert_eq!(ratio(0.9, 0.05, 10).verdict(), Verdict::Gains);
        assert_eq!(ratio(1.1, 0.05, 10).verdict(), Verdict::Loses);
        let noise = ratio(0.999, 0.2, 10);
        assert_eq!(noise.verdict(), Verdict::CannotBeTold);
        assert!(noise.low < 1.0 && noise.high > 1.0, "{noise:?}");
        assert!((ratio(0.9, 0.05, 11).median - 0.9).abs() < 0.01);
    }

    #[test]
    fn a_few_pairs_tell_nothing_however_alike() {
        assert_eq!(ratio(0.5, 0.001, 4).verdict(), Verdict::CannotBeTold);
        assert!(Ratio::of_logarithms(&[0.1]).is_none());
    }

    #[test]
    fn more_noise_takes_more_pairs() {
        let (quiet, noisy) = (ratio(0.99, 0.02, 20), ratio(0.99, 0.2, 20));
        assert!(quiet.needed < noisy.needed, "{quiet:?} {noisy:?}");
        assert!(noisy.needed > 20, "{noisy:?}");
    }

    #[test]
    fn what_was_not_counted_has_no_ratio() {
        let run = Run::default();
        assert!(
            Ratio::new(
                Quantity::ItlbMisses,
                &[run.clone(), run.clone()],
                &[run.clone(), run]
            )
            .is_none()
        );
    }
}
