// SPDX-License-Identifier: GPL-2.0-only
//! A tar archive of images: an OCI layout in one file, what `docker save` and `podman save` write,
//! or both at once. A new archive takes the old one's place; members that stay are copied as they
//! are, headers included.

use crate::Error;
use crate::decode::Compression;
use crate::digest::{Digest, Hashing};
use crate::files::{DOCKER, Fill, INDEX, Naming, Opened, lock, open_regular, take_rights};
use crate::folder::check_version;
use crate::members::{BLOCK, Member, Members, begins_archive};
use nix::fcntl::Flock;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tar::Header;
use wideleaf_kit::fresh::{Fresh, folder};

/// Links in an archive may lead on so often.
const MAX_LINKS: usize = 8;

/// An archive of images.
pub(crate) struct Archive {
    path: PathBuf,
    /// Where the new one goes, if not to the old one's place.
    output: Option<PathBuf>,
    file: Flock<File>,
    metadata: Metadata,
    members: Vec<Member>,
    /// Positions in `members`.
    names: HashMap<String, usize>,
    added: Vec<Added>,
}

/// A file that the new archive has in addition.
struct Added {
    name: String,
    content: File,
    size: u64,
}

impl Archive {
    pub(crate) fn open_at(path: &Path) -> Result<Archive, Error> {
        let at = path.display().to_string();
        let (file, metadata) = open_regular(path).map_err(Error::io(&at, "cannot open"))?;
        let mut start = Vec::new();
        let read = (&file).take(BLOCK).read_to_end(&mut start);
        read.map_err(Error::io(&at, "cannot read"))?;
        let why = match Compression::sniff(&start) {
            Compression::Gzip => Some("is compressed: `gunzip` it first"),
            Compression::Zstd => Some("is compressed: `zstd -d` it first"),
            Compression::None if begins_archive(&start) => None,
            Compression::None => {
                Some("is no tar archive: name an OCI layout, or an archive of docker save")
            }
        };
        let not_images = |why: &str| {
            Err(Error::NotImages {
                at: at.clone(),
                why: why.to_owned(),
            })
        };
        if let Some(why) = why {
            return not_images(why);
        }
        let file = lock(file, path)?;
        let mut reader = file.try_clone().map_err(Error::io(&at, "cannot read"))?;
        let rewound = reader.rewind();
        rewound.map_err(Error::io(&at, "cannot read"))?;
        let mut reading = Members::new(&at, reader);
        let (mut members, mut names) = (Vec::new(), HashMap::new());
        while let Some(member) = reading.next()? {
            names.insert(plain(&member.name), members.len());
            members.push(member);
        }
        let archive = Archive {
            path: path.to_owned(),
            output: None,
            file,
            metadata,
            members,
            names,
            added: Vec::new(),
        };
        let is_layout = archive.has("oci-layout");
        if is_layout {
            let at = format!("{at}: oci-layout");
            let mut bytes = Vec::new();
            if let Some((reader, _)) = archive.open("oci-layout")? {
                let read = reader.take(1 << 16).read_to_end(&mut bytes);
                read.map_err(Error::io(&at, "cannot read"))?;
            }
            check_version(&at, &bytes)?;
        }
        match (is_layout && archive.has(INDEX)) || archive.has(DOCKER) {
            true => Ok(archive),
            false => not_images(
                "is no archive of images: it has neither oci-layout and index.json nor manifest.json \
                 (for a file system in a tar archive, unpack it and use -r)",
            ),
        }
    }

    /// The new archive goes there.
    pub(crate) fn to(self, output: &Path) -> Archive {
        Archive {
            output: Some(output.to_owned()),
            ..self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    pub(crate) fn open(&self, name: &str) -> Result<Option<Opened<'_>>, Error> {
        let mut name = name.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(member) = self.names.get(&name).map(|at| &self.members[*at]) else {
                return Ok(None);
            };
            match member.kind {
                kind if kind.is_symlink() => {
                    let parent = Path::new(&name).parent().unwrap_or(Path::new(""));
                    let link = String::from_utf8_lossy(&member.link).into_owned();
                    name = plain(parent.join(link).to_string_lossy().as_bytes());
                }
                kind if kind.is_hard_link() => name = plain(&member.link),
                kind if kind.is_file() && !member.sparse => {
                    let place = Place {
                        file: &self.file,
                        at: member.data,
                        left: member.size,
                    };
                    return Ok(Some((Box::new(place), member.size)));
                }
                _ => break,
            }
        }
        let at = self.path.display().to_string();
        Err(Error::entry(&at, name.as_bytes(), "is no regular file"))
    }

