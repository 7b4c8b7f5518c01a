// SPDX-License-Identifier: GPL-2.0-only
//! Writes the new layer: a tar archive of the aligned files and the folders that they are in, with
//! all that the image says of these. Nothing in it depends on when or where it is written.

use crate::Error;
use crate::members::{Records, number};
use crate::tree::{Meta, Tree};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use tar::{Builder, EntryType, Header};

/// Records that are about the bytes in the archive, and written anew.
const OWN: [&[u8]; 4] = [b"path", b"linkpath", b"size", b"hdrcharset"];
/// Attributes that are wrong for other content.
pub(crate) const SIGNATURES: [&[u8]; 2] =
    [b"SCHILY.xattr.security.ima", b"SCHILY.xattr.security.evm"];
/// Attributes of folders by which overlayfs would hide what is below.
const OVERLAY: [&[u8]; 2] = [
    b"SCHILY.xattr.trusted.overlay.",
    b"SCHILY.xattr.user.overlay.",
];
/// The largest number that seven octal digits hold.
const MAX_ID: u64 = 0o7_777_777;

/// A file for the new layer.
pub(crate) struct Changed<'m> {
    /// Its names, in order.
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) meta: &'m Meta,
    /// Its new content.
    pub(crate) content: PathBuf,
}

/// Writes the archive. `epoch` is the latest time that a file may have.
pub(crate) fn write(
    files: &[Changed],
    tree: &Tree,
    epoch: Option<u64>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut builder = Builder::new(out);
    let mut folders = BTreeSet::new();
    for file in files {
        for (number, name) in file.names.iter().enumerate() {
            for (folder, meta) in tree.folders(name) {
                if !folders.contains(&folder) {
                    let entry = Entry::new(&folder, meta, epoch, EntryType::Directory)?;
                    entry.write(&mut builder, 0, &mut io::empty())?;
                    folders.insert(folder);
                }
            }
            match number {
                0 => {
                    let entry = Entry::new(name, file.meta, epoch, EntryType::Regular)?;
                    let at = file.content.display().to_string();
                    let content = File::open(&file.content);
                    let mut content = content.map_err(Error::io(&at, "cannot open"))?;
                    let size = content.metadata().map_err(Error::io(&at, "cannot read"))?;
                    entry.write(&mut builder, size.len(), &mut content)?;
                }
                _ => {
                    let mut entry = Entry::new(name, file.meta, epoch, EntryType::Link)?;
                    entry.link(&file.names[0]);
                    entry.write(&mut builder, 0, &mut io::empty())?;
                }
            }
        }
    }
    builder.into_inner().map_err(broken).map(drop)
}

fn broken(error: io::Error) -> Error {
    Error::io("the new layer", "cannot write")(error)
}

/// A header and the records before it.
struct Entry {
    name: Vec<u8>,
    header: Header,
    records: Vec<(String, Vec<u8>)>,
}

impl Entry {
    fn new(name: &[u8], meta: &Meta, epoch: Option<u64>, kind: EntryType) -> Result<Entry, Error> {
        let wrong = |what: &str| {
            let why = format!("its {what} cannot be kept");
            Error::entry("the new layer", name, why)
        };
        let old = &meta.header;
        let fields = old.as_old();
        let mut name = name.to_vec();
        if kind.is_dir() {
            name.push(b'/');
        }
        let mut entry = Entry {
            header: Header::new_ustar(),
            records: kept(&meta.records).ok_or_else(|| wrong("attributes"))?,
            name,
        };
        let header = &mut entry.header;
        header.set_entry_type(kind);
        let mode = number(&fields.mode, old.mode()).map_err(|_| wrong("mode"))?;
        header.set_mode(mode & 0o7777);
        let uid = number(&fields.uid, old.uid()).map_err(|_| wrong("owner"))?;
        let gid = number(&fields.gid, old.gid()).map_err(|_| wrong("group"))?;
        header.set_uid(if uid <= MAX_ID { uid } else { 0 });
        header.set_gid(if gid <= MAX_ID { gid } else { 0 });
        let time = number(&fields.mtime, old.mtime()).map_err(|_| wrong("time"))?;
        header.set_mtime(epoch.map_or(time, |epoch| time.min(epoch)));
        if let Some(new) = header.as_ustar_mut() {
            put(&mut new.uname, old.username_bytes().unwrap_or_default());
            put(&mut new.gname, old.groupname_bytes().unwrap_or_default());
        }
        for (key, id) in [("uid", uid), ("gid", gid)] {
            if id > MAX_ID && entry.records.iter().all(|(k, _)| k != key) {
                entry.record(key, id.to_string().as_bytes());
            }
        }
        if let Some(epoch) = epoch {
            let later = |text: &[u8]| {
                let seconds = text.split(|byte| *byte == b'.').next();
                let seconds = seconds.and_then(|s| str::from_utf8(s).ok()?.parse::<i64>().ok());
                seconds.is_some_and(|seconds| i64::try_from(epoch).is_ok_and(|e| seconds >= e))
            };
            let times = ["mtime", "atime", "ctime"];
            let drop = |(key, value): &(String, Vec<u8>)| times.contains(&&key[..]) && later(value);
            entry.records.retain(|record| !drop(record));
        }
        let name = entry.name.clone();
        if name.len() > entry.header.as_old().name.len() || !name.is_ascii() {
            entry.record("path", &name);
        }
        put(&mut entry.header.as_old_mut().name, &name);
        Ok(entry)
    }

    fn link(&mut self, target: &[u8]) {
        if target.len() > self.header.as_old().linkname.len() || !target.is_ascii() {
            self.record("linkpath", target);
        }
        put(&mut self.header.as_old_mut().linkname, target);
    }

