// SPDX-License-Identifier: GPL-2.0-only
//! Kernel configurations: fragments that compose, and the check that every
//! option asked for is in the result.

use crate::options::options;
use crate::{Arch, KernelDir, SeriesName, Spec};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The fragment with what the guest needs of a distribution's configuration.
pub(crate) const DISTRIBUTION: &str = "distribution";

/// A fragment's name and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it was read.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl Fragment {
    /// Whether it is there for every distribution's configuration.
    pub(crate) fn is_of_distributions(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(DISTRIBUTION)
    }
}

/// The fragments of `spec` in the order they are merged: base, architecture,
/// page size (arm64), kunit, extras, and what the series adds if it is applied; onto a
/// distribution's configuration what the guest needs, and extras;
/// each followed by its companions for this base (`NAME-<base>.config`) and this
/// architecture (`NAME-<arch>.config`) if there are any.
pub fn fragments(spec: &Spec) -> Result<Vec<Fragment>> {
    let page_size = spec.page_size.name().to_lowercase();
    let mut names = match spec.distribution {
        Some(_) => vec![DISTRIBUTION],
        None => vec!["base", spec.arch.name()],
    };
    if spec.distribution.is_none() {
        if spec.arch == Arch::Arm64 {
            names.push(&page_size);
        }
        names.push("kunit");
    }
    let mut known = extras(&spec.files)?;
    if spec.distribution.is_some() {
        // The lab's own configuration has it anyway.
        known.push("kunit".into());
    }
    for extra in &spec.extras {
        if !known.contains(extra) {
            bail!("unknown extra '{extra}': known are {}", known.join(", "));
        }
        names.push(extra);
    }
    // What a series adds that is off by default is tests, for KUnit.
    if spec.commit.is_none() && names.contains(&"kunit") {
        let series = spec.variant.series().iter();
        names.extend(series.filter_map(|&name| symbols(name)));
    }
    with_companions(spec, &names)
}

/// The options that the fragment `name` of [`Spec::required`] turns on: a distribution's
/// configuration must have them. Those that it turns off make a kernel small, and no job needs them
/// off.
pub(crate) fn required(spec: &Spec, name: &str) -> Result<Vec<Fragment>> {
    let mut fragments = with_companions(spec, &[name])?;
    for Fragment { text, .. } in &mut fragments {
        let on = text.lines().filter(|line| line.starts_with("CONFIG_"));
        *text = on.collect::<Vec<_>>().join("\n");
    }
    Ok(fragments)
}

fn with_companions(spec: &Spec, names: &[impl AsRef<str>]) -> Result<Vec<Fragment>> {
    let mut fragments = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        fragments.push(read(spec.files.fragment(name))?);
        for of in [spec.base.name(), spec.arch.name()] {
            let companion = spec.files.fragment(&format!("{name}-{of}"));
            if companion.exists() {
                fragments.push(read(companion)?);
            }
        }
    }
    Ok(fragments)
}

/// The fragment with the symbols that a whole series adds and that are off by default.
fn symbols(series: SeriesName) -> Option<&'static str> {
    match series {
        SeriesName::Fixes | SeriesName::Align | SeriesName::Khugepaged | SeriesName::Writes => None,
        SeriesName::Reads => Some("reads"),
        SeriesName::LinearMap => Some("linear-map"),
    }
}

/// The fragments that are neither needed by every kernel nor chosen by
/// architecture or page size: what [`Spec::extras`] may name.
pub fn extras(files: &KernelDir) -> Result<Vec<String>> {
    const FIXED: [&str; 9] = [
        "base",
        "arm64",
        "x86_64",
        "4k",
        "16k",
        "64k",
        "kunit",
        "reads",
        DISTRIBUTION,
    ];
    let dir = files.path().join("config");
    let mut names = Vec::new();
    for item in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let name = item?.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".config") else {
            continue;
        };
        // A companion's name ends in a base's or an architecture's.
        if !FIXED.contains(&name) && !name.contains('-') {
            names.push(name.to_string());
        }
    }
    names.sort();
    Ok(names)
}

fn read(path: PathBuf) -> Result<Fragment> {
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Fragment { path, text })
}

