// SPDX-License-Identifier: GPL-2.0-only
//! A patch series for a base: `kernel/<series>/<base>/series`, its patches and the
//! overlay files they tie in (format: `kernel/README.md`).
//!
//! The steps are applied by `git am` in a scratch repository that holds the
//! touched files only. So what the lab builds and what `git am` makes of an
//! export cannot differ, a hunk must match without fuzz, and a step that does
//! not apply has touched nothing but the scratch.

use crate::author::Author;
use crate::overlay::{self, Life};
use crate::scratch::{Contents, Scratch};
use crate::step::Step;
use crate::{Base, KernelDir, SeriesDir};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// In the folder of a series: subject, an empty line, text.
const COVER_LETTER: &str = "cover-letter.txt";

/// A series for a base.
#[derive(Clone, Debug)]
pub struct Series {
    base: Base,
    files: SeriesDir,
    /// The steps.
    steps: Vec<Step>,
    /// What the overlay files are that the steps add, once somebody asked.
    lives: OnceLock<BTreeMap<String, Life>>,
}

impl Series {
    /// Reads `<base>/series`; every file it names must be there.
    pub fn load(base: Base, files: &SeriesDir) -> Result<Self> {
        let patches = files.of(base);
        let path = patches.join("series");
        let mut steps = Vec::new();
        for (number, line) in read(&path)?.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let step = Step::parse(line, files, &patches)
                .with_context(|| format!("{}:{}", path.display(), number + 1))?;
            steps.push(step);
        }
        overlay::check(&steps, &path)?;
        Ok(Self {
            base,
            files: files.clone(),
            steps,
            lives: OnceLock::new(),
        })
    }

    /// The fault `kernel/planted/<base>/<name>.patch`, a series of one step.
    ///
    /// # Errors
    ///
    /// If there is none of this name; the text lists those that there are.
    pub fn fault(base: Base, files: &KernelDir, name: &str) -> Result<Self> {
        let folder = files.planted(base);
        let patches = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = patches.filter_map(|item| {
            let name = item.file_name().into_string().ok()?;
            name.strip_suffix(".patch").map(str::to_string)
        });
        let known: BTreeSet<_> = names.collect();
        if !known.contains(name) {
            let known = Vec::from_iter(known).join(", ");
            bail!(
                "no fault '{name}' in {}: known are {known}",
                folder.display()
            );
        }
        let step = Step {
            patch: folder.join(format!("{name}.patch")),
            overlay: Vec::new(),
        };
        Ok(Self {
            base,
            files: SeriesDir::at(folder),
            steps: vec![step],
            lives: OnceLock::new(),
        })
    }

    /// The base.
    pub fn base(&self) -> Base {
        self.base
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Every path in the tree that a step adds, changes or removes.
    pub fn touched(&self) -> Result<BTreeSet<String>> {
        let mut touched = BTreeSet::new();
        for step in &self.steps {
            touched.extend(step.overlay.iter().cloned());
            touched.extend(step.touches()?.into_keys());
        }
        Ok(touched)
    }

    /// What the overlay files are that the steps add.
    fn lives(&self) -> Result<&BTreeMap<String, Life>> {
        if let Some(lives) = self.lives.get() {
            return Ok(lives);
        }
        let added = self.steps.iter().flat_map(|step| &step.overlay);
        let wanted = added.cloned().collect();
        let lives = overlay::lives(&self.files, &self.steps, &wanted)?;
        Ok(self.lives.get_or_init(|| lives))
    }

    /// The content with which a step adds the overlay file `path`; `None` if none does.
    pub(crate) fn first(&self, path: &str) -> Result<Option<&[u8]>> {
        Ok(self.lives()?.get(path).map(|life| &life.first[..]))
    }

    /// The touched files after the last step. `original` holds all of
    /// [`Series::touched`] as `source`, named in errors, has them.
    pub fn apply(&self, source: &str, original: &Contents) -> Result<Contents> {
        let scratch = self.scratch(source, original, &Author::nobody())?;
        let mut result = Contents::new();
        for path in original.keys() {
            result.insert(path.clone(), scratch.read(path)?);
        }
        Ok(result)
    }

    /// Writes the series as mails of `author` into the empty or new folder `dir`, with the cover
    /// letter, so that `git am DIR/0001-* ...` takes it. The same series on the same source gives
    /// the same bytes.
    ///
    /// # Errors
    ///
    /// If `dir` holds something, if a step does not apply to `original`, or if there is no cover
    /// letter.
    pub fn export(
        &self,
        source: &str,
        original: &Contents,
        author: &Author,
        dir: &Path,
    ) -> Result<Vec<PathBuf>> {
        if fs::read_dir(dir).is_ok_and(|mut items| items.next().is_some()) {
            bail!("{}: not empty: name a new folder", dir.display());
        }
        if self.steps.is_empty() {
            bail!("the series for {} has no steps", self.base);
        }
        let letter = read(&self.files.path().join(COVER_LETTER))?;
        let (subject, text) = letter.split_once("\n\n").unwrap_or((&letter, ""));
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        self.scratch(source, original, author)?.format(
            dir,
            subject.trim(),
            &format!("{}\n\nThis series is for {source}.", text.trim_end()),
        )
    }

    fn scratch(&self, source: &str, original: &Contents, author: &Author) -> Result<Scratch> {
        let lives = self.lives()?;
        let scratch = Scratch::new(original, author)?;
        for step in &self.steps {
            for file in &step.overlay {
                if original.get(file).is_some_and(Option::is_some) {
                    bail!(
                        "{}: {source} has a file of that name: a patch must change it",
                        self.files.overlay(file).display()
                    );
                }
            }
            scratch
                .am(&step.patch)
                .with_context(|| format!("{} does not apply to {source}", step.patch.display()))?;
            for file in &step.overlay {
                scratch.write(file, &lives[file].first)?;
            }
            if !step.overlay.is_empty() {
                scratch.amend()?;
            }
        }
        for (file, life) in lives {
            // Only if a hunk fits two places, and fitted another one on the way back.
            if scratch.read(file)?.as_deref() != Some(&life.last) {
                bail!(
                    "{}: the steps that change {file} do not end with it: write them back with \
                     'wideleaf kernel import'",
                    self.files.overlay(file).display()
                );
            }
        }
        Ok(scratch)
    }
}

