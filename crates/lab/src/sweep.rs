// SPDX-License-Identifier: GPL-2.0-only
//! How far changes depend on the model: its figures by the profile, and by variants of it that
//! counted the same runs.

use crate::results::figures::{COUNTED, find};
use crate::results::row::change;
use crate::results::{BootResult, Compared, Comparison, ModelCounts, Swept};
use anyhow::Result;
use std::collections::BTreeMap;
use wideleaf_kbuild::Variant;
use wideleaf_kit::amount;
use wideleaf_kit::table::{Table, left, right};

/// A change of the other sign counts if it is more than this share of pristine's figure.
const TURN: f64 = 0.01;

/// The figures that depend on the model and have a change, by name; `figures` are those of the
/// profile, which `compare` makes of `runs`.
///
/// # Errors
///
/// The errors of `compare`.
pub fn sweep(
    runs: &[BootResult],
    figures: &BTreeMap<String, Compared>,
    compare: impl Fn(&[BootResult]) -> Result<BTreeMap<String, Compared>>,
) -> Result<BTreeMap<String, Swept>> {
    let models: &[ModelCounts] = runs.first().map_or(&[], |run| &run.models);
    let mut ratios: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
    for model in models {
        let runs: Vec<_> = runs.iter().map(|run| by_model(run, &model.name)).collect();
        let swept = compare(&runs)?;
        for (name, _) in figures.iter().filter(|(name, _)| is_modelled(name)) {
            if let Some(ratio) = swept.get(name).and_then(|compared| compared.ratio) {
                let of_figure = ratios.entry(name).or_default();
                of_figure.insert(model.name.clone(), ratio);
            }
        }
    }
    let swept = ratios.into_iter().filter_map(|(name, ratios)| {
        let ratio = figures[name].ratio?;
        Some((name.to_string(), Swept::of(ratio, ratios)?))
    });
    Ok(swept.collect())
}

fn is_modelled(name: &str) -> bool {
    find(&COUNTED, name).is_some_and(|figure| figure.is_modelled)
}

/// A run as this variant of the model counted it.
fn by_model(run: &BootResult, name: &str) -> BootResult {
    let mut run = run.clone();
    let model = run.models.iter().find(|model| model.name == name);
    let missed = model.map_or(Vec::new(), |model| model.phases.clone());
    run.phases.retain_mut(|phase| {
        let Some(missed) = missed.iter().find(|missed| missed.phase == phase.id) else {
            return false;
        };
        phase.user = missed.user.in_place_of(&phase.user);
        phase.kernel = missed.kernel.in_place_of(&phase.kernel);
        true
    });
    // Variants have no counts for each CPU.
    run.cpus.clear();
    run
}

impl Swept {
    fn of(ratio: f64, ratios: BTreeMap<String, f64>) -> Option<Self> {
        let by_ratio = |a: &(&String, &f64), b: &(&String, &f64)| a.1.total_cmp(b.1);
        let lowest = ratios.iter().min_by(by_ratio)?.0.clone();
        let highest = ratios.iter().max_by(by_ratio)?.0.clone();
        let turning = ratios.iter().filter(|&(_, &other)| turns(ratio, other));
        let turned_by = turning.map(|(name, _)| name.clone()).collect();
        Some(Self {
            ratio,
            lowest,
            highest,
            turned_by,
            ratios,
        })
    }
}

/// Whether a variant with this ratio says the contrary of the profile: its change has the other
/// sign and is more than [`TURN`].
fn turns(profile: f64, variant: f64) -> bool {
    let (profile, variant) = (profile - 1.0, variant - 1.0);
    profile * variant < 0.0 && variant.abs() > TURN
}

/// The table, ending in a newline; empty without variants of the model.
pub fn render(comparison: &Comparison) -> String {
    let models = comparison.runs.first().map_or(0, |run| run.models.len());
    if models == 0 {
        return String::new();
    }
    let headings = ["pristine", "change", "lowest", "highest", "turned by"];
    let first = left(format!("by {models} variants of the model"));
    let others = headings.map(|title| match title {
        "turned by" => left(title),
        _ => right(title),
    });
    let mut table = Table::new([first].into_iter().chain(others))
        .indent("  ")
        .gap("  ");
    for (name, swept) in &comparison.sweep {
        let pristine = comparison.figures[name].of(Variant::Pristine);
        table.row(swept.cells(name, pristine.unwrap_or_default()));
    }
    table.render(true)
}

