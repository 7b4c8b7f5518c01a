// SPDX-License-Identifier: GPL-2.0-only
//! Reads an image's layers: which names they have, and the programs and libraries that could gain,
//! which it copies to a folder of its own.

use crate::Error;
use crate::layer::Layer;
use crate::members::Member;
use crate::store::Store;
use crate::tree::{Item, Meta, Tree, What, parts};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use wideleaf_align::could_gain;
use wideleaf_elf::{Elf, FileSource};

/// How files begin that are programs or libraries.
const MAGIC: &[u8; 4] = b"\x7fELF";

/// Files whose names begin so hide something of a layer below (image-spec, layer.md).
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Files that AUFS keeps for itself.
const AUFS: &[u8] = b".wh..wh.";

/// A file that could gain.
pub(crate) struct Candidate {
    pub(crate) meta: Meta,
    /// The file's bytes; without, they were not read, because holes are left out of them.
    pub(crate) copy: Option<PathBuf>,
}

/// An image's names, and its files that could gain.
pub(crate) struct Gathered {
    pub(crate) tree: Tree,
    pub(crate) candidates: Vec<Candidate>,
}

impl Gathered {
    pub(crate) fn new() -> Gathered {
        Gathered {
            tree: Tree::new(),
            candidates: Vec::new(),
        }
    }

    /// Takes in the next layer. Files of `least` bytes or more are looked at.
    pub(crate) fn layer(
        &mut self,
        store: &Store,
        layer: &Layer,
        least: u64,
        scratch: &Path,
    ) -> Result<(), Error> {
        let mut items = Vec::new();
        let mut at_layer = String::new();
        let candidates = &mut self.candidates;
        layer.read(store, &mut |at, member, content| {
            at_layer = at.to_owned();
            let Some(path) = inside(at, member)? else {
                return Ok(());
            };
            if let Some(item) = hides(at, member, &path)? {
                items.extend(item);
                return Ok(());
            }
            let what = match what(at, member)? {
                What::File(_) if member.size >= least => {
                    let copy = scratch.join(candidates.len().to_string());
                    let candidate = candidate(at, member, content, copy)?;
                    let number = candidate.is_some().then_some(candidates.len());
                    candidates.extend(candidate);
                    What::File(number)
                }
                what => what,
            };
            items.push(Item { path, what });
            Ok(())
        })?;
        let applied = self.tree.apply(items);
        applied.map_err(|(path, why)| Error::entry(&at_layer, &path, why))
    }
}

/// Its name in the image, from the root. None for the archive's own.
fn inside(at: &str, member: &Member) -> Result<Option<Vec<u8>>, Error> {
    let clean = clean(&member.name);
    let path = clean.ok_or_else(|| {
        let why = "its name leads out of the image by '..'";
        Error::entry(at, &member.name, why)
    })?;
    Ok((!path.is_empty() || member.kind.is_dir()).then_some(path))
}

/// A name without what means nothing; None if it leads up.
fn clean(name: &[u8]) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = parts(name).collect();
    (!parts.contains(&&b".."[..])).then(|| parts.join(&b'/'))
}

/// Whether it is there to hide something of the layers below, and what.
#[allow(clippy::option_option)]
fn hides(at: &str, member: &Member, path: &[u8]) -> Result<Option<Option<Item>>, Error> {
    let start = path.iter().rposition(|byte| *byte == b'/');
    let (folder, name) = path.split_at(start.map_or(0, |at| at + 1));
    if name == OPAQUE {
        return Ok(Some(Some(Item {
            path: clean(folder).unwrap_or_default(),
            what: What::Opaque,
        })));
    }
    if name.starts_with(AUFS) {
        return Ok(Some(None));
    }
    match name.strip_prefix(WHITEOUT) {
        None => Ok(None),
        Some(b"" | b"." | b"..") => {
            let why = "is a whiteout of no name";
            Err(Error::entry(at, &member.name, why))
        }
        Some(hidden) => Ok(Some(Some(Item {
            path: [folder, hidden].concat(),
            what: What::Gone,
        }))),
    }
}

fn what(at: &str, member: &Member) -> Result<What, Error> {
    let kind = member.kind;
    Ok(match () {
        () if kind.is_dir() => What::Folder(Box::new(meta(member))),
        () if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() => What::File(None),
        () if kind.is_symlink() => What::Link(member.link.clone()),
        () if kind.is_hard_link() => match clean(&member.link) {
            Some(target) => What::Same(target),
            None => {
                let link = String::from_utf8_lossy(&member.link);
                let why = format!("is a hard link to {link}, which leads out of the image by '..'");
                return Err(Error::entry(at, &member.name, why));
            }
        },
        () if kind.is_fifo() || kind.is_character_special() || kind.is_block_special() => {
            What::Other
        }
        () => {
            let kind = kind.as_byte().escape_ascii();
            let why = format!("has the type '{kind}', which no layer has");
            return Err(Error::entry(at, &member.name, why));
        }
    })
}

fn meta(member: &Member) -> Meta {
    Meta {
        header: member.header.clone(),
        records: member.records.clone(),
    }
}

/// Copies a file that could gain.
fn candidate(
    at: &str,
    member: &Member,
    content: &mut dyn Read,
    copy: PathBuf,
) -> Result<Option<Candidate>, Error> {
    let mut magic = [0; MAGIC.len()];
    let read = content.read_exact(&mut magic);
    read.map_err(crate::members::broken(at))?;
    if magic != *MAGIC {
        return Ok(None);
    }
    let meta = meta(member);
    if member.sparse {
        return Ok(Some(Candidate { meta, copy: None }));
    }
    let written = copy.display().to_string();
    let file = File::create_new(&copy).map_err(Error::io(&written, "cannot create"))?;
    write(at, &written, &magic, content, &file)?;
    let source = FileSource::with_size(file, member.size);
    match Elf::read(&source).is_ok_and(|elf| could_gain(&elf.on_overlay())) {
        true => Ok(Some(Candidate {
            meta,
            copy: Some(copy),
        })),
        false => {
            fs::remove_file(&copy).map_err(Error::io(&written, "cannot remove"))?;
            Ok(None)
        }
    }
}

/// Tells errors of the archive from those of the disk that is written to.
fn write(
    at: &str,
    copy: &str,
    magic: &[u8],
    content: &mut dyn Read,
    mut file: &File,
) -> Result<(), Error> {
    let full = |error: io::Error| Error::io(copy, "cannot write (TMPDIR=DIR moves it)")(error);
    file.write_all(magic).map_err(full)?;
    let mut buffer = vec![0; 128 << 10];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => file.write_all(&buffer[..count]).map_err(full)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(crate::members::broken(at)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_out_is_none_of_the_image() {
        assert_eq!(clean(b"./usr//bin/./x").unwrap(), b"usr/bin/x");
        assert_eq!(clean(b"/etc/passwd").unwrap(), b"etc/passwd");
        assert_eq!(clean(b"./").unwrap(), b"");
        assert_eq!(clean(b"a/..b/c").unwrap(), b"a/..b/c");
        for name in [&b"../x"[..], b"usr/../../x", b"usr/.."] {
            assert!(clean(name).is_none());
        }
    }
}