/// A hash of what these series do to the files that `counts` takes, one after the other. Commit
/// messages do not count.
pub fn hash(all: &[Series], counts: impl Fn(&str) -> bool) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for series in all {
        let lives = series.lives()?;
        for step in &series.steps {
            for diff in step.diffs(&counts)? {
                hasher.update(blake3::hash(diff.as_bytes()).as_bytes());
            }
            for file in step.overlay.iter().filter(|file| counts(file)) {
                hasher.update(blake3::hash(file.as_bytes()).as_bytes());
                hasher.update(blake3::hash(&lives[file].first).as_bytes());
            }
        }
    }
    Ok(hasher.finalize().to_hex()[..32].to_string())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
#[path = "series_growing_tests.rs"]
mod growing_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::is_built;
    use crate::testing::{Lab, hook};
    use std::process::Command;

    pub(super) fn git(dir: &Path, args: &[&str]) -> String {
        let out = Command::new("git")
            .current_dir(dir)
            .args([
                "-c",
                "user.name=me",
                "-c",
                "user.email=me@example.org",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(args)
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .unwrap();
        assert!(out.status.success(), "{args:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn ada() -> Author {
        Author {
            name: "Ada Lovelace".into(),
            email: "ada@example.org".into(),
        }
    }

    pub(super) fn export(lab: &Lab, dir: &Path) -> Vec<PathBuf> {
        let series = lab.series();
        let original = lab.tree().originals(&series.touched().unwrap()).unwrap();
        series
            .export(&lab.source.to_string(), &original, &ada(), dir)
            .unwrap()
    }

    #[test]
    fn git_am_makes_of_an_export_what_the_lab_builds() {
        let lab = Lab::new();
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let files = export(&lab, &out);
        assert_eq!(files.len(), 2, "{files:?}");
        let cover = fs::read_to_string(&files[0]).unwrap();
        assert!(cover.contains("7.3.9-1"), "{cover}");
        assert!(!cover.contains("***"), "{cover}");
        assert!(
            cover.contains("From: Ada Lovelace <ada@example.org>"),
            "{cover}"
        );
        assert!(
            cover.contains("Subject: [PATCH 0/1] Wide leaves\n"),
            "{cover}"
        );
        assert!(cover.contains("\nThe text.\n"), "{cover}");

        let mut tree = lab.tree();
        let repo = tree.src();
        git(&repo, &["init", "-q"]);
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "pristine"]);
        git(&repo, &["am", "-q", files[1].to_str().unwrap()]);
        let of_am = |path: &str| git(&repo, &["show", &format!("HEAD:{path}")]);
        let (filemap, leaf) = (of_am("mm/filemap.c"), of_am("mm/leaf.c"));
        let message = git(&repo, &["log", "-1", "--format=%an|%aI|%s|%b"]);
        assert!(
            message.starts_with(
                "Ada Lovelace|2026-11-20T12:00:00+00:00|mm: ask for a wide order|\
                 Because a leaf is wide.\n\nSigned-off-by: Ada Lovelace <ada@example.org>"
            ),
            "{message}"
        );
        git(&repo, &["reset", "-q", "--hard", "HEAD~"]);
        tree.switch(&lab.series().into()).unwrap();
        let of_lab = |path: &str| fs::read_to_string(repo.join(path)).unwrap();
        assert_eq!(of_lab("mm/filemap.c"), filemap);
        assert_eq!(of_lab("mm/leaf.c"), leaf);
    }

    #[test]
    fn the_same_series_gives_the_same_bytes() {
        let lab = Lab::new();
        let dir = tempfile::tempdir().unwrap();
        let bytes = |name: &str| -> Vec<_> {
            let files = export(&lab, &dir.path().join(name));
            files.iter().map(|file| fs::read(file).unwrap()).collect()
        };
        assert_eq!(bytes("one"), bytes("two"));
    }

    #[test]
    fn an_export_does_not_mix_with_what_is_there() {
        let lab = Lab::new();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0001-other.patch"), "").unwrap();
        let series = lab.series();
        let error = series
            .export("x", &Contents::new(), &ada(), dir.path())
            .unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
    }

    #[test]
    fn the_hash_is_of_what_is_done_to_the_tree() {
        let lab = Lab::new();
        let hash = || hash(&[lab.series()], is_built).unwrap();
        let first = hash();
        lab.patch(&hook().replace("Because a leaf is wide.", "Because it is."));
        assert_eq!(hash(), first, "a commit message counted");
        lab.patch(&hook().replace("wide()", "wider()"));
        assert_ne!(hash(), first, "a patch did not count");
        lab.patch(hook());
        assert_eq!(hash(), first);
        lab.overlay("mm/leaf.c", "int wide(void) { return 6; }\n");
        assert_ne!(hash(), first, "an overlay file did not count");
        lab.overlay("mm/unused.c", "");
        lab.overlay("mm/leaf.c", "int wide(void) { return 5; }\n");
        assert_eq!(hash(), first, "an overlay file that no step names counted");
        lab.write_series("0001-hook.patch");
        assert_ne!(hash(), first, "a dropped overlay file did not count");
    }

    #[test]
    fn an_unknown_fault_is_answered_with_the_known() {
        let lab = Lab::new();
        let fault = |name| Series::fault(Base::V7_3, &lab.files, name);
        let error = fault("flood").unwrap_err().to_string();
        assert!(error.contains("no fault 'flood'"), "{error}");
        let folder = lab.files.planted(Base::V7_3);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("drought.patch"), hook()).unwrap();
        let error = fault("flood").unwrap_err().to_string();
        assert!(error.contains("drought"), "{error}");
        let steps = |series: Series| series.steps().len();
        assert_eq!(fault("drought").map(steps).unwrap(), 1);
    }

    #[test]
    fn mistakes_in_the_series_file_name_file_and_line() {
        let lab = Lab::new();
        for (text, part) in [
            ("\n0002-none.patch", "series:2"),
            ("0001-hook.patch mm/leaf.c", "'mm/leaf.c'"),
            ("0001-hook.patch + mm/none.c", "'mm/none.c'"),
            ("0001-hook.patch + ../config/base.config", "'../config"),
            (
                "0001-hook.patch + mm/leaf.c\n0001-hook.patch + mm/leaf.c",
                "two steps add mm/leaf.c",
            ),
        ] {
            lab.write_series(text);
            let error = Series::load(Base::V7_3, &lab.folder()).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{text}: {error:#}");
        }
    }
}