impl Swept {
    /// Figure, its count in the pristine kernel and its change by the profile, the lowest and the
    /// highest by a variant, the variants that turn it.
    fn cells(&self, name: &str, pristine: u64) -> [String; 6] {
        let (digits, prefix) = amount::rounded(pristine);
        let turned_by = match &self.turned_by[..] {
            [] => "none".into(),
            [one] => one.clone(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        };
        [
            name.into(),
            digits + prefix,
            change(1.0, self.ratio),
            self.by(&self.lowest),
            self.by(&self.highest),
            turned_by,
        ]
    }

    /// The change by a variant, and its name unless the profile has the same.
    fn by(&self, model: &str) -> String {
        let ratio = self.ratios[model];
        match ratio == self.ratio {
            true => change(1.0, ratio),
            false => format!("{} {model}", change(1.0, ratio)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::conclude;
    use crate::sample::{Calls, comparison};
    use crate::table::{self, Digits};
    use wideleaf_tlb::report::{Missed, MissedPhase};

    /// A variant of the model that counted so many instruction-side walks of the phase `cold`.
    fn model(name: &str, walks: u64) -> ModelCounts {
        let user = Missed {
            itlb_l2_misses: walks,
            ..Missed::default()
        };
        ModelCounts {
            name: name.into(),
            about: String::new(),
            phases: vec![MissedPhase {
                phase: 1,
                user,
                kernel: Missed::default(),
            }],
        }
    }

    /// The profile has 9 walks in both kernels, or one less in the patched one.
    fn swept(fewer: bool, models: &[(&str, u64, u64)]) -> Comparison {
        let mut comparison = comparison(1000, 1000);
        if fewer {
            comparison.runs[1].phases[0].user.walks -= 1;
        }
        for (name, pristine, patched) in models {
            comparison.runs[0].models.push(model(name, *pristine));
            comparison.runs[1].models.push(model(name, *patched));
        }
        conclude(&Calls, comparison).unwrap()
    }

    #[test]
    fn a_variant_that_says_the_contrary_turns_a_figure() {
        let models = [("a", 1000, 100), ("b", 1000, 1009), ("c", 1000, 1011)];
        let walks = &swept(true, &models).sweep["cold.walks"];
        assert!(walks.ratio < 1.0);
        assert_eq!(walks.turned_by, ["c"], "b has the other sign, but is 0.9 %");
        assert_eq!((&walks.lowest[..], &walks.highest[..]), ("a", "c"));
        assert_eq!(walks.ratios["a"], 0.1);
        // Without a change there is nothing to turn.
        assert!(
            swept(false, &models).sweep["cold.walks"]
                .turned_by
                .is_empty()
        );
    }

    #[test]
    fn only_what_the_model_counts_is_swept() {
        let comparison = swept(true, &[("a", 10, 10)]);
        let names: Vec<_> = comparison.sweep.keys().collect();
        assert_eq!(
            names,
            ["cold.itlb_l2_misses", "cold.text_walks", "cold.walks"]
        );
    }

    #[test]
    fn the_table_names_the_variants() {
        let models = [
            ("a", 9, 9),
            ("b", 1000, 100),
            ("c", 1000, 1100),
            ("d", 1000, 1100),
        ];
        let comparison = swept(true, &models);
        let text = render(&comparison);
        let expected = "
  by 4 variants of the model  pristine  change    lowest   highest  turned by
  cold.itlb_l2_misses                6      0%  -90.0% b  +10.0% d  none
  cold.text_walks                    5      0%  -90.0% b  +10.0% d  none
  cold.walks                         9  -11.1%  -90.0% b  +10.0% d  c and 1 more
";
        assert_eq!(text, expected[1..], "\n{text}");
        let whole = table::render(&Calls, &comparison, Digits::Three).unwrap();
        assert!(whole.ends_with(&text), "{whole}");
    }

    #[test]
    fn a_change_that_the_profile_has_too_names_no_variant() {
        let text = render(&swept(false, &[("a", 9, 9), ("b", 10, 10)]));
        assert!(
            text.contains("  0%  none") && !text.contains("0% a"),
            "{text}"
        );
    }

    #[test]
    fn without_variants_of_the_model_nothing_is_said() {
        assert_eq!(render(&comparison(1000, 100)), "");
    }
}
