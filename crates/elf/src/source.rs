// SPDX-License-Identifier: GPL-2.0-only
//! Reading little: ELF headers sit in the first page and, for the sections, in
//! the last few kilobytes of a file; nothing between them is ever read.

use crate::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Random access to the bytes of a file.
pub trait Source {
    /// Size in bytes.
    fn size(&self) -> u64;
    /// Fills `buf` from `offset` on. Reading past the end is an error.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..)?.get(..buf.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// An open regular file and its size.
pub struct FileSource {
    file: File,
    size: u64,
}

impl FileSource {
    /// Takes the size once: a file that shrinks later gives an I/O error.
    pub fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(FileSource::with_size(file, size))
    }

    /// The same, for a caller that knows the size.
    pub fn with_size(file: File, size: u64) -> Self {
        FileSource { file, size }
    }
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

/// Nothing that we read is larger in an honest file; a hostile one does not
/// get to choose how much memory is taken.
const MAX_READ: u64 = 1 << 20;

/// A source with the few windows of it that were read.
pub(crate) struct Windows<'s, S: Source + ?Sized> {
    source: &'s S,
    windows: Vec<(u64, Vec<u8>)>,
}

impl<'s, S: Source + ?Sized> Windows<'s, S> {
    pub(crate) fn new(source: &'s S) -> Self {
        Windows {
            source,
            windows: Vec::with_capacity(4),
        }
    }

    pub(crate) fn file_size(&self) -> u64 {
        self.source.size()
    }

    /// Reads a range ahead in one go, cut to the file; what is then asked for
    /// inside it costs no further system call.
    pub(crate) fn prefetch(&mut self, offset: u64, size: u64) -> Result<(), Error> {
        let end = offset
            .saturating_add(size.min(MAX_READ))
            .min(self.file_size());
        if offset < end {
            self.load(offset, end - offset)?;
        }
        Ok(())
    }

    /// The bytes at `offset`; `what` names them in the error.
    pub(crate) fn bytes(&mut self, what: &str, offset: u64, size: u64) -> Result<&[u8], Error> {
        let inside = offset
            .checked_add(size)
            .is_some_and(|end| end <= self.file_size());
        if !inside {
            return Err(Error::Truncated {
                what: what.to_string(),
                offset,
                size,
                file_size: self.file_size(),
            });
        }
        if size > MAX_READ {
            return Err(Error::field(
                format!("size of {what}"),
                format!("{size:#x}"),
                format!("at most {MAX_READ:#x}"),
            ));
        }
        let found = self.windows.iter().position(|(start, bytes)| {
            *start <= offset && offset + size <= start + bytes.len() as u64
        });
        let index = match found {
            Some(index) => index,
            None => self.load(offset, size)?,
        };
        let (start, bytes) = &self.windows[index];
        let at = (offset - start) as usize;
        Ok(&bytes[at..at + size as usize])
    }

    fn load(&mut self, offset: u64, size: u64) -> Result<usize, Error> {
        let mut bytes = vec![0; size as usize];
        self.source.read_exact_at(&mut bytes, offset)?;
        self.windows.push((offset, bytes));
        Ok(self.windows.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_past_the_end_names_itself_and_reads_nothing() {
        let data: &[u8] = &[1, 2, 3, 4];
        let mut windows = Windows::new(&data);
        assert_eq!(windows.bytes("x", 1, 3).unwrap(), [2, 3, 4]);
        for (offset, size) in [(2, 3), (u64::MAX, 1), (5, 0), (0, u64::MAX)] {
            let error = windows.bytes("the table", offset, size).unwrap_err();
            assert!(error.to_string().contains("the table"), "{error}");
        }
        assert_eq!(windows.windows.len(), 1);
    }

    #[test]
    fn no_read_is_larger_than_the_limit_even_if_the_file_is() {
        struct Huge;
        impl Source for Huge {
            fn size(&self) -> u64 {
                1 << 50
            }
            fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
                assert!(buf.len() as u64 <= MAX_READ);
                Ok(())
            }
        }
        let mut windows = Windows::new(&Huge);
        assert!(windows.bytes("x", 0, 1 << 40).is_err());
        windows.prefetch(0, 1 << 40).unwrap();
    }
}
