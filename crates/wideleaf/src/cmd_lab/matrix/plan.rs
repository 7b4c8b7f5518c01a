// SPDX-License-Identifier: GPL-2.0-only
//! The run of a row, and the key that says whether it has been done.

use super::super::arguments::Run;
use super::words;
use anyhow::Result;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::source::Source;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_lab::host;
use wideleaf_lab::run::Lab;
use wideleaf_lab::target::{Kernels, Target};
use wideleaf_lab::vm::emulator::Qemu;
use wideleaf_matrix::file::Row;
use wideleaf_matrix::folder::{Folder, Planned, Readable, State};

/// Changes when what a row's key is made of does.
const RECIPE: &str = "1";

/// A row of the file.
pub struct Entry {
    /// As the file has it.
    pub row: Row,
    /// Its options.
    run: Run,
    /// Job, machine, kernels.
    pub target: Target,
    /// The names of its kernels by all that goes into them.
    pub kernels: Vec<String>,
    /// `None`: its kernels were never named in this folder, so nobody has run it.
    planned: Option<Planned>,
}

impl Entry {
    /// The row as it is run.
    pub fn planned(&self) -> Option<&Planned> {
        self.planned.as_ref()
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn state(&self, folder: &Folder, readable: Readable<'_>) -> Result<State> {
        match &self.planned {
            None => Ok(State::ToDo),
            Some(row) => match folder.state(row, readable)? {
                // Without programs here nothing can be said about those that were used.
                State::Done { .. } if row.programs.is_empty() => {
                    Ok(State::Done { outdated: false })
                }
                state => Ok(state),
            },
        }
    }
}

/// Names what rows run.
pub struct Planner<'a> {
    cache: &'a Cache,
    sources: BTreeMap<String, String>,
    /// Kernels and programs that many rows share, by what was asked for.
    known: RefCell<HashMap<String, String>>,
}

impl<'a> Planner<'a> {
    /// One that builds from these source versions, by base.
    pub fn new(cache: &'a Cache, sources: BTreeMap<String, String>) -> Self {
        Self {
            cache,
            sources,
            known: RefCell::default(),
        }
    }

    /// The source version of each base.
    pub fn sources(&self) -> &BTreeMap<String, String> {
        &self.sources
    }

    /// Finds the newest source of each base that rows need and that has none yet.
    ///
    /// # Errors
    ///
    /// If there is no source to be had.
    pub fn resolve(&mut self, rows: &[Row], observer: &dyn Observer) -> Result<()> {
        for row in rows {
            let (run, target) = words::parse(&row.words)?;
            let base = target.base.to_string();
            if !run.builds_from_debian() || self.sources.contains_key(&base) {
                continue;
            }
            let source = Source::newest(target.base, false, self.cache, observer)?;
            self.sources.insert(base, source.version);
        }
        Ok(())
    }

    /// The row as it is run.
    ///
    /// # Errors
    ///
    /// If something that it needs is missing.
    pub fn plan(&self, row: Row) -> Result<Entry> {
        self.entry(row, |lab, target| lab.programs_key(target))
    }

    /// The row as far as it is known without network or the programs.
    ///
    /// # Errors
    ///
    /// If what goes into its kernels cannot be read.
    pub fn look(&self, row: Row) -> Result<Entry> {
        self.entry(row, |lab, target| {
            Ok(lab.programs_key(target).unwrap_or_default())
        })
    }

