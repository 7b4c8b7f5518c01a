// SPDX-License-Identifier: GPL-2.0-only
//! Reads the members of a tar archive: each with its name, its extended records and where it lies.
//!
//! The library `tar` knows the fields of a header. Its own iterator is not used: it splits PAX
//! records at newlines, which values of extended attributes may hold (file capabilities do), and
//! does not tell where the headers begin that belong to a member.

use crate::Error;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use tar::{EntryType, GnuExtSparseHeader, Header};

/// Headers and content come in blocks of so many bytes.
pub(crate) const BLOCK: u64 = 512;
/// Names and attributes of one member may take so many bytes: Linux allows less.
const MAX_EXTENSION: u64 = 4 << 20;

/// PAX records of a member: keys and values.
pub(crate) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// A member of an archive.
pub(crate) struct Member {
    /// Where its first header begins.
    pub(crate) start: u64,
    /// Where its content begins.
    pub(crate) data: u64,
    /// Bytes of content that the archive holds.
    pub(crate) size: u64,
    /// Its name, as it stands there.
    pub(crate) name: Vec<u8>,
    /// The target of a link.
    pub(crate) link: Vec<u8>,
    /// Its type.
    pub(crate) kind: EntryType,
    /// The header as it stands there.
    pub(crate) header: Header,
    /// Its PAX records.
    pub(crate) records: Records,
    /// Whether holes are left out of the content.
    pub(crate) sparse: bool,
}

impl Member {
    /// Where the next member begins.
    pub(crate) fn end(&self) -> u64 {
        self.data + self.size.next_multiple_of(BLOCK)
    }

    /// The value of a PAX record.
    pub(crate) fn record(&self, key: &[u8]) -> Option<&[u8]> {
        // The last one counts.
        let mut records = self.records.iter().rev();
        records.find(|(k, _)| k == key).map(|(_, value)| &value[..])
    }
}

/// Bytes that come one after the other.
pub(crate) trait Stream: Read {
    /// Leaves out so many bytes.
    fn skip(&mut self, count: u64) -> io::Result<()>
    where
        Self: Sized,
    {
        let skipped = io::copy(&mut self.take(count), &mut io::sink())?;
        match skipped == count {
            true => Ok(()),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Stream for File {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let count = i64::try_from(count).map_err(|_| ErrorKind::UnexpectedEof)?;
        let position = self.seek(SeekFrom::Current(count))?;
        match position <= self.metadata()?.len() {
            true => Ok(()),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The members of an archive, one after the other.
pub(crate) struct Members<R> {
    /// The archive, for messages.
    at: String,
    stream: R,
    position: u64,
    /// Bytes of the current member's content that were not read.
    left: u64,
    /// Where the next member begins.
    next: u64,
}

/// The contents of extension headers, which describe the member that follows.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Records,
}

impl<R: Stream> Members<R> {
    /// Of the archive `at`, which is read from its start on.
    pub(crate) fn new(at: &str, stream: R) -> Members<R> {
        Members {
            at: at.to_owned(),
            stream,
            position: 0,
            left: 0,
            next: 0,
        }
    }

    /// The next member; what was not read of the last one is left out.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, Error> {
        let start = self.next;
        let mut extensions = Extensions::default();
        loop {
            let count = self.next - self.position;
            self.stream.skip(count).map_err(broken(&self.at))?;
            self.position = self.next;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let kind = header.entry_type();
            let size = number(&header.as_old().size, header.entry_size()).map_err(|_| {
                let why = "its size is no number";
                Error::entry(&self.at, &header.path_bytes(), why)
            })?;
            let extends = kind.is_gnu_longname()
                || kind.is_gnu_longlink()
                || kind.is_pax_local_extensions()
                || kind.is_pax_global_extensions();
            if !extends {
                return self.member(start, header, size, extensions).map(Some);
            }
            let bytes = self.extension(&header, size)?;
            let text = |bytes: &[u8]| {
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                Some(bytes[..end].to_vec())
            };
            match kind {
                _ if kind.is_gnu_longname() => extensions.name = text(&bytes),
                _ if kind.is_gnu_longlink() => extensions.link = text(&bytes),
                _ if kind.is_pax_local_extensions() => {
                    extensions.records = records(&bytes).ok_or_else(|| {
                        let why = "its PAX records are damaged";
                        Error::entry(&self.at, &header.path_bytes(), why)
                    })?;
                }
                // Runtimes do not look at them either.
                _ => {}
            }
        }
    }

    /// The rest of the stream, after the archive's end.
    pub(crate) fn into_stream(self) -> R {
        self.stream
    }

    /// A header; none at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, Error> {
        let mut header = Header::new_old();
        let mut filled = 0;
        let bytes = header.as_mut_bytes();
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(broken(&self.at)(ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&self.at)(error)),
            }
        }
        self.position += BLOCK;
        self.next += BLOCK;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        match is_sound(&header) {
            true => Ok(Some(header)),
            false => Err(Error::Stream {
                at: self.at.clone(),
                how: format!(
                    "is no tar archive: the header at byte {} has a wrong checksum",
                    self.position - BLOCK
                ),
            }),
        }
    }

