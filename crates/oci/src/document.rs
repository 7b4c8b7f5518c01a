// SPDX-License-Identifier: GPL-2.0-only
//! Indexes, manifests and configurations: JSON of which only some fields matter here. They are kept
//! as values, not as types, so that fields that nobody here knows stay as they are.

use crate::Error;
use crate::digest::{Digest, Hashing};
use crate::store::Store;
use serde_json::Value;
use std::io;

/// Where content is: its type, digest and size.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

impl Descriptor {
    /// From the field `field` of the file `at`.
    pub(crate) fn parse(at: &str, field: &str, value: &Value) -> Result<Descriptor, Error> {
        let part = |name: &str| format!("{field}.{name}");
        let digest = text(at, &part("digest"), &value["digest"])?;
        let size = &value["size"];
        Ok(Descriptor {
            media_type: text(at, &part("mediaType"), &value["mediaType"])?.to_owned(),
            digest: Digest::parse(at, &part("digest"), digest)?,
            size: size
                .as_u64()
                .ok_or_else(|| Error::field(at, part("size"), size.to_string(), "a number"))?,
        })
    }

    /// The JSON that it points to, which is what digest and size say.
    pub(crate) fn read(&self, store: &Store, by: &str) -> Result<Value, Error> {
        let name = self.digest.blob();
        let at = store.path(&name);
        let bytes = store.read(&name, by)?;
        if bytes.len() as u64 != self.size {
            return Err(Error::Size {
                at,
                by: by.to_owned(),
                expected: self.size,
                found: bytes.len() as u64,
            });
        }
        let mut hashing = Hashing::like(&bytes[..], &self.digest);
        io::copy(&mut hashing, &mut io::sink()).map_err(Error::io(&at, "cannot read"))?;
        match hashing.finish().0 {
            found if found == self.digest => parse(&at, &bytes),
            found => Err(Error::Digest {
                at,
                by: by.to_owned(),
                expected: self.digest.to_string(),
                found: found.to_string(),
            }),
        }
    }
}

/// A JSON document, the file `at`.
pub(crate) fn parse(at: &str, bytes: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Json {
        at: at.to_owned(),
        error,
    })
}

/// A document as bytes, the same for the same content.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("what was parsed can be written")
}

/// A field that has to be text.
pub(crate) fn text<'v>(at: &str, field: &str, value: &'v Value) -> Result<&'v str, Error> {
    let wrong = || Error::field(at, field, shown(value), "text");
    value.as_str().ok_or_else(wrong)
}

/// A field that has to be a list.
pub(crate) fn list<'v>(at: &str, field: &str, value: &'v Value) -> Result<&'v Vec<Value>, Error> {
    let wrong = || Error::field(at, field, shown(value), "a list");
    value.as_array().ok_or_else(wrong)
}

/// A value in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "missing".to_owned(),
        value => value.to_string(),
    }
}

/// Has a descriptor point to other content. Its annotations and platform stay.
pub(crate) fn point(descriptor: &mut Value, digest: &Digest, size: u64) {
    descriptor["digest"] = digest.to_string().into();
    descriptor["size"] = size.into();
    if let Some(fields) = descriptor.as_object_mut() {
        // The old content itself, and where to fetch it.
        fields.remove("data");
        fields.remove("urls");
    }
}
