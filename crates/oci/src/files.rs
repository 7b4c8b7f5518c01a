// SPDX-License-Identifier: GPL-2.0-only
//! The ground that folders and archives of images stand on: names, and how files are opened, locked
//! and written.

use crate::Error;
use crate::digest::Digest;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Gid, Uid};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The document that names the images of a layout.
pub(crate) const INDEX: &str = "index.json";
/// The same of an archive of `docker save`.
pub(crate) const DOCKER: &str = "manifest.json";

/// Writes a new file's content.
pub(crate) type Fill<'f> = dyn FnMut(&mut dyn Write) -> Result<(), Error> + 'f;
/// Gives a new file its name.
pub(crate) type Naming<'n> = dyn Fn(&Digest) -> String + 'n;
/// An open file of a store, and its size.
pub(crate) type Opened<'s> = (Box<dyn Read + 's>, u64);

/// Opens what should be a regular file, and waits for no FIFO.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), io::Error> {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata)),
        false => Err(io::Error::other("is no regular file")),
    }
}

/// Keeps other processes of this kind away for as long as the value lives.
pub(crate) fn lock(file: File, path: &Path) -> Result<Flock<File>, Error> {
    let at = || path.display().to_string();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        nix::errno::Errno::EWOULDBLOCK => Error::Locked(at()),
        errno => Error::io(at(), "cannot lock")(errno),
    })
}

/// Gives a new file the owner, as far as this user may, and the mode of an old one.
pub(crate) fn take_rights(old: &Metadata, new: &File) -> io::Result<()> {
    let now = new.metadata()?;
    if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
        let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
        let _ = nix::unistd::fchown(new, Some(uid), Some(gid));
    }
    new.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}
