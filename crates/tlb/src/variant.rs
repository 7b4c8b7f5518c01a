// SPDX-License-Identifier: GPL-2.0-only
//! Variants of a profile, each with one property changed that no vendor states, or that the profile
//! has from an unchecked source.

use crate::design::{Coalescing, Design, Geometry};
use crate::leaf::PAGES;
use crate::profile::Profile;
use crate::replacement::Replacement;
use wideleaf_kit::arch::Arch;

/// A variant of a profile.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in reports.
    pub name: &'static str,
    /// The property that is other than in the profile.
    pub about: &'static str,
    /// The whole.
    pub design: Design,
}

/// Table entries for each level of tables where a variant has a walk cache: the model's choice.
const WALK_CACHE: usize = 32;

type Change = fn(Design) -> Design;

/// Name, what it changes, and how.
#[rustfmt::skip]
const CHANGES: [(&str, &str, Change); 17] = [
    ("tree-plru", "replacement by a tree instead of LRU",
        |d| Design { replacement: Replacement::TreePlru, ..d }),
    ("random", "random replacement, with the same seed in every run",
        |d| Design { replacement: Replacement::Random, ..d }),
    ("plru-of-three", "replacement as TLB;DR found it in Intel's CPUs",
        |d| Design { replacement: Replacement::PlruOfThree, ..d }),
    ("hashed-sets", "the second level's sets by a hash of the page number",
        |d| Design { hashed: true, ..d }),
    ("half-ways", "half the ways in twice the sets, where the ways are even",
        |d| d.with_arrays(half_ways)),
    ("double-ways", "twice the ways in half the sets, where there are several",
        |d| d.with_arrays(double_ways)),
    ("fully-associative", "one set in each array",
        |d| d.with_arrays(|a| a.ways = a.entries)),
    ("half-entries", "half the entries",
        |d| d.with_arrays(half_entries)),
    ("double-entries", "twice the entries",
        |d| d.with_arrays(double_entries)),
    ("half-l2", "half the entries in the second level",
        |mut d| { d.l2.iter_mut().flatten().for_each(half_entries); d }),
    ("double-l2", "twice the entries in the second level",
        |mut d| { d.l2.iter_mut().flatten().for_each(double_entries); d }),
    ("narrow-l1", "the first level holds wider leaves in fragments of 64K (arm64) or 4K (x86)",
        narrow_l1),
    ("no-contiguous", "contiguous groups are not held as one entry",
        |d| Design { contiguous: false, ..d }),
    ("coalesce-4", "aligned groups of four pages are one entry where they lie side by side in memory",
        |d| coalescing(d, 2)),
    ("coalesce-8", "the same with groups of eight",
        |d| coalescing(d, 3)),
    ("prefetch", "a walk brings the next leaf into the second level too",
        |d| Design { prefetch: true, ..d }),
    ("walk-cache", "32 table entries cached for each level of tables",
        |d| Design { walk_cache: WALK_CACHE, ..d }),
];

/// Asks for all variants.
pub const ALL: &str = "all";

const NO_COALESCING: &str = "no-coalescing";

/// Names of the variants of all profiles.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHANGES
        .iter()
        .map(|(name, ..)| *name)
        .chain([NO_COALESCING])
}

/// Those of the variants of a profile that are asked for by name, or by [`ALL`].
///
/// # Errors
///
/// A name that is of none of its variants, and theirs.
pub fn chosen(profile: &Profile, names: &[impl AsRef<str>]) -> Result<Vec<Variant>, String> {
    let mut variants = variants(profile);
    let asked = |known: &str| {
        names
            .iter()
            .any(|name| [known, ALL].contains(&name.as_ref()))
    };
    let is_known = |name: &str| name == ALL || variants.iter().any(|one| one.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name.as_ref())) {
        let known: Vec<_> = variants.iter().map(|one| one.name).collect();
        return Err(format!(
            "{} has no variant {}: it has {}",
            profile.name,
            unknown.as_ref(),
            known.join(", ")
        ));
    }
    variants.retain(|one| asked(one.name));
    Ok(variants)
}

/// The variants of a profile, in the order in which reports have them. A change that leaves it as
/// it is makes none.
pub fn variants(profile: &Profile) -> Vec<Variant> {
    let base = Design::from(profile);
    let changed = CHANGES.iter().map(|&(name, about, change)| Variant {
        name,
        about,
        design: change(base.clone()),
    });
    let mut all: Vec<_> = changed.filter(|v| v.design != base).collect();
    if profile.arch == Arch::X86_64 {
        // No contiguous bit there.
        all.retain(|v| v.name != "no-contiguous");
    }
    if profile.coalesce.is_some() {
        all.push(Variant {
            name: NO_COALESCING,
            about: "each page is an entry by itself",
            design: Design {
                coalescing: Coalescing::default(),
                ..base
            },
        });
    }
    all
}

