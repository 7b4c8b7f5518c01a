// SPDX-License-Identifier: GPL-2.0-only
//! The patch series of a base: `kernel/<base>/series`, its patches and the
//! overlay files they tie in (format: `kernel/README.md`).
//!
//! The steps are applied by `git am` in a scratch repository that holds the
//! touched files only. So what the lab builds and what `git am` makes of an
//! export cannot differ, a hunk must match without fuzz, and a step that does
//! not apply has touched nothing but the scratch.

use crate::author::Author;
use crate::scratch::{Contents, Scratch};
use crate::{Base, KernelDir, Variant};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// In the folder of the kernel's files: subject, an empty line, text.
const COVER_LETTER: &str = "cover-letter.txt";

/// One commit: a patch, and the overlay files that it adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The patch, a mail as `git format-patch` writes it.
    pub patch: PathBuf,
    /// Paths below `overlay/`, which are the paths in the tree.
    pub overlay: Vec<String>,
}

/// The series of a base.
#[derive(Clone, Debug)]
pub struct Series {
    base: Base,
    files: KernelDir,
    steps: Vec<Step>,
}

impl Series {
    /// Reads `kernel/<base>/series`; every file it names must be there.
    pub fn load(base: Base, files: &KernelDir) -> Result<Self> {
        let (path, text) = read_series(base, files)?;
        Self::parse(base, files, &path, &text)
    }

    /// No steps: what a fault that is planted in a pristine kernel is added to.
    pub fn empty(base: Base, files: &KernelDir) -> Self {
        Self {
            base,
            files: files.clone(),
            steps: Vec::new(),
        }
    }

    /// The steps that make `variant`: those above the line that names it.
    pub fn load_part(base: Base, files: &KernelDir, variant: Variant) -> Result<Self> {
        let (path, text) = read_series(base, files)?;
        let line = format!("# variant {variant}: the steps up to here");
        let end = text
            .find(&line)
            .with_context(|| format!("{}: lacks the line '{line}'", path.display()))?;
        Self::parse(base, files, &path, &text[..end])
    }

    fn parse(base: Base, files: &KernelDir, path: &Path, text: &str) -> Result<Self> {
        let mut steps = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let step = parse_step(line, files, base)
                .with_context(|| format!("{}:{}", path.display(), number + 1))?;
            steps.push(step);
        }
        let mut seen = BTreeSet::new();
        for file in steps.iter().flat_map(|step| &step.overlay) {
            if !seen.insert(file) {
                bail!("{}: two steps add {file}", path.display());
            }
        }
        Ok(Self {
            base,
            files: files.clone(),
            steps,
        })
    }

    /// Adds the fault `kernel/planted/<base>/<name>.patch` as the last step.
    ///
    /// # Errors
    ///
    /// If there is none of this name; the text lists those that there are.
    pub fn plant(&mut self, name: &str) -> Result<()> {
        let folder = self.files.path().join("planted").join(self.base.name());
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
        self.steps.push(Step {
            patch: folder.join(format!("{name}.patch")),
            overlay: Vec::new(),
        });
        Ok(())
    }

    /// The base.
    pub fn base(&self) -> Base {
        self.base
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The overlay file for the tree's path `file`.
    pub fn overlay_file(&self, file: &str) -> PathBuf {
        self.files.path().join("overlay").join(file)
    }

    /// Every path in the tree that a step adds, changes or removes.
    pub fn touched(&self) -> Result<BTreeSet<String>> {
        let mut touched = BTreeSet::new();
        for step in &self.steps {
            touched.extend(step.overlay.iter().cloned());
            touched.extend(touched_by(&read(&step.patch)?));
        }
        Ok(touched)
    }

    /// A hash of what the series does to a tree. Commit messages do not count.
    pub fn hash(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        for step in &self.steps {
            let patch = read(&step.patch)?;
            let diff = patch
                .find("\ndiff --git ")
                .map_or(&patch[..], |at| &patch[at..]);
            hasher.update(blake3::hash(diff.as_bytes()).as_bytes());
            for file in &step.overlay {
                let path = self.overlay_file(file);
                let content =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                hasher.update(blake3::hash(file.as_bytes()).as_bytes());
                hasher.update(blake3::hash(&content).as_bytes());
            }
        }
        Ok(hasher.finalize().to_hex()[..32].to_string())
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
        let scratch = Scratch::new(original, author)?;
        for step in &self.steps {
            for file in &step.overlay {
                if original.get(file).is_some_and(Option::is_some) {
                    bail!(
                        "{}: {source} has a file of that name: a patch must change it",
                        self.overlay_file(file).display()
                    );
                }
            }
            scratch
                .am(&step.patch)
                .with_context(|| format!("{} does not apply to {source}", step.patch.display()))?;
            for file in &step.overlay {
                scratch.copy(&self.overlay_file(file), file)?;
            }
            if !step.overlay.is_empty() {
                scratch.amend()?;
            }
        }
        Ok(scratch)
    }
}

