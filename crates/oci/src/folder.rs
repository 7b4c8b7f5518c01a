// SPDX-License-Identifier: GPL-2.0-only
//! A folder in the OCI image layout. New blobs lie beside the old ones, unused, until a new
//! index.json takes the place of the old one.

use crate::Error;
use crate::digest::{Digest, Hashing};
use crate::files::{DOCKER, Fill, INDEX, Naming, Opened, lock, open_regular, take_rights};
use nix::fcntl::Flock;
use serde_json::Value;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use wideleaf_kit::fresh::{Fresh, sync_folder};

/// Says that a folder is a layout, and of which version.
const LAYOUT: &str = "oci-layout";

/// A folder in the OCI image layout.
pub(crate) struct Folder {
    path: PathBuf,
    /// Its name in messages.
    shown: PathBuf,
    /// index.json as it was.
    index: Vec<u8>,
    rights: Metadata,
    _lock: Flock<File>,
}

impl Folder {
    /// A copy of the layout that users know as `original`.
    pub(crate) fn open_copy(path: &Path, original: &Path) -> Result<Folder, Error> {
        Ok(Folder {
            shown: original.to_owned(),
            ..Folder::open_at(path)?
        })
    }

    pub(crate) fn open_at(path: &Path) -> Result<Folder, Error> {
        let at = path.display().to_string();
        let folder = File::open(path).map_err(Error::io(&at, "cannot open"))?;
        let lock = lock(folder, path)?;
        let version = match fs::read(path.join(LAYOUT)) {
            Ok(version) => version,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_layout(path)),
            Err(error) => return Err(Error::io(named(path, LAYOUT), "cannot read")(error)),
        };
        check_version(&named(path, LAYOUT), &version)?;
        let at = named(path, INDEX);
        let (mut file, rights) =
            open_regular(&path.join(INDEX)).map_err(|error| match error.kind() {
                ErrorKind::NotFound => Error::Missing {
                    at: at.clone(),
                    by: named(path, LAYOUT),
                },
                _ => Error::io(&at, "cannot open")(error),
            })?;
        let mut index = Vec::new();
        let read = file.read_to_end(&mut index);
        read.map_err(Error::io(&at, "cannot read"))?;
        Ok(Folder {
            path: path.to_owned(),
            shown: path.to_owned(),
            index,
            rights,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file's name in messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        self.shown.join(name).display().to_string()
    }

    pub(crate) fn open(&self, name: &str) -> Result<Option<Opened<'_>>, Error> {
        match open_regular(&self.path(name)) {
            Ok((file, metadata)) => Ok(Some((Box::new(file), metadata.len()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(self.shown(name), "cannot open")(error)),
        }
    }

    pub(crate) fn put(&mut self, name: &Naming, fill: &mut Fill) -> Result<(Digest, u64), Error> {
        let sample = self.path(&name(&Digest::of(b"")));
        let at = sample.display().to_string();
        if let Some(parent) = sample.parent() {
            fs::create_dir_all(parent).map_err(Error::io(&at, "cannot create its folder"))?;
        }
        let fresh = Fresh::beside(&sample).map_err(Error::io(&at, "cannot create it"))?;
        let mut out = Hashing::new(BufWriter::new(fresh.file()));
        fill(&mut out)?;
        out.flush().map_err(Error::io(&at, "cannot write it"))?;
        let (digest, size, _) = out.finish();
        let path = self.path(&name(&digest));
        let at = path.display().to_string();
        take_rights(&self.rights, fresh.file()).map_err(Error::io(&at, "cannot set its mode"))?;
        let named = fresh.replace(&path);
        named.map_err(|failed| Error::io(at, "cannot write it")(failed.error))?;
        Ok((digest, size))
    }

    pub(crate) fn commit(self, documents: &[(&str, Vec<u8>)]) -> Result<(), Error> {
        for (name, bytes) in documents {
            let path = self.path(name);
            let at = path.display().to_string();
            let now = fs::read(&path).map_err(Error::io(&at, "cannot read"))?;
            if *name == INDEX && now != self.index {
                return Err(Error::Changed(at));
            }
            let fresh = Fresh::beside(&path).map_err(Error::io(&at, "cannot write"))?;
            let written = fresh.file().write_all(bytes);
            written.map_err(Error::io(&at, "cannot write"))?;
            take_rights(&self.rights, fresh.file())
                .map_err(Error::io(&at, "cannot set its mode"))?;
            let named = fresh.replace(&path);
            named.map_err(|failed| Error::io(at, "cannot replace")(failed.error))?;
        }
        Ok(())
    }
}

fn named(path: &Path, name: &str) -> String {
    path.join(name).display().to_string()
}

/// Says which other thing the folder is.
fn no_layout(path: &Path) -> Error {
    let is = |name: &str| path.join(name).exists();
    let why = match () {
        () if is(DOCKER) && is("version") => {
            "is no OCI layout but a folder of skopeo's dir: transport: copy it to one by \
             `skopeo copy dir:OLD oci:NEW:TAG`"
        }
        () if is("usr") || is("bin") => {
            "is no OCI layout (it has no file oci-layout) but a root file system: align it by -r"
        }
        () => "is no OCI layout: it has no file oci-layout",
    };
    Error::NotImages {
        at: path.display().to_string(),
        why: why.to_owned(),
    }
}

/// Whether this is how layouts of a version that is known are marked.
pub(crate) fn check_version(at: &str, bytes: &[u8]) -> Result<(), Error> {
    let json = serde_json::from_slice::<Value>(bytes);
    let json = json.map_err(|error| Error::Json {
        at: at.to_owned(),
        error,
    })?;
    let version = json["imageLayoutVersion"].as_str();
    match version.is_some_and(|version| version.starts_with("1.")) {
        true => Ok(()),
        false => {
            let value = json["imageLayoutVersion"].to_string();
            Err(Error::field(at, "imageLayoutVersion", value, "1.0.0"))
        }
    }
}

/// Copies a layout's files, all of them, to the folder `to`, which does not exist.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let at = |path: &Path| path.display().to_string();
    fs::create_dir(to).map_err(Error::io(at(to), "cannot create"))?;
    let entries = fs::read_dir(from).map_err(Error::io(at(from), "cannot read"))?;
    for entry in entries {
        let entry = entry.map_err(Error::io(at(from), "cannot read"))?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        let kind = old.metadata();
        match kind.map_err(Error::io(at(&old), "cannot read"))?.is_dir() {
            true => copy(&old, &new)?,
            false => copy_file(&old, &new).map_err(Error::io(at(&old), "cannot copy"))?,
        }
    }
    sync_folder(to);
    Ok(())
}

fn copy_file(old: &Path, new: &Path) -> io::Result<()> {
    open_regular(old)?;
    fs::copy(old, new)?;
    File::open(new)?.sync_all()
}