    fn extension(&mut self, header: &Header, size: u64) -> Result<Vec<u8>, Error> {
        if size > MAX_EXTENSION {
            let why = format!("names and attributes of {size} bytes, must be at most 4M");
            return Err(Error::entry(&self.at, &header.path_bytes(), why));
        }
        let mut bytes = vec![0; size as usize];
        let read = self.stream.read_exact(&mut bytes);
        read.map_err(broken(&self.at))?;
        self.position += size;
        self.next += size.next_multiple_of(BLOCK);
        Ok(bytes)
    }

    fn member(
        &mut self,
        start: u64,
        header: Header,
        size: u64,
        extensions: Extensions,
    ) -> Result<Member, Error> {
        let mut kind = header.entry_type();
        let mut sparse = kind.is_gnu_sparse();
        if header
            .as_gnu()
            .is_some_and(|gnu| sparse && gnu.is_extended())
        {
            self.sparse_blocks()?;
        }
        let link = header.link_name_bytes().unwrap_or_default().into_owned();
        let mut member = Member {
            start,
            data: self.next,
            size,
            name: extensions.name.unwrap_or(header.path_bytes().into_owned()),
            link: extensions.link.unwrap_or(link),
            kind,
            header,
            records: extensions.records,
            sparse,
        };
        for (key, value) in &member.records {
            match &key[..] {
                b"path" => member.name = value.clone(),
                b"linkpath" => member.link = value.clone(),
                b"size" => {
                    let number = str::from_utf8(value).ok().and_then(|v| v.parse().ok());
                    member.size = number.ok_or_else(|| {
                        let why = "its PAX record 'size' is no number";
                        Error::entry(&self.at, &member.name, why)
                    })?;
                }
                _ if key.starts_with(b"GNU.sparse.") => sparse = true,
                _ => {}
            }
        }
        if let Some(name) = member.record(b"GNU.sparse.name") {
            member.name = name.to_vec();
        }
        member.sparse = sparse;
        if kind.is_file() && member.name.ends_with(b"/") {
            kind = EntryType::Directory;
        }
        member.kind = kind;
        // As Go's library has it, by which runtimes read: these have no content, whatever they say.
        let header_only = kind.is_dir()
            || kind.is_hard_link()
            || kind.is_symlink()
            || kind.is_fifo()
            || kind.is_character_special()
            || kind.is_block_special();
        if header_only {
            member.size = 0;
        }
        let end = member.size.checked_next_multiple_of(BLOCK);
        let end = end.and_then(|size| member.data.checked_add(size));
        self.next = end.ok_or_else(|| {
            let why = format!("its size is {}, which no archive holds", member.size);
            Error::entry(&self.at, &member.name, why)
        })?;
        self.left = member.size;
        Ok(member)
    }

    /// The blocks behind a header that say where holes are.
    fn sparse_blocks(&mut self) -> Result<(), Error> {
        loop {
            let mut block = GnuExtSparseHeader::new();
            let read = self.stream.read_exact(block.as_mut_bytes());
            read.map_err(broken(&self.at))?;
            self.position += BLOCK;
            self.next += BLOCK;
            if !block.is_extended() {
                return Ok(());
            }
        }
    }
}

/// The content of the current member.
impl<R: Stream> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.stream.read(&mut buf[..most])?;
        if count == 0 && most > 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        self.position += count as u64;
        Ok(count)
    }
}

/// Whether a header has the checksum that it says.
fn is_sound(header: &Header) -> bool {
    // The field itself counts as blanks.
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u32::from(*b)).sum::<u32>();
    let bytes = header.as_bytes();
    let expected = sum(&bytes[..148]) + 8 * 32 + sum(&bytes[156..]);
    header.cksum().is_ok_and(|found| found == expected)
}

/// Whether a file that starts with these bytes is a tar archive, an empty one included.
pub(crate) fn begins_archive(start: &[u8]) -> bool {
    let Some(block) = start.get(..BLOCK as usize) else {
        return start.is_empty();
    };
    let mut header = Header::new_old();
    header.as_mut_bytes().copy_from_slice(block);
    block.iter().all(|byte| *byte == 0) || is_sound(&header)
}

/// A number of a header, as `tar` reads it. An empty field is zero, as for Go's library.
pub(crate) fn number<T: Default>(field: &[u8], read: io::Result<T>) -> io::Result<T> {
    match field.iter().all(|byte| matches!(byte, 0 | b' ')) {
        true => Ok(T::default()),
        false => read,
    }
}