    pub(crate) fn put(&mut self, name: &Naming, fill: &mut Fill) -> Result<(Digest, u64), Error> {
        let target = self.target().to_owned();
        let at = target.display().to_string();
        let content = tempfile::tempfile_in(folder(&target));
        let content = content.map_err(Error::io(&at, "cannot create a file beside it"))?;
        let mut out = Hashing::new(BufWriter::new(&content));
        fill(&mut out)?;
        let what = "cannot write beside it";
        out.flush().map_err(Error::io(&at, what))?;
        let (digest, size, out) = out.finish();
        drop(out);
        let name = name(&digest);
        if !self.has(&name) && self.added.iter().all(|added| added.name != name) {
            self.added.push(Added {
                name,
                content,
                size,
            });
        }
        Ok((digest, size))
    }

    pub(crate) fn commit(self, documents: &[(&str, Vec<u8>)]) -> Result<(), Error> {
        let target = self.target();
        let at = target.display().to_string();
        let fresh = Fresh::beside(target).map_err(Error::io(&at, "cannot write"))?;
        self.write(fresh.file(), documents)
            .map_err(Error::io(&at, "cannot write"))?;
        take_rights(&self.metadata, fresh.file()).map_err(Error::io(&at, "cannot set its mode"))?;
        let identity = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
        let now = self.path.metadata();
        if now.ok().as_ref().map(identity) != Some(identity(&self.metadata)) {
            return Err(Error::Changed(self.path.display().to_string()));
        }
        let named = fresh.replace(target);
        named.map_err(|failed| Error::io(at, "cannot replace")(failed.error))
    }

    fn target(&self) -> &Path {
        self.output.as_deref().unwrap_or(&self.path)
    }

    fn write(&self, out: &File, documents: &[(&str, Vec<u8>)]) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        for member in &self.members {
            let name = plain(&member.name);
            let document = documents.iter().find(|(document, _)| *document == name);
            match document {
                Some((_, bytes)) => {
                    let mut header = member.header.clone();
                    header.set_size(bytes.len() as u64);
                    header.set_cksum();
                    append(&mut out, &header, bytes.len() as u64, &mut &bytes[..])?;
                }
                None => {
                    let mut all = Place {
                        file: &self.file,
                        at: member.start,
                        left: member.end() - member.start,
                    };
                    io::copy(&mut all, &mut out)?;
                }
            }
        }
        // As old as the document that names it: the same input gives the same bytes.
        let index = self.names.get(INDEX).or(self.names.get(DOCKER));
        let time = index.and_then(|at| self.members[*at].header.mtime().ok());
        for added in &self.added {
            let mut header = Header::new_ustar();
            header.set_path(&added.name)?;
            header.set_mode(0o644);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(added.size);
            header.set_mtime(time.unwrap_or(0));
            header.set_cksum();
            let mut content = &added.content;
            content.seek(SeekFrom::Start(0))?;
            append(&mut out, &header, added.size, &mut content)?;
        }
        out.write_all(&[0; 2 * BLOCK as usize])?;
        out.flush()
    }
}

fn append(
    out: &mut impl Write,
    header: &Header,
    size: u64,
    content: &mut impl Read,
) -> io::Result<()> {
    out.write_all(header.as_bytes())?;
    io::copy(content, out)?;
    let rest = size.next_multiple_of(BLOCK) - size;
    out.write_all(&vec![0; rest as usize])
}

/// A part of a file.
struct Place<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Place<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buf[..most], self.at)?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// A member's name without what means nothing: `./a//b/../c/` is `a/c`.
fn plain(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documents() {
        assert_eq!(plain(b"./blobs//sha256/x"), "blobs/sha256/x");
        assert_eq!(plain(b"id/../other/layer.tar"), "other/layer.tar");
        assert_eq!(plain(b"/../../etc/passwd"), "etc/passwd");
    }
}
