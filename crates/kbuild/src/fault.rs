// SPDX-License-Identifier: GPL-2.0-only
//! The faults that `--plant` knows: patches of the source, and changes of the finished image.

use crate::checkpatch::Report;
use crate::image_fault::{self, ImageFault};
use crate::series::Series;
use crate::stack;
use crate::{Arch, Base, KernelDir, Stack, Variant, WorkTree};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;

/// A fault that a kernel can get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Its name.
    pub name: String,
    /// A sentence.
    pub about: String,
    /// The bases whose kernels can get it.
    pub bases: Vec<Base>,
    /// The architecture whose kernels can get it; any if none is named.
    pub arch: Option<Arch>,
    /// Whether the kernel is built anew for it; else its finished image is changed.
    pub is_built: bool,
}

impl std::fmt::Display for Fault {
    /// The sentence, and in which kernels.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bases: Vec<_> = self.bases.iter().map(|base| base.name()).collect();
        write!(f, "{} ({}", self.about, bases.join(", "))?;
        if let Some(arch) = self.arch {
            write!(f, ", {arch}")?;
        }
        let how = if self.is_built {
            ""
        } else {
            ", not built anew"
        };
        write!(f, "{how})")
    }
}

/// All faults, those of the source first, each by name. Without the folder with our kernel files
/// there are those of finished images.
///
/// # Errors
///
/// If a patch cannot be read.
pub fn faults(files: Option<&KernelDir>) -> Result<Vec<Fault>> {
    let mut built = BTreeMap::<String, Fault>::new();
    for (&base, files) in Base::ALL
        .iter()
        .flat_map(|base| files.map(|files| (base, files)))
    {
        for (name, about) in patches(base, files)? {
            let fault = built.entry(name.clone()).or_insert(Fault {
                name,
                about,
                bases: Vec::new(),
                arch: None,
                is_built: true,
            });
            fault.bases.push(base);
        }
    }
    let of_images = image_fault::all().into_iter().map(|fault| Fault {
        name: fault.name,
        about: fault.about,
        bases: Base::ALL.to_vec(),
        arch: Some(fault.arch),
        is_built: false,
    });
    Ok(built.into_values().chain(of_images).collect())
}

/// Looks the fault `name` up for kernels of `base` and `arch`.
///
/// # Errors
///
/// If there is none; the text lists those that there are.
pub fn look_up(name: &str, base: Base, arch: Arch, files: &KernelDir) -> Result<()> {
    of_image(name, base, arch, files).map(drop)
}

/// The fault `name` if it is one of finished images; `None` if it is a patch of `base`'s source.
///
/// # Errors
///
/// If it is neither, or of another architecture; the text lists those that there are.
pub(crate) fn of_image(
    name: &str,
    base: Base,
    arch: Arch,
    files: &KernelDir,
) -> Result<Option<ImageFault>> {
    let patches = patches(base, files)?;
    if patches.contains_key(name) {
        return Ok(None);
    }
    let mut fits: Vec<_> = image_fault::all();
    fits.retain(|fault| fault.arch == arch);
    if let Some(at) = fits.iter().position(|fault| fault.name == name) {
        return Ok(Some(fits.swap_remove(at)));
    }
    let of_images = fits.into_iter().map(|fault| fault.name);
    let known: Vec<_> = patches.into_keys().chain(of_images).collect();
    bail!(
        "no fault '{name}' for Linux {base} on {arch}: known are {}",
        known.join(", ")
    )
}

/// Whether all faults of `kernel/planted/<base>` apply on top of all series. A step that changes the
/// lines that a fault changes takes the fault from the test that plants it.
///
/// # Errors
///
/// If a file cannot be read, or a series does not apply.
pub fn check(tree: &WorkTree, files: &KernelDir) -> Result<Report> {
    let source = tree.source();
    let ground = Stack::of(source.base, Variant::Both, None, files)?;
    let names = patches(source.base, files)?.into_keys();
    let all = names.map(|name| Series::fault(source.base, files, &name));
    let all = all.collect::<Result<Vec<_>>>()?;
    let mut paths = ground.touched()?;
    for fault in &all {
        paths.append(&mut fault.touched()?);
    }
    let grown = ground.apply(&source.to_string(), &tree.originals(&paths)?)?;
    let mut messages = String::new();
    for fault in &all {
        let before = stack::only(&fault.touched()?, grown.clone());
        if let Err(error) = fault.apply(&format!("{source} with all series"), &before) {
            messages += &format!("{error:#}\n");
        }
    }
    Ok(Report {
        patches: all.len(),
        messages,
    })
}

