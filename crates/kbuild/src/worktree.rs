// SPDX-License-Identifier: GPL-2.0-only
//! The unpacked source of one base and version.
//!
//! There is one source path per version, because object files remember it.
//! The tree is switched between pristine and patched in place, and a switch
//! writes only files whose content changes, so that make rebuilds no more.
//!
//! `tree.json` is written last when a tree is unpacked: a tree without it is
//! not complete. From then on it is the journal of switches. A file's path is
//! in it, and its pristine content in `originals/`, before the file itself is
//! written for the first time; so whatever an interrupted switch left, the
//! next one knows the right content of every file that can be wrong.

use crate::place::{Place, TREE_BYTES};
use crate::scratch::Contents;
use crate::series::Series;
use crate::source::{JOURNAL, Source};
use crate::stack::{self, Stack};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wideleaf_cache::Cache;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::replace::replace;
use wideleaf_kit::tool;

/// In a tree's folder: what files that switches changed were before.
pub(crate) const ORIGINALS: &str = "originals";

/// An unpacked source tree, held exclusively.
pub struct WorkTree {
    place: Place,
    source: Source,
    journal: Journal,
}

#[derive(Default, Serialize, Deserialize)]
struct Journal {
    /// Every path that a switch may have changed.
    touched: BTreeSet<String>,
}

impl WorkTree {
    /// Takes the tree of `source`, waiting for another run that has it, and
    /// unpacks it if that has not been done to the end.
    pub fn open(source: &Source, cache: &Cache, observer: &dyn Observer) -> Result<Self> {
        Self::open_at(&source.dir_name(), source, cache, observer)
    }

    /// The same in the place `name`, beside the usual one.
    pub(crate) fn open_at(
        name: &str,
        source: &Source,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let place = Place::take(name, &source.to_string(), cache, observer)?;
        let journal = match read_journal(&place.dir().join(JOURNAL))? {
            Some(journal) => journal,
            None => unpack(place.dir(), source, cache, observer)?,
        };
        Ok(Self {
            place,
            source: source.clone(),
            journal,
        })
    }

    /// Whether the tree of `source` is unpacked and no other run has it, so that [`Self::open`]
    /// neither waits nor works.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read.
    pub fn is_at_hand(source: &Source, cache: &Cache) -> Result<bool> {
        let name = source.dir_name();
        let journal = cache.root().join("work").join(&name).join(JOURNAL);
        Ok(journal.exists() && Place::is_free(&name, cache)?)
    }

    /// The folder that holds the tree and its object folders.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// The source tree.
    pub fn src(&self) -> PathBuf {
        self.place.src()
    }

    /// The tree as make sees it, held as before.
    pub(crate) fn into_place(self) -> Place {
        self.place
    }

    /// What was unpacked.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The pristine content of `paths`.
    pub fn originals(&self, paths: &BTreeSet<String>) -> Result<Contents> {
        paths
            .iter()
            .map(|path| Ok((path.clone(), self.original(path)?)))
            .collect()
    }

    /// What `series` finds in the files that it touches, once `ground` is applied to pristine ones.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or `ground` does not apply.
    pub fn under(&self, series: &Series, ground: &Stack) -> Result<Contents> {
        let touched = series.touched()?;
        let paths = ground.touched()?.union(&touched).cloned().collect();
        let files = ground.apply(&self.source.to_string(), &self.originals(&paths)?)?;
        Ok(stack::only(&touched, files))
    }

    /// Copies parts of the tree, as they are pristine, below the folder `into`.
    pub(crate) fn copy(&self, parts: &[&str], into: &Path) -> Result<()> {
        tool::output(
            Command::new("cp")
                .current_dir(self.src())
                .args(["-r", "--parents", "-t"])
                .arg(into)
                .args(parts),
        )?;
        for (path, content) in self.originals(&self.journal.touched)? {
            let file = into.join(&path);
            if file.exists() {
                put_plainly(&file, content.as_deref())?;
            }
        }
        Ok(())
    }