    fn record(&mut self, key: &str, value: &[u8]) {
        self.records.push((key.to_owned(), value.to_vec()));
    }

    fn write<W: Write>(
        mut self,
        builder: &mut Builder<W>,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), Error> {
        // Eleven octal digits.
        if size >= 8 << 30 {
            self.record("size", size.to_string().as_bytes());
            self.header.set_size(0);
        } else {
            self.header.set_size(size);
        }
        self.header.set_cksum();
        let records = self.records.iter();
        let records = records.map(|(key, value)| (&key[..], &value[..]));
        builder.append_pax_extensions(records).map_err(broken)?;
        builder.append(&self.header, content).map_err(broken)
    }
}

/// The records of a file that hold for its new content too.
fn kept(records: &Records) -> Option<Vec<(String, Vec<u8>)>> {
    let goes = |key: &[u8]| {
        OWN.contains(&key)
            || SIGNATURES.contains(&key)
            || key.starts_with(b"GNU.sparse.")
            || OVERLAY.iter().any(|start| key.starts_with(start))
    };
    let records = records.iter().filter(|(key, _)| !goes(key));
    let text = |(key, value): &(Vec<u8>, Vec<u8>)| {
        Some((String::from_utf8(key.clone()).ok()?, value.clone()))
    };
    records.map(text).collect()
}

/// As much of it as a field holds; records have the whole.
fn put(field: &mut [u8], bytes: &[u8]) {
    let size = field.len().min(bytes.len());
    field.fill(0);
    field[..size].copy_from_slice(&bytes[..size]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Members;

    impl crate::members::Stream for io::Cursor<Vec<u8>> {}

    fn meta(records: &[(&str, &[u8])]) -> Meta {
        let mut header = Header::new_gnu();
        header.set_mode(0o100_755);
        header.set_uid(10_000_000);
        header.set_gid(7);
        header.set_mtime(1_000);
        header.set_username("me").unwrap();
        let record = |(key, value): &(&str, &[u8])| (key.as_bytes().to_vec(), value.to_vec());
        Meta {
            header,
            records: records.iter().map(record).collect(),
        }
    }

    fn written(names: &[&[u8]], meta: &Meta, epoch: Option<u64>) -> Vec<crate::members::Member> {
        let dir = tempfile::tempdir().unwrap();
        let content = dir.path().join("content");
        std::fs::write(&content, b"new content").unwrap();
        let changed = Changed {
            names: names.iter().map(|name| name.to_vec()).collect(),
            meta,
            content,
        };
        let mut bytes = Vec::new();
        write(&[changed], &Tree::new(), epoch, &mut bytes).unwrap();
        let mut members = Members::new("new", io::Cursor::new(bytes));
        std::iter::from_fn(|| members.next().unwrap()).collect()
    }

    #[test]
    fn all_that_the_image_says_of_a_file_is_kept() {
        let long = [b"usr/", &[b'x'; 200][..], "/\u{e4}".as_bytes(), b"\xff"].concat();
        let records: [(&str, &[u8]); 4] = [
            ("SCHILY.xattr.security.capability", b"\x01\n\x00"),
            ("SCHILY.xattr.security.ima", b"signed"),
            ("path", b"another"),
            ("mtime", b"1000.5"),
        ];
        let members = written(&[&long, b"b"], &meta(&records), None);
        let [file, link] = &members[..] else {
            panic!("a file and a link");
        };
        assert_eq!((&file.name, file.size), (&long, 11));
        assert!(file.kind.is_file() && link.kind.is_hard_link());
        assert_eq!((&link.name[..], &link.link), (&b"b"[..], &long));
        for member in [file, link] {
            let header = &member.header;
            assert_eq!(header.mode().unwrap(), 0o755);
            assert_eq!((header.gid().unwrap(), header.mtime().unwrap()), (7, 1_000));
            assert_eq!(header.username().unwrap(), Some("me"));
            assert_eq!(member.record(b"uid").unwrap(), b"10000000");
            assert_eq!(member.record(b"mtime").unwrap(), b"1000.5");
            let capability = member.record(b"SCHILY.xattr.security.capability");
            assert_eq!(capability.unwrap(), b"\x01\n\x00");
            assert!(member.record(b"SCHILY.xattr.security.ima").is_none());
        }
    }

    #[test]
    fn a_number_that_is_left_empty_is_zero() {
        let mut old = meta(&[]);
        old.header = Header::new_ustar();
        let members = written(&[b"a"], &old, None);
        let header = &members[0].header;
        assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 0));
        old.header.as_old_mut().uid = *b"nonsense";
        let error = Entry::new(b"a", &old, None, EntryType::Regular)
            .err()
            .unwrap();
        let text = error.to_string();
        assert!(
            text.contains("entry 'a': its owner cannot be kept"),
            "{text}"
        );
    }

    #[test]
    fn no_file_is_younger_than_the_epoch() {
        let records: [(&str, &[u8]); 2] = [("mtime", b"1000.5"), ("atime", b"12.25")];
        let members = written(&[b"a"], &meta(&records), Some(900));
        assert_eq!(members[0].header.mtime().unwrap(), 900);
        assert!(members[0].record(b"mtime").is_none());
        assert_eq!(members[0].record(b"atime").unwrap(), b"12.25");
        let members = written(&[b"a"], &meta(&records), Some(2_000));
        assert_eq!(members[0].header.mtime().unwrap(), 1_000);
        assert_eq!(members[0].record(b"mtime").unwrap(), b"1000.5");
    }
}
