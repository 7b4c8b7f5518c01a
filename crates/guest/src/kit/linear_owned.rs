// SPDX-License-Identifier: GPL-2.0-only
//! Memory that the kernel reads and writes through its linear map, because it copies it: each byte
//! that comes back is checked.

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes that are copied at once.
pub const PIECE: usize = 64 << 10;

/// A file in the page cache, and what each of its pieces holds.
#[derive(Debug)]
pub struct Owned {
    file: File,
    /// By which each piece was last written.
    keys: Vec<u64>,
    buffer: Vec<u64>,
}

impl Owned {
    /// One of so many bytes, or of one piece, with random content.
    pub fn filled(bytes: u64, rng: &mut Rng) -> Result<Self> {
        let file = memfd_create(c"owned", MFdFlags::empty()).context("memfd_create")?;
        let mut owned = Self {
            file: file.into(),
            keys: vec![0; (bytes as usize / PIECE).max(1)],
            buffer: vec![0; PIECE / 8],
        };
        for piece in 0..owned.pieces() {
            owned.write(piece, rng.u64(..))?;
        }
        Ok(owned)
    }

    /// How many pieces it has.
    pub fn pieces(&self) -> usize {
        self.keys.len()
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: words are bytes too.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.as_mut_ptr().cast(), PIECE) }
    }

    /// Has the kernel write a piece: words that follow from `key`.
    pub fn write(&mut self, piece: usize, key: u64) -> Result<()> {
        self.keys[piece] = key;
        for (nth, word) in self.buffer.iter_mut().enumerate() {
            *word = word_of(key, nth);
        }
        let at = (piece * PIECE) as u64;
        let file = self.file.try_clone()?;
        file.write_all_at(self.bytes(), at).context("write")
    }

    /// Has the kernel read all of it, and checks each byte. Returns how many.
    pub fn check_all(&mut self) -> Result<u64> {
        for piece in 0..self.pieces() {
            self.check(piece)?;
        }
        Ok((self.pieces() * PIECE) as u64)
    }

    /// Has the kernel read a piece, and checks each byte.
    pub fn check(&mut self, piece: usize) -> Result<()> {
        let (at, file) = ((piece * PIECE) as u64, self.file.try_clone()?);
        file.read_exact_at(self.bytes(), at).context("read")?;
        compare(&self.buffer, self.keys[piece]).with_context(|| format!("piece {piece}"))
    }
}

fn word_of(key: u64, nth: usize) -> u64 {
    (key ^ nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn compare(buffer: &[u64], key: u64) -> Result<()> {
    for (nth, &found) in buffer.iter().enumerate() {
        let word = word_of(key, nth);
        ensure!(found == word, "byte {}: {found:#x}, not {word:#x}", nth * 8);
    }
    Ok(())
}

/// Gives pages of this process to a pipe, out of which the kernel copies them.
pub fn through_pipe(rng: &mut Rng) -> Result<()> {
    let (read, write) = nix::unistd::pipe().context("pipe")?;
    let key = rng.u64(..);
    let mut sent: Vec<_> = (0..512).map(|nth| word_of(key, nth)).collect();
    let part = libc::iovec {
        iov_base: sent.as_mut_ptr().cast(),
        iov_len: 4096,
    };
    // SAFETY: the pages stay as they are until they are read below.
    let given = unsafe { libc::vmsplice(write.as_raw_fd(), &part, 1, 0) };
    if given != 4096 {
        // A kernel that does not splice; then write.
        File::from(write).write_all(
            &sent
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<_>>(),
        )?;
    }
    let mut got = vec![0; 4096];
    File::from(read).read_exact(&mut got).context("a pipe")?;
    let got: Vec<_> = got
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    compare(&got, key).context("through a pipe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_checked() {
        let mut rng = Rng::with_seed(1);
        let mut owned = Owned::filled(3 * PIECE as u64, &mut rng).unwrap();
        assert_eq!(owned.check_all().unwrap(), 3 * PIECE as u64);
        owned.file.write_all_at(&[0], PIECE as u64 + 77).unwrap();
        owned.check(0).unwrap();
        let error = format!("{:#}", owned.check_all().unwrap_err());
        assert!(error.starts_with("piece 1: byte 72: "), "{error}");
        through_pipe(&mut rng).unwrap();
    }
}
