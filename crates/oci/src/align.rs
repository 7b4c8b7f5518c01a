// SPDX-License-Identifier: GPL-2.0-only
//! Aligns all images of a layout or archive, start to end.

use crate::files::{DOCKER, INDEX};
use crate::folder;
use crate::layout::Walk;
use crate::store::Store;
use crate::{Error, Options, Report, docker};
use std::fs;
use std::path::Path;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::fresh;
use wideleaf_kit::scratch::{Scratch, sweep};

/// How the names of temporary folders begin.
const KIND: &str = "wideleaf-oci";

/// Aligns the images at `path`: an OCI layout's folder, or an archive of images. The result takes
/// its place, or goes to `output`.
///
/// # Errors
///
/// Why nothing was changed.
pub fn align(
    path: &Path,
    output: Option<&Path>,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Report, Error> {
    let scratch = scratch(&std::env::temp_dir())?;
    let files = scratch.join("files");
    fs::create_dir(&files).map_err(Error::io(files.display().to_string(), "cannot create"))?;
    let store = Store::open_at(path)?;
    let output = output.filter(|_| !options.align.dry_run);
    match (store, output) {
        (store, None) => images(store, false, options, &files, observer),
        (Store::Archive(archive), Some(output)) => {
            check_other(path, output)?;
            let store = Store::Archive(archive.to(output));
            images(store, true, options, &files, observer)
        }
        // It stays locked.
        (_original @ Store::Folder(_), Some(output)) => {
            if output.symlink_metadata().is_ok() {
                return Err(Error::Exists(output.display().to_string()));
            }
            observer.event(Event::Step("copying the layout"));
            let beside = self::scratch(&fresh::folder(output))?;
            let copy = beside.join("layout");
            folder::copy(path, &copy)?;
            let store = folder::Folder::open_copy(&copy, path).map(Store::Folder)?;
            let report = images(store, false, options, &files, observer)?;
            let at = output.display().to_string();
            fs::rename(&copy, output).map_err(Error::io(at, "cannot create"))?;
            fresh::sync_folder(&fresh::folder(output));
            Ok(report)
        }
    }
}

/// A temporary folder; those of runs that were killed go.
fn scratch(parent: &Path) -> Result<Scratch, Error> {
    sweep(parent, KIND);
    let at = parent.display().to_string();
    Scratch::new(parent, KIND).map_err(Error::io(at, "cannot create a folder in it"))
}

/// An archive may replace another one, but not be written over while it is read.
fn check_other(path: &Path, output: &Path) -> Result<(), Error> {
    let same = |path: &Path| path.canonicalize().ok();
    let why = match () {
        () if same(output).is_some() && same(output) == same(path) => {
            "is the archive itself: without -o it is replaced in one step"
        }
        () if output.exists() && !output.is_file() => "is no regular file",
        () => return Ok(()),
    };
    Err(Error::NotImages {
        at: output.display().to_string(),
        why: why.to_owned(),
    })
}

/// Aligns the images of a store. With `always` it is written anew even if nothing changes.
fn images(
    mut store: Store,
    always: bool,
    options: &Options,
    files: &Path,
    observer: &dyn Observer,
) -> Result<Report, Error> {
    let (is_layout, is_docker) = (store.has(INDEX), is_docker(&store));
    let mut walk = Walk::new(&mut store, options, files, observer);
    let mut documents = Vec::new();
    if is_layout {
        let index = walk.all()?;
        documents.extend(index.map(|bytes| (INDEX, bytes)));
    }
    let (configs, mut report) = (walk.configs, walk.report);
    if is_docker {
        let new = docker::all(&mut store, options, files, observer, &configs, &mut report)?;
        documents.extend(new.map(|bytes| (DOCKER, bytes)));
    }
    if report.images.is_empty() {
        let left = report
            .left
            .iter()
            .map(|left| format!("{} {}", left.digest, left.reason));
        let left: Vec<String> = left.collect();
        let why = match left.is_empty() {
            true => "holds no image".to_owned(),
            false => format!("holds no image to align: {}", left.join("; ")),
        };
        return Err(Error::NotImages {
            at: store.path(if is_layout { INDEX } else { DOCKER }),
            why,
        });
    }
    if always || !documents.is_empty() {
        store.commit(&documents)?;
    }
    Ok(report)
}

/// Only an archive is read as one of `docker save`.
fn is_docker(store: &Store) -> bool {
    matches!(store, Store::Archive(_)) && store.has(DOCKER)
}
