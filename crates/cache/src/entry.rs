// SPDX-License-Identifier: GPL-2.0-only
//! One entry: a folder with a manifest.

use crate::key::{Key, hash_file};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";

/// Entries per kind, as [`crate::Cache::list`] gives them.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entry's kind, such as `kernel`.
    pub kind: String,
    /// The entry's folder.
    pub path: PathBuf,
    /// Bytes its files take.
    pub bytes: u64,
    /// When it was last used.
    pub used: std::time::SystemTime,
}

/// A finished entry whose files were just checked against their hashes.
#[derive(Clone, Debug)]
pub struct Entry {
    dir: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    /// The key's inputs, for whoever wonders what this folder is.
    inputs: BTreeMap<String, String>,
    /// File name to BLAKE3 hash.
    files: BTreeMap<String, String>,
}

impl Entry {
    /// The entry's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a file in the entry.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Opens a finished entry; a damaged one counts as none, but stays until
    /// the holder of its lock replaces it in [`Entry::build`].
    pub(crate) fn open(dir: &Path) -> Option<Self> {
        verify(dir).ok()?;
        // The manifest's time says when the entry was last used; a read-only
        // cache still serves.
        let _ = fs::File::options()
            .append(true)
            .open(dir.join(MANIFEST))
            .and_then(|file| file.set_modified(std::time::SystemTime::now()));
        Some(Self { dir: dir.into() })
    }

    /// Builds an entry; the caller holds its lock.
    pub(crate) fn build(
        dir: &Path,
        key: &Key,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let kind = dir.parent().context("an entry has a parent folder")?;
        let prefix = format!(".{}.", key.id());
        fs::create_dir_all(kind).with_context(|| format!("cannot create {}", kind.display()))?;
        remove_stale(kind, &prefix)?;
        remove_damaged(dir)?;
        let tmp = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(kind)
            .with_context(|| format!("cannot create a folder in {}", kind.display()))?;
        fill(tmp.path())?;
        seal(tmp.path(), key)?;
        fs::rename(tmp.path(), dir)
            .with_context(|| format!("cannot rename to {}", dir.display()))?;
        // It has moved: there is nothing left to remove.
        let _ = tmp.keep();
        Ok(Self { dir: dir.into() })
    }
}

/// Removes the entry that made this build necessary, if there is one.
fn remove_damaged(dir: &Path) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    if let Err(error) = verify(dir) {
        eprintln!("wideleaf: cache: {error:#}: building it anew");
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Removes what killed builds of this entry left.
fn remove_stale(kind: &Path, prefix: &str) -> Result<()> {
    for item in fs::read_dir(kind)? {
        let path = item?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(prefix) {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Writes the manifest, data first: after a power failure a manifest never
/// vouches for files that were not written.
fn seal(dir: &Path, key: &Key) -> Result<()> {
    let mut files = BTreeMap::new();
    for item in fs::read_dir(dir)? {
        let item = item?;
        let name = item.file_name().to_string_lossy().into_owned();
        if !item.file_type()?.is_file() {
            bail!("{name}: cache entries hold plain files only");
        }
        fs::File::open(item.path())?.sync_all()?;
        files.insert(name, hash_file(&item.path())?);
    }
    let manifest = Manifest {
        inputs: key.inputs().clone(),
        files,
    };
    let path = dir.join(MANIFEST);
    fs::write(&path, serde_json::to_string_pretty(&manifest)?)
        .and_then(|()| fs::File::open(&path)?.sync_all())
        .with_context(|| format!("cannot write {}", path.display()))
}

fn verify(dir: &Path) -> Result<()> {
    for (name, expected) in &manifest(dir)?.files {
        if hash_file(&dir.join(name))? != *expected {
            bail!(
                "{}: content differs from what was built",
                dir.join(name).display()
            );
        }
    }
    Ok(())
}

fn manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join(MANIFEST);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}: damaged", path.display()))
}

/// Every finished entry below the cache folder `root`.
pub(crate) fn list(root: &Path) -> Result<Vec<Listed>> {
    let mut listed = Vec::new();
    let entries = root.join("entries");
    if !entries.exists() {
        return Ok(listed);
    }
    for kind in fs::read_dir(&entries)? {
        let kind = kind?;
        for item in fs::read_dir(kind.path())? {
            let path = item?.path();
            let Ok(meta) = fs::metadata(path.join(MANIFEST)) else {
                continue;
            };
            let bytes = fs::read_dir(&path)?
                .filter_map(|file| file.ok()?.metadata().ok())
                .map(|meta| meta.len())
                .sum();
            listed.push(Listed {
                kind: kind.file_name().to_string_lossy().into_owned(),
                path,
                bytes,
                used: meta.modified()?,
            });
        }
    }
    Ok(listed)
}
