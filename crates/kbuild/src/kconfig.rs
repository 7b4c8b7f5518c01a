// SPDX-License-Identifier: GPL-2.0-only
//! Which Kconfig file of a source tree defines an option.

use crate::Arch;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Folders whose Kconfig files are about no kernel.
const NOT_OF_KERNELS: [&str; 4] = ["Documentation", "scripts", "tools", ".git"];

/// A place where an option is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The Kconfig file, below the tree.
    pub(crate) file: String,
    /// The conditions of the `if` blocks around it.
    pub(crate) conditions: Vec<String>,
}

/// The options of a tree, by name with `CONFIG_`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes {
    homes: BTreeMap<String, Vec<Home>>,
    /// The first option of each file: of a file system's folder, the file system.
    first: BTreeMap<String, String>,
}

impl Homes {
    /// Reads all Kconfig files that kernels of `arch` have, as they are without a series: `originals`
    /// holds those that one changed. So options that a series adds are defined nowhere.
    pub(crate) fn read(tree: &Path, originals: &Path, arch: Arch) -> Result<Self> {
        let mut homes = Self::default();
        homes.walk(&[originals, tree], "", folder(arch))?;
        Ok(homes)
    }

    /// Of a file that several `trees` have, the first one's counts; the last has all.
    fn walk(&mut self, trees: &[&Path; 2], below: &str, arch: &str) -> Result<()> {
        let dir = trees[1].join(below);
        let list = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for item in list {
            let item = item?;
            let name = item.file_name().to_string_lossy().into_owned();
            let path = match below {
                "" => name.clone(),
                _ => format!("{below}/{name}"),
            };
            let kind = item.file_type()?;
            if kind.is_dir() {
                let other = below.is_empty() && NOT_OF_KERNELS.contains(&&name[..]);
                if !other && (below != "arch" || name == arch) {
                    self.walk(trees, &path, arch)?;
                }
            } else if kind.is_file() && name.starts_with("Kconfig") {
                let mut files = trees.iter().map(|tree| tree.join(&path));
                let file = files.find(|file| file.exists());
                let file = file.with_context(|| format!("{path} went away"))?;
                let text =
                    fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                self.add(&path, &String::from_utf8_lossy(&text));
            }
        }
        Ok(())
    }

    /// Adds the options of one file.
    pub(crate) fn add(&mut self, file: &str, text: &str) {
        let mut conditions: Vec<String> = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            // Indented, `if` belongs to a sentence of a help text or to an attribute.
            let at_start = !line.starts_with([' ', '\t']);
            match (words.next(), words.next(), words.next()) {
                (Some("config" | "menuconfig"), Some(name), None) => {
                    let name = format!("CONFIG_{name}");
                    self.first
                        .entry(file.into())
                        .or_insert_with(|| name.clone());
                    self.homes.entry(name).or_default().push(Home {
                        file: file.into(),
                        conditions: conditions.clone(),
                    });
                }
                (Some("if"), Some(_), _) if at_start => {
                    conditions.push(line["if".len()..].trim().into());
                }
                (Some("endif"), ..) if at_start => {
                    conditions.pop();
                }
                _ => {}
            }
        }
    }

    /// Where the option is defined; nowhere, if it is of another version.
    pub(crate) fn of(&self, option: &str) -> &[Home] {
        self.homes.get(option).map_or(&[], Vec::as_slice)
    }

    /// The first option that `file` defines.
    pub(crate) fn first_of(&self, file: &str) -> Option<&str> {
        self.first.get(file).map(String::as_str)
    }
}

/// The folder of an architecture below `arch/`.
const fn folder(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "arm64",
        Arch::X86_64 => "x86",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_the_files_that_define_it_and_the_conditions_around() {
        let mut homes = Homes::default();
        homes.add(
            "fs/Kconfig",
            "config A\n\tbool \"a\"\n\tdefault y if B\n\thelp\n\t  if in doubt\n\
             if NET\nmenuconfig B\nif B # inner\nconfig C\nendif\nconfig D\nendif # NET\nconfig E\n",
        );
        homes.add("mm/Kconfig", "  config A\n");
        let files = |name: &str| {
            let homes = homes.of(name).iter();
            homes.map(|home| home.file.clone()).collect::<Vec<_>>()
        };
        assert_eq!(files("CONFIG_A"), ["fs/Kconfig", "mm/Kconfig"]);
        assert_eq!(homes.of("CONFIG_C")[0].conditions, ["NET", "B # inner"]);
        assert_eq!(homes.of("CONFIG_D")[0].conditions, ["NET"]);
        assert!(homes.of("CONFIG_E")[0].conditions.is_empty());
        assert!(homes.of("CONFIG_F").is_empty());
        assert_eq!(homes.first_of("fs/Kconfig"), Some("CONFIG_A"));
    }

    #[test]
    fn other_architectures_documentation_and_series_define_nothing() {
        let tree = tempfile::tempdir().unwrap();
        for (file, option) in [
            ("Kconfig", "TOP"),
            ("mm/Kconfig.debug", "DEBUG"),
            ("mm/Kconfig", "OF_A_SERIES"),
            ("arch/Kconfig", "ALL"),
            ("arch/x86/Kconfig", "X86"),
            ("arch/arm64/Kconfig", "ARM"),
            ("Documentation/Kconfig", "TEXT"),
        ] {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("config {option}\n")).unwrap();
        }
        let originals = tree.path().join("Documentation/originals");
        fs::create_dir_all(originals.join("mm")).unwrap();
        fs::write(originals.join("mm/Kconfig"), "config OLD\n").unwrap();
        let homes = Homes::read(tree.path(), &originals, Arch::X86_64).unwrap();
        for there in ["TOP", "DEBUG", "ALL", "X86", "OLD"] {
            assert_eq!(homes.of(&format!("CONFIG_{there}")).len(), 1, "{there}");
        }
        for other in ["ARM", "TEXT", "OF_A_SERIES"] {
            assert!(homes.of(&format!("CONFIG_{other}")).is_empty(), "{other}");
        }
        assert_eq!(homes.of("CONFIG_DEBUG")[0].file, "mm/Kconfig.debug");
    }
}