fn parse_step(line: &str, files: &KernelDir, base: Base) -> Result<Step> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let patch = files.path().join(base.name()).join(name);
    if !patch.is_file() {
        bail!("{}: no such patch", patch.display());
    }
    match words.next() {
        None | Some("+") => {}
        Some(word) => bail!("'{word}': after the patch comes '+', then overlay files"),
    }
    let overlay: Vec<String> = words.map(str::to_string).collect();
    for file in &overlay {
        let plain = Path::new(file)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let path = files.path().join("overlay").join(file);
        if !plain || !path.is_file() {
            bail!("'{file}': no such file: {}", path.display());
        }
    }
    Ok(Step { patch, overlay })
}

/// The paths that a patch adds, changes or removes.
fn touched_by(patch: &str) -> BTreeSet<String> {
    let mut touched = BTreeSet::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(old) = line.strip_prefix("--- ") else {
            continue;
        };
        // A removed line may begin like this too, but then no "+++ " follows
        // with a path.
        let Some(new) = lines.peek().and_then(|next| next.strip_prefix("+++ ")) else {
            continue;
        };
        for (name, prefix) in [(old, "a/"), (new, "b/")] {
            if let Some(path) = name.strip_prefix(prefix) {
                touched.insert(path.trim_end().to_string());
            }
        }
    }
    touched
}

fn read_series(base: Base, files: &KernelDir) -> Result<(PathBuf, String)> {
    let path = files.path().join(base.name()).join("series");
    let text = read(&path)?;
    Ok((path, text))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, hook};
    use std::process::Command;

    fn git(dir: &Path, args: &[&str]) -> String {
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

    fn export(lab: &Lab, dir: &Path) -> Vec<PathBuf> {
        let series = lab.series();
        let original = lab.tree().originals(&series.touched().unwrap()).unwrap();
        series
            .export(&lab.source.to_string(), &original, &ada(), dir)
            .unwrap()
    }

    #[test]
    fn touched_files_are_found_and_message_text_is_not() {
        let patch = "a subject\n\n--- not a file\n---\n--- a/mm/x.c\n+++ b/mm/x.c\n@@ -1 +1 @@\n\
                     --- gone\n+here\n--- /dev/null\n+++ b/mm/new.c\n";
        let touched: Vec<_> = touched_by(patch).into_iter().collect();
        assert_eq!(touched, ["mm/new.c", "mm/x.c"]);
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
        tree.switch(Some(&lab.series())).unwrap();
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
        let hash = || lab.series().hash().unwrap();
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
    fn a_part_ends_at_the_line_that_names_its_variant() {
        let lab = Lab::new();
        let part = || Series::load_part(Base::V7_3, &lab.files, Variant::FixedContpte);
        let error = format!("{:#}", part().unwrap_err());
        assert!(
            error.contains("'# variant fixed-contpte: the steps"),
            "{error}"
        );
        lab.write_series(
            "# variant fixed-contpte: the steps up to here\n0001-hook.patch + mm/leaf.c\n",
        );
        assert!(part().unwrap().steps().is_empty());
        assert_eq!(lab.series().steps().len(), 1);
    }

    #[test]
    fn each_part_of_the_real_series_goes_on_from_the_one_before() {
        let files = KernelDir::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel"));
        let files = files.unwrap();
        let parts = Variant::ALL
            .iter()
            .filter(|variant| !matches!(variant, Variant::Pristine | Variant::Patched));
        for &base in Base::ALL {
            let mut before = 0;
            for &part in parts.clone() {
                let steps = Series::load_part(base, &files, part).unwrap().steps().len();
                assert!(
                    steps > before,
                    "{base} {part}: {steps} steps after {before}"
                );
                before = steps;
            }
            assert!(
                Series::load(base, &files).unwrap().steps().len() > before,
                "{base}"
            );
        }
    }

    #[test]
    fn a_planted_fault_is_the_last_step_and_changes_the_hash() {
        let lab = Lab::new();
        let mut series = lab.series();
        let (steps, hash) = (series.steps().len(), series.hash().unwrap());
        let error = series.plant("flood").unwrap_err().to_string();
        assert!(error.contains("no fault 'flood'"), "{error}");
        let folder = lab.files.path().join("planted").join(series.base().name());
        fs::create_dir_all(&folder).unwrap();
        fs::copy(&series.steps()[0].patch, folder.join("drought.patch")).unwrap();
        let error = series.plant("flood").unwrap_err().to_string();
        assert!(error.contains("drought"), "{error}");
        series.plant("drought").unwrap();
        assert_eq!(series.steps().len(), steps + 1);
        assert_ne!(series.hash().unwrap(), hash);
        let mut alone = Series::empty(series.base(), &lab.files);
        alone.plant("drought").unwrap();
        assert_eq!(alone.steps(), &series.steps()[steps..]);
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
            let error = Series::load(Base::V7_3, &lab.files).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{text}: {error:#}");
        }
    }
}