    fn entry(
        &self,
        row: Row,
        programs: impl Fn(&Lab<'_>, &Target) -> Result<String>,
    ) -> Result<Entry> {
        let (run, mut target) = words::parse(&row.words)?;
        let mut words = row.words.clone();
        if run.builds_from_debian() {
            let Some(version) = self.sources.get(&target.base.to_string()) else {
                return Ok(Entry {
                    row,
                    run,
                    target,
                    kernels: Vec::new(),
                    planned: None,
                });
            };
            target.source_version = Some(version.clone());
            words.extend(["--source-version".into(), version.clone()]);
        }
        let silent = |_: Event<'_>| ();
        let lab = run.lab(self.cache, &silent)?;
        let mut key = Key::new()
            .field("recipe", RECIPE)
            .field("words", shell_words::join(&row.words));
        let kernels = self.kernels(&lab, &target)?;
        for (variant, kernel) in target.variants.iter().zip(&kernels) {
            key = key.field(format!("kernel {variant}"), kernel);
        }
        let counts = target.needs_plugin();
        let what = format!(
            "{} {counts} {:?} {:?}",
            target.arch, lab.guest_binary, lab.plugin
        );
        let guests = target.variants.len();
        let memory = host::guest_takes(target.plan.memory);
        let planned = Planned {
            name: row.name.clone(),
            machine: row.machine.clone(),
            words,
            key: key.id(),
            programs: self.once(what, || programs(&lab, &target))?,
            cpus: guests * target.common.cpus as usize,
            memory: guests as u64 * memory,
            alone: false,
            must_fail_with: row.must_fail_with.clone(),
        };
        Ok(Entry {
            row,
            planned: Some(planned),
            kernels,
            run,
            target,
        })
    }

    fn kernels(&self, lab: &Lab<'_>, target: &Target) -> Result<Vec<String>> {
        let variants = target.variants.iter();
        let specs: Vec<_> = variants
            .map(|&variant| target.spec(variant, &lab.kernels))
            .collect();
        let given = match &lab.kernels {
            Kernels::Given(given) => Some(given),
            _ => None,
        };
        let what = format!("{:?} {specs:?} {given:?}", target.variants);
        let keys = self.once(what, || Ok(lab.kernel_keys(target)?.join(" ")))?;
        Ok(keys.split(' ').map(String::from).collect())
    }

    /// `find`, unless it has been found before.
    fn once(&self, what: String, find: impl FnOnce() -> Result<String>) -> Result<String> {
        if let Some(found) = self.known.borrow().get(&what) {
            return Ok(found.clone());
        }
        let found = find()?;
        self.known.borrow_mut().insert(what, found.clone());
        Ok(found)
    }

    /// Names what the row's disk holds, package versions included: the name that the cache has for
    /// it. The disk is made if it is not there; nothing for a row without a disk.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn disk(&self, entry: &Entry, observer: &dyn Observer) -> Result<String> {
        let target = &entry.target;
        let lab = entry.run.lab(self.cache, observer)?;
        let whom = target.plan.disk.as_ref();
        let whom = whom.map(|disk| (disk, target.disk_for(disk, &lab.kernels)));
        let what = format!("{whom:?}");
        self.once(what, || {
            let disk = lab.disk(target)?;
            let entry = disk
                .as_deref()
                .and_then(Path::parent)
                .and_then(Path::file_name);
            Ok(entry.unwrap_or_default().to_string_lossy().into_owned())
        })
    }

    /// The hash of the QEMU that the row runs: its version does not tell two builds apart.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn qemu(&self, entry: &Entry) -> Result<String> {
        let arch = entry.target.arch;
        self.once(format!("QEMU {arch}"), || {
            let qemu = Qemu::find(arch)?;
            Ok(Key::new().file("QEMU", &qemu.path)?.id())
        })
    }

    /// How many kernels these rows run, and how many of them are not built yet.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read.
    pub fn count_kernels<'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Result<(usize, usize)> {
        let mut seen = BTreeSet::new();
        let mut lacking = 0;
        for entry in entries {
            let lab = entry.run.lab(self.cache, &|_: Event<'_>| ())?;
            for (variant, key) in entry.target.variants.iter().zip(&entry.kernels) {
                let Some(mut spec) = entry.target.spec(*variant, &lab.kernels) else {
                    continue;
                };
                if !seen.insert(key) {
                    continue;
                }
                spec.version = self.sources.get(&spec.base.to_string()).cloned();
                if wideleaf_kbuild::find(&spec, self.cache)?.is_none() {
                    lacking += 1;
                }
            }
        }
        Ok((seen.len(), lacking))
    }

    /// Has the row's kernels and disk made.
    ///
    /// # Errors
    ///
    /// If they cannot be had.
    pub fn prepare(&self, entry: &Entry, observer: &dyn Observer) -> Result<()> {
        entry.run.lab(self.cache, observer)?.prepare(&entry.target)
    }
}