/// An error of a stream: of the disk below it, or its own.
pub(crate) fn broken(at: &str) -> impl Fn(io::Error) -> Error {
    let at = at.to_owned();
    move |error| {
        let at = at.clone();
        if error.raw_os_error().is_some() {
            return Error::io(at, "cannot read")(error);
        }
        // Without words of its own, it is the end of the file.
        let how = match (error.kind(), error.get_ref()) {
            (ErrorKind::UnexpectedEof, None) => "is cut short: it ends within an entry".to_owned(),
            _ => error.to_string(),
        };
        Error::Stream { at, how }
    }
}

/// PAX records: `LENGTH KEY=VALUE\n`, where LENGTH counts all of it.
fn records(mut bytes: &[u8]) -> Option<Records> {
    let mut records = Records::new();
    while !bytes.is_empty() {
        let blank = bytes.iter().position(|b| *b == b' ')?;
        let length: usize = str::from_utf8(&bytes[..blank]).ok()?.parse().ok()?;
        let record = bytes.get(blank + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|b| *b == b'=')?;
        records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        bytes = &bytes[length..];
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Stream for &[u8] {}

    fn archive(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        fill(&mut builder);
        builder.into_inner().unwrap()
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, bytes: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, path, bytes).unwrap();
    }

    #[test]
    fn members_have_names_of_any_length_and_places() {
        let long = "a/".repeat(120) + "end";
        let bytes = archive(|builder| {
            file(builder, "short", b"one");
            file(builder, &long, &[7; 600]);
            // A value with a newline, as a capability may have.
            let records = [
                ("SCHILY.xattr.security.capability", &b"\x01\n\x02 3=x\n"[..]),
                ("path", b"by/record"),
            ];
            builder.append_pax_extensions(records).unwrap();
            file(builder, "x", b"three");
        });
        let mut members = Members::new("a.tar", &bytes[..]);
        let one = members.next().unwrap().unwrap();
        assert_eq!((one.start, one.data, one.size), (0, 512, 3));
        let mut content = Vec::new();
        members.read_to_end(&mut content).unwrap();
        assert_eq!(content, b"one");
        let two = members.next().unwrap().unwrap();
        assert_eq!((two.start, &two.name[..]), (one.end(), long.as_bytes()));
        assert_eq!(bytes[two.data as usize..][..600], [7; 600]);
        let three = members.next().unwrap().unwrap();
        assert_eq!(three.start, two.end());
        assert_eq!(three.name, b"by/record");
        let value = three.record(b"SCHILY.xattr.security.capability").unwrap();
        assert_eq!(value, b"\x01\n\x02 3=x\n");
        assert!(members.next().unwrap().is_none());
    }

    #[test]
    fn a_size_of_a_record_counts_more_than_the_header_s() {
        let bytes = archive(|builder| {
            builder
                .append_pax_extensions([("size", &b"5"[..])])
                .unwrap();
            let mut header = Header::new_ustar();
            header.set_path("big").unwrap();
            header.set_size(0);
            header.set_cksum();
            builder.append(&header, &b"12345"[..]).unwrap();
            file(builder, "next", b"");
        });
        let mut members = Members::new("a.tar", &bytes[..]);
        assert_eq!(members.next().unwrap().unwrap().size, 5);
        assert_eq!(members.next().unwrap().unwrap().name, b"next");
    }

    #[test]
    fn what_is_cut_short_or_no_archive_is_an_error_that_names_it() {
        let bytes = archive(|builder| file(builder, "x", &[1; 5000]));
        for cut in [100, 512, 600, 5000] {
            let mut members = Members::new("a.tar", &bytes[..cut]);
            let all = std::iter::from_fn(|| members.next().transpose());
            let error = all.filter_map(Result::err).next().unwrap().to_string();
            assert_eq!(error, "a.tar: is cut short: it ends within an entry");
        }
        let mut members = Members::new("a.tar", &[b'x'; 2048][..]);
        let error = members.next().err().unwrap().to_string();
        assert!(error.contains("byte 0 has a wrong checksum"), "{error}");
        assert!(records(b"9 a=b\n").is_none());
        assert!(records(b"99999999999999999999 a=b\n").is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_give_members_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..4096), good in any::<bool>()) {
            if let (true, Some(block)) = (good, bytes.get(..512)) {
                // Beyond the checksum.
                let mut header = Header::new_old();
                header.as_mut_bytes().copy_from_slice(block);
                header.set_cksum();
                bytes[..512].copy_from_slice(header.as_bytes());
            }
            let mut members = Members::new("a.tar", &bytes[..]);
            while let Ok(Some(member)) = members.next() {
                prop_assert!(member.end() > member.start);
            }
        }
    }
}