    /// Writes what `stack` makes of files below the folder `below`, into a copy of that folder.
    pub(crate) fn patch_copy(&self, stack: &Stack, below: &str, into: &Path) -> Result<()> {
        let original = self.originals(&stack.touched()?)?;
        let patched = stack.apply(&self.source.to_string(), &original)?;
        for (path, content) in patched.iter().filter(|(path, _)| path.starts_with(below)) {
            put_plainly(&into.join(path), content.as_deref())?;
        }
        Ok(())
    }

    /// Makes the tree patched with the series of `stack`, or pristine without
    /// any. A series that does not apply leaves the tree as it was.
    pub fn switch(&mut self, stack: &Stack) -> Result<()> {
        let original = self.originals(&stack.touched()?)?;
        let patched = stack.apply(&self.source.to_string(), &original)?;
        let mut wanted = self.originals(&self.journal.touched)?;
        wanted.extend(patched);
        self.keep_originals(wanted.keys())?;
        for (path, content) in &wanted {
            self.put(path, content.as_deref())?;
        }
        Ok(())
    }

    fn original(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let kept = if self.journal.touched.contains(path) {
            ORIGINALS
        } else {
            "src"
        };
        read_if_there(&self.dir().join(kept).join(path))
    }

    /// Keeps the originals of paths that no switch has touched so far, then
    /// writes the journal.
    fn keep_originals<'a>(&mut self, paths: impl Iterator<Item = &'a String>) -> Result<()> {
        let mut new = BTreeSet::new();
        for path in paths.filter(|path| !self.journal.touched.contains(*path)) {
            if let Some(content) = self.original(path)? {
                write_synced(&self.dir().join(ORIGINALS).join(path), &content)?;
            }
            new.insert(path.clone());
        }
        if new.is_empty() {
            return Ok(());
        }
        self.journal.touched.extend(new);
        write_journal(&self.dir().join(JOURNAL), &self.journal)
    }

    /// Gives a file of the tree this content; `None` removes it. A file that
    /// has it already keeps its time, and one that has another its mode.
    fn put(&self, path: &str, content: Option<&[u8]>) -> Result<()> {
        let file = self.src().join(path);
        if read_if_there(&file)?.as_deref() == content {
            return Ok(());
        }
        match content {
            None => fs::remove_file(&file),
            Some(content) => {
                let new = self.dir().join("switch.tmp");
                write_synced(&new, content)?;
                fs::create_dir_all(file.parent().context("a path has a parent")?)?;
                if let Ok(old) = fs::metadata(&file) {
                    fs::set_permissions(&new, old.permissions())?;
                }
                fs::rename(&new, &file)
            }
        }
        .with_context(|| format!("cannot change {}", file.display()))
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_synced(path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(path, content)?;
        File::open(path)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn read_journal(path: &Path) -> Result<Option<Journal>> {
    let Some(text) = read_if_there(path)? else {
        return Ok(None);
    };
    // A journal that cannot be read vouches for nothing.
    Ok(serde_json::from_slice(&text).ok())
}

fn write_journal(path: &Path, journal: &Journal) -> Result<()> {
    replace(path, serde_json::to_vec_pretty(journal)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Unpacks the tree anew. The object folders go as well: without a journal
/// nobody knows which patched files they were built from.
fn unpack(dir: &Path, source: &Source, cache: &Cache, observer: &dyn Observer) -> Result<Journal> {
    let package = source.package(cache, observer)?;
    remove_all(dir)?;
    cache.require_space(TREE_BYTES, &format!("unpacking {source}"))?;
    observer.event(Event::Step(&format!("unpacking {source}")));
    let src = dir.join("src");
    fs::create_dir_all(&src).with_context(|| format!("cannot create {}", src.display()))?;
    let tar = format!("./usr/src/{}.tar.xz", source.base.package());
    extract(&package, &tar, &src).with_context(|| {
        format!(
            "cannot unpack {} from {} to {}",
            tar,
            package.display(),
            src.display()
        )
    })?;
    // Data before the journal that vouches for it.
    nix::unistd::syncfs(File::open(&src)?).context("cannot write the tree to disk")?;
    let journal = Journal::default();
    write_journal(&dir.join(JOURNAL), &journal)?;
    Ok(journal)
}

fn remove_all(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// `dpkg-deb --fsys-tarfile PACKAGE | tar -xO TAR | tar -xJ -C SRC`
fn extract(package: &Path, tar: &str, src: &Path) -> Result<()> {
    let mut deb = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run dpkg-deb")?;
    let mut inner = Command::new("tar")
        .args(["-xOf", "-", tar])
        .stderr(Stdio::null())
        .stdin(deb.stdout.take().context("dpkg-deb without output")?)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run tar")?;
    let mut outer = Command::new("tar");
    outer
        .args(["--xz", "-xf", "-", "--strip-components=1", "-C"])
        .arg(src)
        .stdin(inner.stdout.take().context("tar without output")?);
    let unpacked = tool::output(&mut outer);
    let (deb, inner) = (deb.wait()?, inner.wait()?);
    unpacked?;
    // tar stops reading at the end of the file it was asked for, which dpkg-deb
    // takes for an error; what counts is that the inner archive was whole.
    if !inner.success() {
        bail!("{tar}: {inner} (dpkg-deb: {deb})");
    }
    Ok(())
}

/// Gives a file of a copy this content, or removes it: no other run sees a copy.
fn put_plainly(file: &Path, content: Option<&[u8]>) -> Result<()> {
    match content {
        Some(content) => fs::write(file, content),
        None => fs::remove_file(file),
    }
    .with_context(|| format!("cannot change {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, quiet};
    use std::collections::BTreeMap;
    use std::time::SystemTime;

    /// Every file of a tree: content and time.
    fn files(dir: &Path) -> BTreeMap<PathBuf, (String, SystemTime)> {
        let mut found = BTreeMap::new();
        for item in fs::read_dir(dir).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                found.extend(files(&path));
            } else {
                let time = fs::metadata(&path).unwrap().modified().unwrap();
                found.insert(path.clone(), (fs::read_to_string(&path).unwrap(), time));
            }
        }
        found
    }

    fn contents(dir: &Path) -> BTreeMap<PathBuf, String> {
        let with_times = files(dir).into_iter();
        with_times.map(|(path, (text, _))| (path, text)).collect()
    }

    #[test]
    fn patched_and_back_touches_only_what_changes() {
        let lab = Lab::new();
        let mut tree = lab.tree();
        let pristine = files(&tree.src());
        let series = lab.series();
        tree.switch(&series.clone().into()).unwrap();
        let patched = files(&tree.src());
        let src = tree.src();
        assert!(patched[&src.join("mm/filemap.c")].0.contains("wide"));
        assert!(patched.contains_key(&src.join("mm/leaf.c")));
        assert_eq!(patched[&src.join("README")], pristine[&src.join("README")]);

        tree.switch(&series.clone().into()).unwrap();
        assert_eq!(files(&src), patched, "the same switch again wrote files");

        tree.switch(&Stack::default()).unwrap();
        let back = files(&src);
        let texts = |files: &BTreeMap<PathBuf, (String, SystemTime)>| {
            files
                .iter()
                .map(|(p, (t, _))| (p.clone(), t.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(&back), texts(&pristine));
        // make must see that this file is not what it was compiled from.
        let file = src.join("mm/filemap.c");
        assert!(back[&file].1 > patched[&file].1);
    }

    #[test]
    fn a_script_stays_executable() {
        use std::os::unix::fs::PermissionsExt;
        let lab = Lab::new();
        let mut tree = lab.tree();
        let script = tree.src().join("mm/filemap.c");
        let mode = || fs::metadata(&script).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        tree.switch(&lab.series().into()).unwrap();
        assert_eq!(mode(), 0o755);
        tree.switch(&Stack::default()).unwrap();
        assert_eq!(mode(), 0o755);
    }

    #[test]
    fn a_series_that_does_not_apply_says_so_and_leaves_the_tree() {
        let lab = Lab::new();
        lab.moved_on();
        let mut tree = lab.tree();
        let before = files(&tree.src());
        let error = tree.switch(&lab.series().into()).unwrap_err();
        let text = format!("{error:#}");
        for part in [
            "7.3/0001-hook.patch",
            "linux-source-7.3 7.3.9-1",
            "mm/filemap.c:",
        ] {
            assert!(text.contains(part), "no {part} in: {text}");
        }
        assert_eq!(files(&tree.src()), before);
    }

    #[test]
    fn a_copy_is_pristine_whatever_the_tree_is() {
        let lab = Lab::new();
        let mut tree = lab.tree();
        tree.switch(&lab.series().into()).unwrap();
        let into = tempfile::tempdir().unwrap();
        tree.copy(&["mm"], into.path()).unwrap();
        let text = fs::read_to_string(into.path().join("mm/filemap.c")).unwrap();
        assert!(!text.contains("wide"), "{text}");
        assert!(!into.path().join("mm/leaf.c").exists());
        assert!(!into.path().join("README").exists());
    }

    #[test]
    fn a_folder_of_a_copy_is_patched_and_nothing_else() {
        let lab = Lab::new();
        lab.overlay("tests/leaf.c", "int main(void) { return 5; }\n");
        lab.write_series("0001-hook.patch + mm/leaf.c tests/leaf.c");
        let tree = lab.tree();
        let into = tempfile::tempdir().unwrap();
        tree.copy(&["mm"], into.path()).unwrap();
        fs::create_dir(into.path().join("tests")).unwrap();
        let stack = lab.series().into();
        tree.patch_copy(&stack, "tests/", into.path()).unwrap();
        let read = |path| fs::read_to_string(into.path().join(path));
        assert!(read("tests/leaf.c").unwrap().contains("return 5"));
        assert!(!read("mm/filemap.c").unwrap().contains("wide"));
        assert!(read("mm/leaf.c").is_err());
    }

    #[test]
    fn an_overlay_file_must_be_new() {
        let lab = Lab::new();
        lab.overlay("README", "ours");
        lab.write_series("0001-hook.patch + README");
        let error = lab.tree().switch(&lab.series().into()).unwrap_err();
        assert!(
            error.to_string().contains("has a file of that name"),
            "{error:#}"
        );
    }

    #[test]
    fn an_interrupted_switch_is_repaired_by_the_next() {
        let lab = Lab::new();
        let mut tree = lab.tree();
        let pristine = contents(&tree.src());
        tree.switch(&lab.series().into()).unwrap();
        // The power failed after one of the files.
        let file = tree.src().join("mm/filemap.c");
        fs::write(&file, "half").unwrap();
        fs::remove_file(tree.src().join("mm/leaf.c")).unwrap();
        drop(tree);
        let mut tree = lab.tree();
        tree.switch(&Stack::default()).unwrap();
        assert_eq!(contents(&tree.src()), pristine);
        tree.switch(&lab.series().into()).unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("wide"));
    }

    #[test]
    fn a_file_that_a_former_series_touched_is_reverted() {
        let lab = Lab::new();
        let mut tree = lab.tree();
        let pristine = contents(&tree.src());
        tree.switch(&lab.series().into()).unwrap();
        lab.write_series("");
        tree.switch(&lab.series().into()).unwrap();
        assert_eq!(contents(&tree.src()), pristine);
    }

    #[test]
    fn an_interrupted_unpack_is_redone_and_a_whole_one_is_not() {
        let lab = Lab::new();
        let src = lab.tree().src();
        let whole = contents(&src);
        fs::write(src.join("mark"), "").unwrap();
        assert!(lab.tree().src().join("mark").exists(), "unpacked again");
        // What is left when it is cut off: some files, and no journal.
        fs::remove_file(src.join("mm/filemap.c")).unwrap();
        fs::remove_file(src.parent().unwrap().join(JOURNAL)).unwrap();
        assert_eq!(contents(&lab.tree().src()), whole);
    }

    #[test]
    fn a_damaged_package_is_an_error_and_no_tree() {
        let lab = Lab::with_package(b"this is no package");
        let error = WorkTree::open(&lab.source, &lab.cache, &quiet)
            .err()
            .unwrap();
        let text = format!("{error:#}");
        assert!(text.contains("cannot unpack"), "{text}");
        assert!(WorkTree::open(&lab.source, &lab.cache, &quiet).is_err());
    }
}
