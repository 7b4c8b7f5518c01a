// SPDX-License-Identifier: GPL-2.0-only
//! How many files a build compiles, learnt from builds of the same kind.

use crate::Base;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use wideleaf_cache::Cache;
use wideleaf_kit::replace::replace;

/// What a new object folder holds.
pub(crate) const NOTHING: &str = "nothing";

/// What was built from what.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) base: Base,
    pub(crate) flavour: String,
    /// The variant that the object folder held, or [`NOTHING`].
    pub(crate) from: String,
    /// The variant that is built.
    pub(crate) to: String,
}

impl Way {
    fn name(&self) -> String {
        format!("{} {} {} {}", self.base, self.flavour, self.from, self.to)
    }

    /// Builds from nothing compile about as many files with every page size.
    fn similar(&self, name: &str) -> bool {
        let arch = self.flavour.split('-').next().unwrap_or_default();
        self.from == NOTHING
            && name.starts_with(&format!("{} {arch}-", self.base))
            && name.contains(&format!(" {NOTHING} "))
    }
}

/// The number of files that this way will compile, if a former build tells.
pub(crate) fn expected(cache: &Cache, way: &Way) -> Option<u64> {
    let counts = read(cache);
    let exact = counts.get(&way.name());
    exact
        .or_else(|| {
            counts
                .iter()
                .find(|(name, _)| way.similar(name))
                .map(|(_, n)| n)
        })
        .copied()
}

/// Keeps what this way compiled.
pub(crate) fn learn(cache: &Cache, way: &Way, files: u64) -> Result<()> {
    let _lock = cache.lock("counts", || ())?;
    let mut counts = read(cache);
    counts.insert(way.name(), files);
    let path = cache.root().join("counts.json");
    replace(&path, serde_json::to_vec_pretty(&counts)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A table that cannot be read only costs the estimate.
fn read(cache: &Cache) -> BTreeMap<String, u64> {
    fs::read(cache.root().join("counts.json"))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(flavour: &str, from: &str, to: &str) -> Way {
        Way {
            base: Base::V6_12,
            flavour: flavour.into(),
            from: from.into(),
            to: to.into(),
        }
    }

    #[test]
    fn learnt_exactly_and_guessed_from_another_page_size() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        assert_eq!(
            expected(&cache, &way("arm64-64K", NOTHING, "pristine")),
            None
        );
        learn(&cache, &way("arm64-64K", NOTHING, "pristine"), 812).unwrap();
        learn(&cache, &way("arm64-64K", "pristine", "patched"), 9).unwrap();
        for (flavour, from, to, files) in [
            ("arm64-64K", NOTHING, "pristine", Some(812)),
            ("arm64-64K", "pristine", "patched", Some(9)),
            ("arm64-4K", NOTHING, "patched", Some(812)),
            ("arm64-4K", "pristine", "patched", None),
            ("x86_64-4K", NOTHING, "pristine", None),
        ] {
            assert_eq!(
                expected(&cache, &way(flavour, from, to)),
                files,
                "{flavour} {from} {to}"
            );
        }
    }
}
