// SPDX-License-Identifier: GPL-2.0-only
//! What a reader in a hurry wants to know of each machine, in a sentence.

use crate::machine;
use wideleaf_kbuild::Variant;
use wideleaf_lab::results::Comparison;

/// Counts of the default job, as the sentence names them.
const COUNTS: [(&str, &str); 4] = [
    ("cold.faults", "faults"),
    ("cold.instructions", "guest instructions when cold"),
    ("random.itlb_l1_misses", "L1 iTLB misses"),
    ("random.walks", "page walks"),
];

/// The sentence of a comparison; `None` unless it is one of the default job on both kernels.
pub fn sentence(comparison: &Comparison) -> Option<String> {
    let is_scarce = |option| comparison.option(option).is_some();
    if comparison.job != "exec" || ["memory_limit", "free_memory"].into_iter().any(is_scarce) {
        return None;
    }
    let parts: Vec<_> = COUNTS
        .iter()
        .filter_map(|(name, what)| part(comparison, name, what))
        .collect();
    if parts.is_empty() {
        return None;
    }
    Some(format!("{}: {}.", machine(comparison), parts.join(", ")))
}

fn part(comparison: &Comparison, name: &str, what: &str) -> Option<String> {
    let figure = comparison.figures.get(name)?;
    let pristine = figure.of(Variant::Pristine).filter(|value| *value > 0)?;
    let last = *comparison.variants().last()?;
    let ratio = figure.of(last)? as f64 / pristine as f64;
    Some(match ratio {
        1.0 => format!("as many {what}"),
        more if more > 1.0 => format!("{what} \u{d7} {more:.2}"),
        less => format!("{} {what}", fewer(1.0 - less)),
    })
}

/// `99.95 % fewer`: never all of them unless it is all.
fn fewer(share: f64) -> String {
    let percent = 100.0 * share;
    if share >= 1.0 {
        return "100 % fewer".into();
    }
    let digits = if percent > 99.0 { 2 } else { 1 };
    let unit = 10f64.powi(digits);
    let down = (percent * unit).floor() / unit;
    format!("{down:.*} % fewer", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(fewer(1.0), "100 % fewer");
        assert_eq!(fewer(0.99999), "99.99 % fewer");
        assert_eq!(fewer(0.968), "96.8 % fewer");
    }
}
