// SPDX-License-Identifier: GPL-2.0-only
//! All that decides whether a row passes. A pass counts for these inputs and for no others.

use super::plan::{Entry, Planner};
use anyhow::{Context, Result};
use wideleaf_cache::Key;
use wideleaf_kit::events::Observer;
use wideleaf_matrix::folder::Planned;

/// Changes when what the inputs are made of does.
const RECIPE: &str = "1";

/// The sources of the lab that this program is made of (`build.rs`).
const SOURCES: &str = env!("WIDELEAF_LAB_SOURCES");

/// The inputs of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// Options, expectations among them, and the kernels: series, fragments, compiler, source.
    run: String,
    /// The guest program, the plugin where it has a part, and QEMU's version.
    programs: String,
    /// QEMU itself.
    qemu: String,
    /// The contents of the disk, with the versions of its packages.
    disk: String,
    /// The lab's host side.
    sources: String,
    /// The words that the run must fail with.
    must_fail_with: Vec<String>,
}

impl Inputs {
    /// Those of a row that is planned. Its disk is made if it is not there.
    ///
    /// # Errors
    ///
    /// If one cannot be had.
    pub fn of(entry: &Entry, planner: &Planner<'_>, observer: &dyn Observer) -> Result<Self> {
        let planned = entry.planned().context("the row is not planned")?;
        Ok(Self {
            run: planned.key.clone(),
            programs: planned.programs.clone(),
            qemu: planner.qemu(entry)?,
            disk: planner.disk(entry, observer)?,
            sources: SOURCES.into(),
            must_fail_with: planned.must_fail_with.clone(),
        })
    }

    /// The name of a pass.
    pub fn key(&self) -> String {
        Key::new()
            .field("recipe", RECIPE)
            .field("run", &self.run)
            .field("programs", &self.programs)
            .field("QEMU", &self.qemu)
            .field("disk", &self.disk)
            .field("sources", &self.sources)
            .field("must fail with", shell_words::join(&self.must_fail_with))
            .id()
    }
}

/// The row as a check runs it: named by all of its inputs, and alone if its guests have several
/// CPUs, because what they do beside each other is what it is about.
///
/// # Errors
///
/// As [`Inputs::of`].
pub fn planned(entry: &Entry, planner: &Planner<'_>, observer: &dyn Observer) -> Result<Planned> {
    let inputs = Inputs::of(entry, planner, observer)?;
    let planned = entry.planned().context("the row is not planned")?;
    Ok(Planned {
        key: inputs.key(),
        // They are in the key.
        programs: String::new(),
        alone: is_alone(entry),
        ..planned.clone()
    })
}

fn is_alone(entry: &Entry) -> bool {
    entry.target.common.cpus > 1
}