fn coalescing(design: Design, log2_pages: u8) -> Design {
    let coalescing = Coalescing {
        log2_pages,
        first_level: true,
    };
    Design {
        coalescing,
        ..design
    }
}

fn half_ways(array: &mut Geometry) {
    if array.ways.is_multiple_of(2) {
        array.ways /= 2;
    }
}

fn double_ways(array: &mut Geometry) {
    if array.sets() > 1 {
        array.ways *= 2;
    }
}

/// Half the sets; where there is one, half its ways.
fn half_entries(array: &mut Geometry) {
    if array.sets() == 1 {
        array.ways /= 2;
        array.entries = array.ways;
    } else {
        array.entries /= 2;
    }
}

/// Twice the sets; where there is one, twice its ways.
fn double_entries(array: &mut Geometry) {
    if array.sets() == 1 {
        array.ways *= 2;
    }
    array.entries *= 2;
}

/// An array that holds no page then is left out.
fn narrow_l1(mut design: Design) -> Design {
    for level in &mut design.l1 {
        let pages = |array: &mut Geometry| array.sizes.retain(|size| PAGES.contains(size));
        level.iter_mut().for_each(pages);
        level.retain(|a| !a.sizes.is_empty());
    }
    design
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PROFILES;

    fn of(profile: &str) -> Vec<Variant> {
        variants(Profile::by_name(profile).unwrap())
    }

    #[test]
    fn each_differs_from_its_profile_and_can_be_built() {
        for profile in PROFILES {
            for variant in variants(profile) {
                let Variant { name, design, .. } = variant;
                assert_ne!(design, Design::from(profile), "{} {name}", profile.name);
                for array in design.l1.iter().chain(&design.l2).flatten() {
                    assert_eq!(array.sets() * array.ways, array.entries, "{name}");
                    assert!(array.sets().is_power_of_two(), "{name}");
                }
                for level in design.l1.iter().chain(&design.l2) {
                    assert!(level.iter().any(|a| a.sizes[0] == 12), "{name}");
                }
            }
        }
    }

    #[test]
    fn variants_are_asked_for_by_name() {
        let chosen = |asked: &[&str]| {
            let found = chosen(Profile::by_name("zen4").unwrap(), asked);
            found.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(
            chosen(&["random", "half-l2"]).unwrap(),
            ["random", "half-l2"]
        );
        assert_eq!(chosen(&[ALL]).unwrap().len(), of("zen4").len());
        assert_eq!(chosen(&[]).unwrap(), [""; 0]);
        let error = chosen(&["no-contiguous"]).unwrap_err();
        assert!(
            error.contains("zen4 has no variant no-contiguous: it has tree-plru"),
            "{error}"
        );
        assert!(
            of("zen4")
                .iter()
                .all(|one| names().any(|name| name == one.name))
        );
    }

    #[test]
    fn entries_and_ways_change_as_named() {
        let l2 = |name: &str| {
            let all = of("neoverse-v2");
            let found = all.iter().find(|v| v.name == name).unwrap();
            let a = &found.design.l2[0][0];
            (a.entries, a.ways)
        };
        assert_eq!(l2("half-ways"), (2048, 4));
        assert_eq!(l2("double-ways"), (2048, 16));
        assert_eq!(l2("fully-associative"), (2048, 2048));
        assert_eq!(l2("half-entries"), (1024, 8));
        assert_eq!(l2("double-l2"), (4096, 8));
    }

    #[test]
    fn only_what_a_profile_has_is_taken_away() {
        let has = |profile, name| of(profile).iter().any(|v| v.name == name);
        assert!(has("neoverse-v2", "no-contiguous") && !has("zen4", "no-contiguous"));
        assert!(has("neoverse-n1", "no-coalescing") && !has("neoverse-v2", "no-coalescing"));
        assert!(has("neoverse-n1", "coalesce-4"), "in the first level too");
    }

    #[test]
    fn a_narrow_first_level_holds_one_array() {
        for (profile, sizes) in [
            ("sapphire-rapids", vec![12]),
            ("neoverse-v2", vec![12, 14, 16]),
        ] {
            let all = of(profile);
            let narrow = all.iter().find(|v| v.name == "narrow-l1").unwrap();
            for level in &narrow.design.l1 {
                let held: Vec<_> = level.iter().map(|a| &a.sizes).collect();
                assert_eq!(held, [&sizes], "{profile}");
            }
        }
    }
}
