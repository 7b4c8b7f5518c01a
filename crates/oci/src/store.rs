// SPDX-License-Identifier: GPL-2.0-only
//! A store of images: a folder in the OCI layout, or a tar archive. Existing files are only read.
//! New ones are written whole; then one rename makes them count.

use crate::Error;
use crate::archive::Archive;
use crate::digest::Digest;
use crate::files::{Fill, Naming, Opened};
use crate::folder::Folder;
use std::io::Read;
use std::path::Path;

/// Indexes, manifests and configurations are smaller: more is not read into memory.
const MAX_DOCUMENT: u64 = 16 << 20;

/// A folder or an archive.
pub(crate) enum Store {
    Folder(Folder),
    Archive(Archive),
}

impl Store {
    /// The images at `path`, which other processes of this kind then leave alone.
    pub(crate) fn open_at(path: &Path) -> Result<Store, Error> {
        let at = path.display().to_string();
        let metadata = path.metadata().map_err(Error::io(&at, "cannot open"))?;
        match metadata.is_dir() {
            true => Folder::open_at(path).map(Store::Folder),
            false => Archive::open_at(path).map(Store::Archive),
        }
    }

    /// A file's name in messages.
    pub(crate) fn path(&self, name: &str) -> String {
        match self {
            Store::Folder(folder) => folder.shown(name),
            Store::Archive(archive) => format!("{}: {name}", archive.path().display()),
        }
    }

    /// Whether it has a file of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Store::Folder(folder) => folder.path(name).exists(),
            Store::Archive(archive) => archive.has(name),
        }
    }

    /// A file that `by` names, and its size.
    pub(crate) fn open(&self, name: &str, by: &str) -> Result<Opened<'_>, Error> {
        let found = match self {
            Store::Folder(folder) => folder.open(name)?,
            Store::Archive(archive) => archive.open(name)?,
        };
        found.ok_or_else(|| Error::Missing {
            at: self.path(name),
            by: by.to_owned(),
        })
    }

    /// A small file that `by` names.
    pub(crate) fn read(&self, name: &str, by: &str) -> Result<Vec<u8>, Error> {
        let at = self.path(name);
        let (reader, size) = self.open(name, by)?;
        if size > MAX_DOCUMENT {
            let size = format!("{size} bytes");
            return Err(Error::field(&at, "its size", size, "at most 16M"));
        }
        let mut bytes = Vec::new();
        let mut reader = reader.take(MAX_DOCUMENT);
        let read = reader.read_to_end(&mut bytes);
        read.map_err(Error::io(&at, "cannot read"))?;
        Ok(bytes)
    }

    /// Adds a file, named by its digest. Nothing refers to it yet.
    pub(crate) fn put(&mut self, name: &Naming, fill: &mut Fill) -> Result<(Digest, u64), Error> {
        match self {
            Store::Folder(folder) => folder.put(name, fill),
            Store::Archive(archive) => archive.put(name, fill),
        }
    }

    /// Makes new what these files say, in one step.
    pub(crate) fn commit(self, documents: &[(&str, Vec<u8>)]) -> Result<(), Error> {
        match self {
            Store::Folder(folder) => folder.commit(documents),
            Store::Archive(archive) => archive.commit(documents),
        }
    }
}