/// A line for every option that the fragments ask for and that is not so in `config`; of two
/// fragments that name an option, the later one counts.
pub fn lost(fragments: &[Fragment], config: &str) -> Vec<String> {
    let mut wanted: BTreeMap<&str, (&str, &Fragment)> = BTreeMap::new();
    for fragment in fragments {
        for (name, value) in options(&fragment.text) {
            wanted.insert(name, (value, fragment));
        }
    }
    let has = options(config);
    let mut lost = Vec::new();
    for (name, (value, fragment)) in wanted {
        let got = has.get(name).copied();
        // An option that kconfig does not even offer is not set.
        if got.unwrap_or("n") == value {
            continue;
        }
        lost.push(format!(
            "{}: asks for {name}={value}, but .config {}",
            fragment.path.display(),
            got.map_or("does not mention it".into(), |got| format!("has {got}")),
        ));
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Variant;
    use crate::{Base, PageSize};

    fn fragment(path: &str, text: &str) -> Fragment {
        Fragment {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_lost_option_names_option_fragment_and_what_there_is() {
        let fragments = [
            fragment("base.config", "CONFIG_A=y\nCONFIG_B=y\n"),
            fragment("64k.config", "CONFIG_C=\"x y\"\nCONFIG_D=7\n"),
        ];
        assert_eq!(
            lost(&fragments, "CONFIG_A=y\nCONFIG_C=\"x y\"\nCONFIG_D=8\n"),
            [
                "base.config: asks for CONFIG_B=y, but .config does not mention it",
                "64k.config: asks for CONFIG_D=7, but .config has 8",
            ]
        );
    }

    #[test]
    fn switched_off_means_off_or_absent() {
        let off = [fragment("f", "# CONFIG_A is not set\nCONFIG_B=n\n")];
        assert!(lost(&off, "# CONFIG_A is not set\n").is_empty());
        assert!(lost(&off, "").is_empty());
        assert_eq!(
            lost(&off, "CONFIG_A=y\n"),
            ["f: asks for CONFIG_A=n, but .config has y"]
        );
    }

    #[test]
    fn the_later_fragment_counts() {
        let both = [fragment("a", "CONFIG_A=y"), fragment("b", "CONFIG_A=m")];
        assert!(lost(&both, "CONFIG_A=m").is_empty());
        assert_eq!(lost(&both, "CONFIG_A=y").len(), 1);
    }

    #[test]
    fn composed_in_order_with_companions() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        fs::create_dir(&config).unwrap();
        for name in [
            "base",
            "base-6.12",
            "arm64",
            "x86_64",
            "4k",
            "64k",
            "kunit",
            "reads",
            "linear-map",
            "debug",
            "slow",
            "slow-x86_64",
            "distribution",
        ] {
            fs::write(config.join(format!("{name}.config")), "").unwrap();
        }
        let files = KernelDir::at(dir.path()).unwrap();
        let names = |base, arch, size, variant, extras: &[&str]| {
            let mut spec = Spec::new(base, arch, size, variant, files.clone());
            spec.extras = extras.iter().map(|extra| extra.to_string()).collect();
            let names = fragments(&spec)?.into_iter().map(|fragment| {
                let name = fragment.path.file_stem().unwrap().to_string_lossy();
                name.into_owned()
            });
            anyhow::Ok(names.collect::<Vec<_>>())
        };
        let (pristine, patched, both) = (Variant::Pristine, Variant::Patched, Variant::Both);
        assert_eq!(
            names(
                Base::V6_12,
                Arch::Arm64,
                PageSize::K64,
                pristine,
                &["debug"]
            )
            .unwrap(),
            ["base", "base-6.12", "arm64", "64k", "kunit", "debug"]
        );
        assert_eq!(
            names(Base::V7_3, Arch::X86_64, PageSize::K4, patched, &[]).unwrap(),
            ["base", "x86_64", "kunit", "reads"]
        );
        assert_eq!(
            names(Base::V7_3, Arch::X86_64, PageSize::K4, pristine, &["slow"]).unwrap(),
            ["base", "x86_64", "kunit", "slow", "slow-x86_64"]
        );
        assert_eq!(
            names(Base::V7_3, Arch::X86_64, PageSize::K4, both, &[]).unwrap(),
            ["base", "x86_64", "kunit", "reads", "linear-map"]
        );
        let distribution = crate::Distribution::parse("debian").unwrap();
        let onto = |variant, extras: &[&str]| {
            let mut spec = Spec::new(
                Base::V6_12,
                Arch::Arm64,
                PageSize::K4,
                variant,
                files.clone(),
            );
            spec.distribution = Some(distribution.clone());
            spec.add_extras(extras.iter().copied());
            let names = fragments(&spec).unwrap().into_iter().map(|fragment| {
                let name = fragment.path.file_stem().unwrap().to_string_lossy();
                name.into_owned()
            });
            names.collect::<Vec<_>>()
        };
        assert_eq!(onto(patched, &[]), ["distribution"]);
        assert_eq!(
            onto(patched, &["kunit", "debug"]),
            ["distribution", "kunit", "debug", "reads"]
        );
        let error = names(Base::V7_3, Arch::X86_64, PageSize::K4, pristine, &["kasan"]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "unknown extra 'kasan': known are debug, slow"
        );
    }
}
