// SPDX-License-Identifier: GPL-2.0-only
//! Reads a layer, and holds it against what manifest and configuration say of it.

use crate::Error;
use crate::decode::Compression;
use crate::digest::{Digest, Hashing};
use crate::members::{Member, Members, Stream, broken};
use crate::store::Store;
use std::io::{self, Read};

impl<R: Read> Stream for Hashing<R> {}

/// A layer of an image.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The file in the store.
    pub(crate) name: String,
    pub(crate) compression: Compression,
    /// Digest and size of the file, where something says them.
    pub(crate) blob: Option<(Digest, u64)>,
    /// Which file names it.
    pub(crate) by: String,
    /// The digest of the archive in it, and which file says so.
    pub(crate) diff_id: (Digest, String),
}

/// Takes a layer's name in messages, a member, and its content.
pub(crate) type Visit<'v> = dyn FnMut(&str, &Member, &mut dyn Read) -> Result<(), Error> + 'v;

impl Layer {
    /// Calls `visit` with each member, in order. The caller uses the result only if this succeeds,
    /// for digests are known at the end.
    pub(crate) fn read(&self, store: &Store, visit: &mut Visit) -> Result<(), Error> {
        let at = store.path(&self.name);
        let (reader, size) = store.open(&self.name, &self.by)?;
        if let Some((_, expected)) = &self.blob
            && *expected != size
        {
            return Err(Error::Size {
                at,
                by: self.by.clone(),
                expected: *expected,
                found: size,
            });
        }
        let by = self.blob.as_ref().map(|(digest, _)| digest);
        let mut packed = Hashing::like(reader, by.unwrap_or(&self.diff_id.0));
        let found = self.unpack(&at, &mut packed, visit);
        if let Some((expected, _)) = &self.blob {
            // Whatever went wrong inside, that comes first.
            io::copy(&mut packed, &mut io::sink()).map_err(Error::io(&at, "cannot read"))?;
            check(&at, &self.by, expected, packed.finish().0)?;
        }
        check(&at, &self.diff_id.1, &self.diff_id.0, found?)
    }

    /// The digest of the archive in it.
    fn unpack(&self, at: &str, packed: impl Read, visit: &mut Visit) -> Result<Digest, Error> {
        let plain = Hashing::like(self.compression.decode(packed), &self.diff_id.0);
        let mut members = Members::new(at, plain);
        while let Some(member) = members.next()? {
            visit(at, &member, &mut members)?;
        }
        let mut plain = members.into_stream();
        io::copy(&mut plain, &mut io::sink()).map_err(broken(at))?;
        Ok(plain.finish().0)
    }
}

fn check(at: &str, by: &str, expected: &Digest, found: Digest) -> Result<(), Error> {
    match found == *expected {
        true => Ok(()),
        false => Err(Error::Digest {
            at: at.to_owned(),
            by: by.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }),
    }
}