#[cfg(test)]
mod tests {
    use super::super::words;
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};
    use wideleaf_cache::Cache;
    use wideleaf_kit::events::Event;
    use wideleaf_matrix::file::Row;

    /// A folder with all that rows are made of, and their names before and after a change.
    struct Bench {
        dir: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let copied = std::process::Command::new("cp")
                .arg("-r")
                .arg("../../kernel")
                .arg(dir.path())
                .status();
            assert!(copied.unwrap().success());
            for name in ["guest", "plugin.so", "kernel.img"] {
                fs::write(dir.path().join(name), name).unwrap();
            }
            Self { dir }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        /// The options that name what is in the folder.
        fn parts(&self) -> Vec<String> {
            let named = [
                ("--kernel-dir", "kernel"),
                ("--guest-bin", "guest"),
                ("--plugin", "plugin.so"),
            ];
            let words = named.map(|(option, name)| [option.into(), self.path(name)]);
            let words = words.into_iter().flatten();
            words.map(|word| word.display().to_string()).collect()
        }

        fn row(&self, words: &str, must_fail_with: &[&str]) -> Row {
            let words = words.split(' ').map(String::from);
            Row {
                name: "row".into(),
                machine: Default::default(),
                words: words.chain(self.parts()).collect(),
                must_fail_with: must_fail_with.iter().map(|w| w.to_string()).collect(),
                line: 1,
            }
        }

        fn inputs_of(&self, row: Row) -> Inputs {
            let cache = Cache::at(self.path("cache")).unwrap();
            let sources = ["6.12", "7.3"].map(|base| (base.to_string(), format!("{base}.1-1")));
            let planner = Planner::new(&cache, BTreeMap::from(sources));
            let entry = planner.plan(row).unwrap();
            Inputs::of(&entry, &planner, &|_: Event<'_>| ()).unwrap()
        }

        fn keys(&self) -> Vec<String> {
            let key = |words: &&str| self.inputs_of(self.row(words, &[])).key();
            ROWS.iter().map(key).collect()
        }

        /// The names of [`ROWS`] with the file `name` changed.
        fn keys_with(&self, name: &str) -> Vec<String> {
            let path = self.path(name);
            let was = fs::read(&path).unwrap();
            let new = match name.ends_with(".config") {
                true => "\nCONFIG_NEW=y\n",
                false => "\n/* new */\n",
            };
            fs::write(&path, [&was, new.as_bytes()].concat()).unwrap();
            let keys = self.keys();
            fs::write(&path, was).unwrap();
            keys
        }
    }

    /// By number in the tests below. None has a disk, which would have to be made.
    const ROWS: [&str; 5] = [
        "--job boot --base 6.12 --variants pristine",
        "--job boot --base 6.12 --variants patched --referee",
        "--job boot --base 6.12 --arch x86_64 --variants patched",
        "--job kunit --base 7.3 --page-size 16K --variants patched",
        "--job boot --base 6.12 --variants patched --plant wrong-offset",
    ];

    #[test]
    fn a_change_outdates_the_rows_that_it_is_an_input_of() {
        let bench = Bench::new();
        let before = bench.keys();
        for (file, rows) in [
            // Of every kernel, of one architecture, page size, base.
            ("kernel/config/base.config", vec![0, 1, 2, 3, 4]),
            ("kernel/config/arm64.config", vec![0, 1, 3, 4]),
            ("kernel/config/16k.config", vec![3]),
            ("kernel/config/base-6.12.config", vec![0, 1, 2, 4]),
            ("kernel/config/storm.config", vec![]),
            // The series: no pristine kernel has it.
            ("kernel/reads/overlay/mm/exec_read.h", vec![1, 2, 3, 4]),
            ("kernel/planted/6.12/wrong-offset.patch", vec![4]),
            // The plugin, where it counts something.
            ("plugin.so", vec![1]),
            ("guest", vec![0, 1, 2, 3, 4]),
            // No kernel is made of it.
            ("kernel/README.md", vec![]),
        ] {
            let after = bench.keys_with(file);
            let outdated: Vec<_> = (0..ROWS.len()).filter(|&n| before[n] != after[n]).collect();
            assert_eq!(outdated, rows, "{file}");
        }
        assert_eq!(before, bench.keys(), "a row has one name");
    }

    #[test]
    fn options_expectations_and_faults_are_inputs() {
        let bench = Bench::new();
        let key = |words: &str, with: &[&str]| bench.inputs_of(bench.row(words, with)).key();
        let before = key(ROWS[0], &[]);
        for (words, with) in [
            (format!("{} --repeat 2", ROWS[0]), &[][..]),
            (format!("{} --timeout 7", ROWS[0]), &[]),
            (format!("{} --append nokaslr", ROWS[0]), &[]),
            (ROWS[0].to_string(), &["panic"]),
        ] {
            assert_ne!(before, key(&words, with), "{words} {with:?}");
        }
    }

    #[test]
    fn each_kind_of_input_makes_another_pass() {
        let inputs = Inputs {
            run: "a".into(),
            programs: "b".into(),
            qemu: "c".into(),
            disk: "d".into(),
            sources: "e".into(),
            must_fail_with: Vec::new(),
        };
        let new = || "new".to_string();
        let others = [
            Inputs {
                run: new(),
                ..inputs.clone()
            },
            Inputs {
                programs: new(),
                ..inputs.clone()
            },
            Inputs {
                qemu: new(),
                ..inputs.clone()
            },
            Inputs {
                disk: new(),
                ..inputs.clone()
            },
            Inputs {
                sources: new(),
                ..inputs.clone()
            },
            Inputs {
                must_fail_with: vec![new()],
                ..inputs.clone()
            },
        ];
        for other in others {
            assert_ne!(inputs.key(), other.key(), "{other:?}");
        }
        assert_eq!(inputs.key(), inputs.clone().key());
    }

    #[test]
    fn a_disk_counts_by_what_it_holds() {
        let bench = Bench::new();
        // Made by mkfs.xfs, which the lab needs anyway.
        let of = |size: &str| {
            let words = format!("--job exec --base 6.12 --size {size}");
            bench.inputs_of(bench.row(&words, &[])).disk
        };
        let (small, large) = (of("1M"), of("2M"));
        assert!(!small.is_empty());
        assert_ne!(small, large);
        assert_eq!(small, of("1M"));
        assert!(Path::new(&bench.path("cache")).exists());
    }

    #[test]
    fn rows_with_several_cpus_run_alone_and_have_a_file_of_their_own() {
        let bench = Bench::new();
        let cache = Cache::at(bench.path("cache")).unwrap();
        let sources = ["6.12", "7.3"].map(|base| (base.to_string(), format!("{base}.1-1")));
        let planner = Planner::new(&cache, BTreeMap::from(sources));
        for (name, alone) in [("checks.toml", false), ("checks-alone.toml", true)] {
            let rows = words::read(&Path::new("../../scripts").join(name)).unwrap();
            assert!(rows.len() > 5, "{name}: {}", rows.len());
            for mut row in rows {
                row.words.extend(bench.parts());
                let entry = planner.plan(row).unwrap();
                assert_eq!(is_alone(&entry), alone, "{}", entry.row.name);
            }
        }
    }
}