/// Names and sentences of the patches in `kernel/planted/<base>`.
fn patches(base: Base, files: &KernelDir) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for item in fs::read_dir(files.planted(base)).into_iter().flatten() {
        let path = item?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.and_then(|name| name.strip_suffix(".patch")) {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            found.insert(name.to_owned(), sentence(&text));
        }
    }
    Ok(found)
}

/// The subject of a patch, without what its brackets say and `planted:`.
fn sentence(patch: &str) -> String {
    let mut lines = patch.lines();
    let subject = lines.find_map(|line| line.strip_prefix("Subject: "));
    let subject = subject.unwrap_or_default();
    let subject = subject.split_once("] ").map_or(subject, |(_, rest)| rest);
    subject.trim_start_matches("planted: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeriesName;
    use crate::testing::{Lab, hook};
    use std::path::Path;

    fn files() -> KernelDir {
        KernelDir::at(Path::new("../../kernel")).unwrap()
    }

    #[test]
    fn one_list_has_all_faults_with_a_sentence_each() {
        let all = faults(Some(&files())).unwrap();
        let find = |name| all.iter().find(|f| f.name == name).unwrap();
        let built = find("wrong-offset");
        assert_eq!(built.about, "map a run of pages from one page too early");
        assert_eq!((built.bases.len(), built.is_built), (2, true));
        let changed = find("gather-one-cpu");
        assert_eq!(changed.arch, Some(Arch::Arm64));
        let words = "munmap and mprotect flush one CPU only (6.12, 7.3, arm64, not built anew)";
        assert_eq!(changed.to_string(), words);
        assert_eq!(
            find("wide-kfence").to_string(),
            "the pool of kfence is not split (6.12)"
        );
        let mut names: Vec<_> = all.iter().map(|f| &f.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len(), "a name stands for one fault");
        for fault in all {
            assert!(!fault.about.is_empty(), "{}", fault.name);
        }
    }

    #[test]
    fn a_name_is_looked_up_for_one_kernel() {
        let look = |name, arch| of_image(name, Base::V6_12, arch, &files());
        assert!(look("no-unmap", Arch::Arm64).unwrap().is_none());
        assert!(look("cow-no-flush", Arch::Arm64).unwrap().is_some());
        for (name, arch) in [("cow-no-flush", Arch::X86_64), ("nothing", Arch::X86_64)] {
            let error = look(name, arch).unwrap_err().to_string();
            for part in [name, "6.12", "x86_64", "no-unmap", "x86-no-cr3"] {
                assert!(error.contains(part), "no '{part}' in: {error}");
            }
            assert!(!error.contains("fork-no-flush"), "{error}");
        }
    }

    #[test]
    fn a_fault_that_the_series_left_behind_is_named() {
        let lab = Lab::new();
        let root = lab.files.path();
        let after = hook().replace("-\treturn 0;", "-\treturn wide();");
        let change = |to: &str| after.replace("+\treturn wide();", &format!("+\treturn {to}();"));
        let linear = lab.files.series(SeriesName::LinearMap).of(Base::V7_3);
        let planted = root.join("planted/7.3");
        fs::create_dir_all(&linear).unwrap();
        fs::create_dir_all(&planted).unwrap();
        fs::write(linear.join("0001-map.patch"), change("map")).unwrap();
        fs::write(linear.join("series"), "0001-map.patch\n").unwrap();
        let last = change("wrong").replace("-\treturn wide();", "-\treturn map();");
        fs::write(planted.join("wrong.patch"), last).unwrap();
        let report = check(&lab.tree(), &lab.files).unwrap();
        assert_eq!((report.patches, report.messages.as_str()), (1, ""));

        fs::write(planted.join("left.patch"), change("wrong")).unwrap();
        let report = check(&lab.tree(), &lab.files).unwrap();
        assert_eq!(report.patches, 2);
        for part in ["left.patch does not apply", "mm/filemap.c"] {
            assert!(report.messages.contains(part), "{}", report.messages);
        }
        assert_eq!(
            report
                .messages
                .lines()
                .filter(|l| l.contains("wrong.patch"))
                .count(),
            0
        );
    }
}
