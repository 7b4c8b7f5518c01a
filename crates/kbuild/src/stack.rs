// SPDX-License-Identifier: GPL-2.0-only
//! What is done to a base's source: one series after another, and a fault on top.

use crate::scratch::Contents;
use crate::series::{self, Series};
use crate::step::is_built;
use crate::{Base, KernelDir, SeriesName, Variant};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::iter;

/// Series in the order in which they are applied; without any the source stays pristine.
#[derive(Clone, Debug, Default)]
pub struct Stack(Vec<Series>);

impl Stack {
    /// What makes `variant` of the base's source, with the fault `plant` on top.
    ///
    /// # Errors
    ///
    /// If a series cannot be read, or has nothing for this base.
    pub fn of(
        base: Base,
        variant: Variant,
        plant: Option<&str>,
        files: &KernelDir,
    ) -> Result<Self> {
        let all = variant.series();
        let mut stack = Vec::new();
        for &name in all {
            let folder = files.series(name);
            let series = Series::load(base, &folder)?;
            // A base may have nothing to mend.
            let is_ground = all.iter().any(|other| other.ground() == Some(name));
            if series.steps().is_empty() && !is_ground {
                bail!(
                    "there is no {variant} kernel of Linux {base}: the series {name} has no steps \
                     for it ({})",
                    folder.of(base).join("series").display()
                );
            }
            stack.push(series);
        }
        if let Some(name) = plant {
            stack.push(Series::fault(base, files, name)?);
        }
        Ok(Self(stack))
    }

    /// What must be applied before the series `name`.
    ///
    /// # Errors
    ///
    /// If a series cannot be read.
    pub fn ground(base: Base, name: SeriesName, files: &KernelDir) -> Result<Self> {
        let mut names = Vec::from_iter(iter::successors(name.ground(), |name| name.ground()));
        names.reverse();
        let ground = names
            .iter()
            .map(|&name| Series::load(base, &files.series(name)));
        Ok(Self(ground.collect::<Result<_>>()?))
    }

    /// Every path in the tree that is added, changed or removed.
    pub(crate) fn touched(&self) -> Result<BTreeSet<String>> {
        let mut touched = BTreeSet::new();
        for series in &self.0 {
            touched.append(&mut series.touched()?);
        }
        Ok(touched)
    }

    /// The touched files in the end; as [`Series::apply`]. Other files of `original` stay as they
    /// are.
    pub(crate) fn apply(&self, source: &str, original: &Contents) -> Result<Contents> {
        let mut files = original.clone();
        for series in &self.0 {
            let before = only(&series.touched()?, files.clone());
            files.extend(series.apply(source, &before)?);
        }
        Ok(files)
    }

    /// A hash of what is done to a kernel, by which text that none is made of does not count;
    /// `None` if nothing is done.
    pub(crate) fn hash(&self) -> Result<Option<String>> {
        match &self.0[..] {
            [] => Ok(None),
            all => series::hash(all, is_built).map(Some),
        }
    }

    /// A hash of what is done below a folder of the tree.
    pub(crate) fn hash_below(&self, folder: &str) -> Result<String> {
        series::hash(&self.0, |path| path.starts_with(folder))
    }
}

/// Those files that are at `paths`.
pub(crate) fn only(paths: &BTreeSet<String>, files: Contents) -> Contents {
    let files = files.into_iter();
    files.filter(|(path, _)| paths.contains(path)).collect()
}

impl From<Series> for Stack {
    fn from(series: Series) -> Self {
        Self(vec![series])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::Author;
    use crate::testing::{Lab, hook};
    use std::fs;

    /// A second series, which changes the file that the first one changes too.
    fn second(lab: &Lab, hunk: &str, line: &str) {
        let folder = lab.files.series(SeriesName::LinearMap);
        fs::create_dir_all(folder.of(Base::V7_3)).unwrap();
        let patch = folder.of(Base::V7_3).join("0001-second.patch");
        fs::write(patch, hook().replace("return wide()", hunk)).unwrap();
        fs::write(folder.of(Base::V7_3).join("series"), line).unwrap();
    }

    fn filemap(lab: &Lab, variant: Variant) -> Result<String> {
        let stack = Stack::of(Base::V7_3, variant, None, &lab.files)?;
        let mut tree = lab.tree();
        tree.switch(&stack)?;
        Ok(fs::read_to_string(tree.src().join("mm/filemap.c"))?)
    }

    #[test]
    fn each_series_applies_alone_and_both_one_after_the_other() {
        let lab = Lab::new();
        second(&lab, "return map()", "0001-second.patch\n");
        let text = filemap(&lab, Variant::Patched).unwrap();
        assert!(text.contains("return wide()"), "{text}");
        let text = filemap(&lab, Variant::LinearMap).unwrap();
        assert!(text.contains("return map()"), "{text}");
        // Both change one line: the second one no longer finds it.
        let error = format!("{:#}", filemap(&lab, Variant::Both).unwrap_err());
        assert!(
            error.contains("0001-second.patch does not apply"),
            "{error}"
        );

        let folder = lab.files.series(SeriesName::LinearMap).of(Base::V7_3);
        let after = hook()
            .replace("-\treturn 0;", "-\treturn wide();")
            .replace("+\treturn wide();", "+\treturn map();");
        fs::write(folder.join("0001-second.patch"), after).unwrap();
        let text = filemap(&lab, Variant::Both).unwrap();
        assert!(text.contains("return map()"), "{text}");
        let hash = |variant| {
            let stack = Stack::of(Base::V7_3, variant, None, &lab.files).unwrap();
            stack.hash().unwrap()
        };
        assert_ne!(hash(Variant::Both), hash(Variant::Patched));
        assert_eq!(hash(Variant::Pristine), None);
    }

    #[test]
    fn a_series_without_steps_for_a_base_says_so() {
        let lab = Lab::new();
        second(&lab, "x", "# nothing yet\n");
        for variant in [Variant::LinearMap, Variant::Both] {
            let error = format!("{:#}", filemap(&lab, variant).unwrap_err());
            for part in [
                variant.name(),
                "linear-map has no steps",
                "linear-map/7.3/series",
            ] {
                assert!(error.contains(part), "no '{part}' in: {error}");
            }
        }
        filemap(&lab, Variant::Patched).unwrap();
    }

    #[test]
    fn what_stands_on_the_fixes_finds_them_when_it_is_built_and_exported() {
        let lab = Lab::new();
        let fixes = lab.files.series(SeriesName::Fixes).of(Base::V7_3);
        let fix = hook().replace("return wide()", "return 3");
        fs::write(fixes.join("0001-fix.patch"), fix).unwrap();
        fs::write(fixes.join("series"), "0001-fix.patch\n").unwrap();
        lab.patch(&hook().replace("-\treturn 0;", "-\treturn 3;"));
        let text = filemap(&lab, Variant::Fixes).unwrap();
        assert!(text.contains("return 3;"), "{text}");
        let text = filemap(&lab, Variant::Patched).unwrap();
        assert!(text.contains("return wide()"), "{text}");

        let (series, tree) = (lab.series(), lab.tree());
        let dir = tempfile::tempdir().unwrap();
        let export = |ground: &Stack, to: &str| {
            let original = tree.under(&series, ground)?;
            series.export("7.3", &original, &Author::nobody(), &dir.path().join(to))
        };
        let ground = Stack::ground(Base::V7_3, SeriesName::Writes, &lab.files).unwrap();
        assert_eq!(export(&ground, "after").unwrap().len(), 2);
        let error = format!("{:#}", export(&Stack::default(), "alone").unwrap_err());
        assert!(error.contains("does not apply"), "{error}");
    }
}
